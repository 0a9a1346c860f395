/* Reads the same pages of a file whose pages are in no cache:
 * read_ways read|direct|mmap|sendfile FILE all|PAGE... */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 128 * 1024 };

static void need(int so, const char *what) {
    if (!so) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    need(argc > 3, "arguments");
    const char *way = argv[1];
    int all = strcmp(argv[3], "all") == 0;
    int direct = strcmp(way, "direct") == 0;
    int fd = open(argv[2], O_RDWR | (direct ? O_DIRECT : 0));
    need(fd >= 0, argv[2]);
    /* What was written goes to the filesystem, and then from the cache. */
    need(fsync(fd) == 0, "fsync");
    need(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
    need(posix_fadvise(fd, 0, 0, all ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM) == 0, "fadvise");
    struct stat st;
    need(fstat(fd, &st) == 0, "fstat");
    char *map = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    need(map != MAP_FAILED || direct, "mmap");
    if (map != MAP_FAILED) {
        need(madvise(map, st.st_size, all ? MADV_SEQUENTIAL : MADV_RANDOM) == 0, "madvise");
    }
    int sink = open("/dev/null", O_WRONLY);
    char *buffer = NULL;
    need(posix_memalign((void **)&buffer, PAGE, PIECE) == 0, "memory");
    size_t len = all ? PIECE : PAGE;
    size_t count = all ? (size_t)st.st_size / PIECE : (size_t)argc - 3;
    unsigned long sum = 0;
    for (size_t i = 0; i < count; i++) {
        off_t at = all ? (off_t)(i * PIECE) : (off_t)atol(argv[3 + i]) * PAGE;
        if (strcmp(way, "mmap") == 0) {
            for (size_t b = 0; b < len; b += PAGE) {
                sum += ((volatile char *)map)[at + b];
            }
        } else if (strcmp(way, "sendfile") == 0) {
            need(sendfile(sink, fd, &at, len) == (ssize_t)len, "sendfile");
        } else {
            need(pread(fd, buffer, len, at) == (ssize_t)len, way);
        }
    }
    return sum == 1;
}

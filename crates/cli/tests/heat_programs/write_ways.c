/* Writes the same pages of a file, and waits until the filesystem has them:
 * write_ways write|direct|mmap|copy FILE SOURCE PAGE... */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void need(int so, const char *what) {
    if (!so) {
        perror(what);
        exit(1);
    }
}

int main(int argc, char **argv) {
    need(argc > 4, "arguments");
    const char *way = argv[1];
    int fd = open(argv[2], O_RDWR | (strcmp(way, "direct") == 0 ? O_DIRECT : 0));
    need(fd >= 0, argv[2]);
    int source = open(argv[3], O_RDONLY);
    need(source >= 0, argv[3]);
    struct stat st;
    need(fstat(fd, &st) == 0, "fstat");
    char *map = NULL;
    if (strcmp(way, "mmap") == 0) {
        map = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        need(map != MAP_FAILED, "mmap");
    }
    char *page = NULL;
    need(posix_memalign((void **)&page, PAGE, PAGE) == 0, "memory");
    memset(page, 'w', PAGE);
    for (int i = 4; i < argc; i++) {
        off_t at = (off_t)atol(argv[i]) * PAGE;
        if (map != NULL) {
            memcpy(map + at, page, PAGE);
        } else if (strcmp(way, "copy") == 0) {
            off_t from = at;
            need(copy_file_range(source, &from, fd, &at, PAGE, 0) == PAGE, "copy_file_range");
        } else {
            need(pwrite(fd, page, PAGE, at) == PAGE, way);
        }
    }
    if (map != NULL) {
        need(msync(map, st.st_size, MS_SYNC) == 0, "msync");
    }
    need(fsync(fd) == 0, "fsync");
    return 0;
}

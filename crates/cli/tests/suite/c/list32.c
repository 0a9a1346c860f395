/* list32 DIRECTORY: lists it as a program without flags for large files does, and goes back to
 * every position, of which the last name before it is removed and another one made. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 10000

static char names[MOST][16];
static long places[MOST];

static void fail(const char *what, int at)
{
    printf("%s at %d: %s\n", what, at, strerror(errno));
    exit(1);
}

int main(int argc, char **argv)
{
    struct dirent *entry;
    struct stat stat;
    int count = 0;
    _Static_assert(sizeof(off_t) == 4, "a file offset of 32 bits");
    if (argc != 2 || chdir(argv[1]) != 0)
        return 2;
    DIR *dir = opendir(".");
    for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0) {
        if (count == MOST)
            fail("too many", count);
        strncpy(names[count], entry->d_name, 15);
        if (lstat(names[count], &stat) != 0)
            fail("lstat", count);
        places[count++] = telldir(dir);
    }
    if (errno != 0)
        fail("readdir", count);
    printf("%d entries\n", count);
    for (int at = 2; at + 1 < count; at += 97) {
        char fresh[16];
        snprintf(fresh, sizeof fresh, "fresh-%d", at);
        if (unlink(names[at]) != 0 || close(creat(fresh, 0600)) != 0)
            fail("change", at);
        seekdir(dir, places[at]);
        do {
            entry = readdir(dir);
        } while (entry != NULL && strncmp(entry->d_name, "fresh", 5) == 0);
        if (entry == NULL || strcmp(entry->d_name, names[at + 1]) != 0)
            fail("another name", at);
    }
    puts("every position holds");
    return 0;
}

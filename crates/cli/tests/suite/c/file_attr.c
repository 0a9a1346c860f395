/* Sets the attributes of a file to what they are, but its project to 0 by the ioctl, and to what the
 * kernel tells by the calls of Linux 6.17. file_attr ioctl|call FILE: prints the project then. */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same on all machines: they came after the tables were made one. */
#define NR_FILE_GETATTR 468
#define NR_FILE_SETATTR 469

struct attributes {
    uint64_t xflags;
    uint32_t extsize;
    uint32_t nextents;
    uint32_t projid;
    uint32_t cowextsize;
};

_Static_assert(sizeof(struct attributes) == 24, "size of the first version");

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    int fd = open(argv[2], O_RDONLY);
    if (fd < 0) {
        perror(argv[2]);
        return 1;
    }
    struct fsxattr fsx;
    if (strcmp(argv[1], "ioctl") == 0) {
        if (ioctl(fd, FS_IOC_FSGETXATTR, &fsx)) {
            perror("FS_IOC_FSGETXATTR");
            return 1;
        }
        fsx.fsx_projid = 0;
        if (ioctl(fd, FS_IOC_FSSETXATTR, &fsx)) {
            perror("FS_IOC_FSSETXATTR");
            return 1;
        }
    } else {
        struct attributes all;
        memset(&all, 0, sizeof all);
        if (syscall(NR_FILE_GETATTR, AT_FDCWD, argv[2], &all, sizeof all, 0)) {
            if (errno == ENOSYS) {
                puts("ENOSYS");
                return 0;
            }
            perror("file_getattr");
            return 1;
        }
        if (syscall(NR_FILE_SETATTR, AT_FDCWD, argv[2], &all, sizeof all, 0)) {
            perror("file_setattr");
            return 1;
        }
    }
    if (ioctl(fd, FS_IOC_FSGETXATTR, &fsx)) {
        perror("FS_IOC_FSGETXATTR");
        return 1;
    }
    printf("project %u\n", fsx.fsx_projid);
    return 0;
}

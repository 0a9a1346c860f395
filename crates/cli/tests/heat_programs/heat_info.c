/* Asks for the heat of a file as programs written for the VFS hot tracking patches do.
 * heat_info live|stored|short|long FILE: prints the fields, or the number of the error. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

struct hot_heat_info {
    uint8_t live;
    uint8_t flags; /* resv[0] of the patches: 1 where accesses were sampled */
    uint8_t resv[2];
    uint32_t temp;
    uint64_t avg_delta_reads;
    uint64_t avg_delta_writes;
    uint64_t last_read_time;
    uint64_t last_write_time;
    uint32_t num_reads;
    uint32_t num_writes;
    uint64_t estimated; /* future[0] of the patches */
    uint64_t future[3];
};

struct too_short {
    uint8_t bytes[64];
};

struct too_long {
    uint8_t bytes[96];
};

#define FS_IOC_GET_HEAT_INFO _IOR('f', 17, struct hot_heat_info)
#define FS_IOC_GET_HEAT_INFO_BY _IOWR('f', 17, struct hot_heat_info)
#define FS_IOC_GET_HEAT_INFO_SHORT _IOR('f', 17, struct too_short)
#define FS_IOC_GET_HEAT_INFO_LONG _IOR('f', 17, struct too_long)

_Static_assert(sizeof(struct hot_heat_info) == 80, "size");
_Static_assert(FS_IOC_GET_HEAT_INFO == 0x80506611, "number");

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    int fd = open(argv[2], O_RDONLY);
    if (fd < 0) {
        perror(argv[2]);
        return 1;
    }
    struct hot_heat_info info;
    struct too_long more;
    memset(&info, 0xaa, sizeof info);
    int failed;
    if (strcmp(argv[1], "live") == 0) {
        failed = ioctl(fd, FS_IOC_GET_HEAT_INFO, &info);
    } else if (strcmp(argv[1], "short") == 0) {
        failed = ioctl(fd, FS_IOC_GET_HEAT_INFO_SHORT, &info);
    } else if (strcmp(argv[1], "long") == 0) {
        failed = ioctl(fd, FS_IOC_GET_HEAT_INFO_LONG, &more);
    } else {
        info.live = strcmp(argv[1], "stored") != 0;
        failed = ioctl(fd, FS_IOC_GET_HEAT_INFO_BY, &info);
    }
    if (failed) {
        printf("errno %d\n", errno);
        return 0;
    }
    printf("live %u temp %u reads %u writes %u last_read %llu last_write %llu delta %llu %llu",
           info.live, info.temp, info.num_reads, info.num_writes,
           (unsigned long long)info.last_read_time, (unsigned long long)info.last_write_time,
           (unsigned long long)info.avg_delta_reads, (unsigned long long)info.avg_delta_writes);
    printf(" sampled %u estimated %llu future %d\n", info.flags,
           (unsigned long long)info.estimated,
           info.resv[0] || info.resv[1] || info.future[0] || info.future[1] || info.future[2]);
    return 0;
}

/* idmap SOURCE TARGET: mounts SOURCE on TARGET; its ids 0 to 65535 are 100000 to 165535 there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int must(int value, const char *what)
{
    if (value < 0) {
        perror(what);
        exit(1);
    }
    return value;
}

static void map(int pid, const char *which)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
    int fd = must(open(path, O_WRONLY), path);
    must(dprintf(fd, "0 100000 65536") == 14 ? 0 : -1, path);
    close(fd);
}

int main(int argc, char **argv)
{
    int ready[2];
    char path[64], byte;
    if (argc != 3)
        return 2;
    must(pipe(ready), "pipe");
    int pid = must(fork(), "fork");
    if (pid == 0) {
        must(unshare(CLONE_NEWUSER), "unshare");
        must(write(ready[1], "r", 1), "write");
        pause();
        return 0;
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    map(pid, "uid_map");
    map(pid, "gid_map");
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
    attr.userns_fd = must(open(path, O_RDONLY | O_CLOEXEC), path);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    int tree = must(open_tree(AT_FDCWD, argv[1], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), "open_tree");
    must(mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr), "mount_setattr");
    must(move_mount(tree, "", AT_FDCWD, argv[2], MOVE_MOUNT_F_EMPTY_PATH), "move_mount");
    return 0;
}

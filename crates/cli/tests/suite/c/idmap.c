/* idmap SOURCE TARGET: mounts SOURCE on TARGET; its ids 0 to 65535 are 100000 to 165535 there.
   idmap -- COMMAND: runs it as root of a user namespace whose ids 0 to 65535 are those. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
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

/* In the child of a pair: waits until its ids are mapped, and becomes their root. */
static void run(char **command, int mapped)
{
    char byte;
    if (read(mapped, &byte, 1) != 1)
        exit(1);
    must(setgroups(0, NULL), "setgroups");
    must(setresgid(0, 0, 0), "setresgid");
    must(setresuid(0, 0, 0), "setresuid");
    execvp(command[0], command);
    must(-1, command[0]);
}

int main(int argc, char **argv)
{
    int ready[2], mapped[2], status;
    char path[64], byte;
    if (argc < 3)
        return 2;
    int runs = strcmp(argv[1], "--") == 0;
    must(pipe(ready), "pipe");
    must(pipe(mapped), "pipe");
    int pid = must(fork(), "fork");
    if (pid == 0) {
        /* Nobody waits for it when the parent has ended. */
        must(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
        close(mapped[1]);
        must(unshare(CLONE_NEWUSER), "unshare");
        must(write(ready[1], "r", 1), "write");
        if (runs)
            run(argv + 2, mapped[0]);
        pause();
        return 0;
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    map(pid, "uid_map");
    map(pid, "gid_map");
    if (runs) {
        must(write(mapped[1], "m", 1), "write");
        must(waitpid(pid, &status, 0), "waitpid");
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    }
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

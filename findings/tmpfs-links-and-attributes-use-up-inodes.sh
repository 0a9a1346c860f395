#!/usr/bin/env bash
# Linux 6.18, tmpfs, python3 of Debian 12, run as root.
#
# Guess: nr_inodes limits the number of files and directories of a tmpfs, as the inode table of ext4
# does: a second name of a file costs none, and an extended attribute takes room from size=.
# Seen: df -i counts every hard link as an inode of its own, and a user attribute as one inode for
# each KiB of it, begun or full; size= knows nothing of either. In a mount with 100 inodes one file
# with 99 names leaves none, and a file with a value of 60 KiB leaves 37. What comes next fails with
# ENOSPC while df shows no block in use.
# So nr_inodes of a mount that holds build trees linked into each other (cp -l, rsync --link-dest,
# package stores) or files with attributes is counted in names and in KiB, and a program that warns
# of "no inodes left" must not divide by the number of files.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
mkdir mount
try() { # NAME: tells what is in use in a new mount after some calls
    mount -t tmpfs -o size=8m,nr_inodes=100 tmpfs mount
    python3 - "$1" <<'PYTHON'
import errno
import os
import sys

os.chdir("mount")


def used():
    room = os.statvfs(".")
    return room.f_files - room.f_ffree, room.f_blocks - room.f_bfree


open("file", "w").close()
before, _ = used()
if sys.argv[1] == "links":
    for number in range(1000):
        try:
            os.link("file", f"name{number}")
        except OSError as error:
            print(f"links: {errno.errorcode[error.errno]} behind {os.stat('file').st_nlink} names")
            break
else:
    for size in [1, 1000, 60 * 1024]:
        os.setxattr("file", "user.key", bytes(size))
        inodes, blocks = used()
        print(f"value of {size} bytes: {inodes - before} inodes, {blocks} blocks")
    try:
        for made in range(200):
            os.mkdir(f"directory{made}")
    except OSError as error:
        print(f"directories: {errno.errorcode[error.errno]} behind {made}")
PYTHON
    umount mount
}
seen=$(try links; try attributes)
printf '%s\n' "$seen"
expected="links: ENOSPC behind 99 names
value of 1 bytes: 1 inodes, 0 blocks
value of 1000 bytes: 2 inodes, 0 blocks
value of 61440 bytes: 61 inodes, 0 blocks
directories: ENOSPC behind 37"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

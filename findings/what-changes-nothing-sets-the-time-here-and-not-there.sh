#!/usr/bin/env bash
# Linux 6.18, ext4 (e2fsprogs 1.47.0), XFS (xfsprogs 6.1.0), btrfs (btrfs-progs 6.2; packages of
# Debian 12) and tmpfs, python3 of Debian 12, run as root.
#
# Guess: truncate(2) and ftruncate(2) are one call with two ways to name the file. What changes
# neither data nor size changes no mtime, as write(2) of 0 bytes changes none; and whatever the
# answer is, it is the kernel's, for all filesystems.
# Seen: ftruncate to the size that the file has sets mtime and ctime on all four; truncate to that
# size does so on ext4 and tmpfs, and not on XFS and btrfs (for an empty file not on tmpfs either).
# Reserving what is allocated already (posix_fallocate) sets them on all four, and punching a hole
# into a hole on all but btrfs. Opening an empty file with O_TRUNC sets them everywhere.
# So a program that "makes sure" of a file's size or room has it built, copied and backed up again,
# and not on every filesystem. A server behind FUSE has to tell the two calls apart, by the file
# handle in the request, and finds no common answer to copy; rsync --preallocate and the like show
# what users will see.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    xfsprogs=6.1.0-1 libinih1=55-1 liburcu8=0.13.2-1 btrfs-progs=6.2-1+deb12u2
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
mkdir mount
cat > probe.py <<'PYTHON'
import os
import subprocess
import sys
import time

PATH = "mount/file"


def punch(descriptor):
    subprocess.run(["fallocate", "-p", "-o", "65536", "-l", "65536", PATH], check=True)


def reopen(descriptor):
    os.close(os.open(PATH, os.O_WRONLY | os.O_TRUNC))


def is_new(size, action):
    """Whether the action gives another mtime to a file of that size, of which 8 KiB are data."""
    descriptor = os.open(PATH, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    os.write(descriptor, bytes(min(size, 8192)))
    os.ftruncate(descriptor, size)
    os.fsync(descriptor)
    os.utime(PATH, (1, 1))
    time.sleep(0.02)
    action(descriptor)
    os.close(descriptor)
    return "new" if os.stat(PATH).st_mtime != 1 else "old"


cases = {
    "write of nothing": (8192, lambda descriptor: os.write(descriptor, b"")),
    "ftruncate": (8192, lambda descriptor: os.ftruncate(descriptor, 8192)),
    "truncate": (8192, lambda _: os.truncate(PATH, 8192)),
    "truncate of an empty file": (0, lambda _: os.truncate(PATH, 0)),
    "O_TRUNC of one": (0, reopen),
    "reserve": (8192, lambda descriptor: os.posix_fallocate(descriptor, 0, 8192)),
    "punch": (1 << 20, punch),
}
for name, case in cases.items():
    print(f"{sys.argv[1]}, {name}: {is_new(*case)}")
PYTHON
seen=$(
    for fs in ext4 xfs btrfs tmpfs; do
        rm -f image
        truncate -s 400M image
        if [ $fs = tmpfs ]; then
            mount -t tmpfs tmpfs mount
        else
            LD_LIBRARY_PATH=$libraries packages/sbin/mkfs.$fs -q image > messages 2>&1
            mount -o loop image mount
        fi
        python3 probe.py $fs
        umount mount
    done
)
printf '%s\n' "$seen"
expected="ext4, write of nothing: old
ext4, ftruncate: new
ext4, truncate: new
ext4, truncate of an empty file: new
ext4, O_TRUNC of one: new
ext4, reserve: new
ext4, punch: new
xfs, write of nothing: old
xfs, ftruncate: new
xfs, truncate: old
xfs, truncate of an empty file: old
xfs, O_TRUNC of one: new
xfs, reserve: new
xfs, punch: new
btrfs, write of nothing: old
btrfs, ftruncate: new
btrfs, truncate: old
btrfs, truncate of an empty file: old
btrfs, O_TRUNC of one: new
btrfs, reserve: new
btrfs, punch: old
tmpfs, write of nothing: old
tmpfs, ftruncate: new
tmpfs, truncate: new
tmpfs, truncate of an empty file: old
tmpfs, O_TRUNC of one: new
tmpfs, reserve: new
tmpfs, punch: new"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

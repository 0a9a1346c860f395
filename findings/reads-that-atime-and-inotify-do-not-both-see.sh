#!/usr/bin/env bash
# Linux 6.18, ext4 (e2fsprogs 1.47.0), XFS (xfsprogs 6.1.0), btrfs (btrfs-progs 6.2; packages of
# Debian 12) and tmpfs, all with strictatime, inotify, python3 and cp of Debian 12, run as root.
#
# Guess: with strictatime the access time and IN_ACCESS of inotify are two views of one thing: what
# gives bytes of a file to a program sets the one and raises the other, and the same call does the
# same on each filesystem.
# Seen: they part in both directions. cp and copy_file_range raise the event everywhere, but on XFS
# and btrfs, where they share the extents, the access time stays: a file that is copied every night
# was never read. mmap sets the time without an event, though nothing was read yet; what is read
# through the mapping afterwards, for however long, leaves no trace of either kind. read at the end
# of a file sets the time and raises no event; read of 0 bytes sets it on tmpfs alone. readahead(2),
# which does fetch the data from the disk, is seen by neither. read, O_DIRECT, sendfile and exec are
# seen by both.
# So a tool that ranks files by access time or by events moves a database that is read through a
# mapping to the slow disk, and which copies count depends on the filesystem. A measure of heat
# counts in the path of the data, or takes both and knows what each one lacks.
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
import ctypes
import mmap
import os
import shutil
import subprocess
import sys

PATH = "mount/file"
IN_ACCESS = 1
libc = ctypes.CDLL(None, use_errno=True)
shutil.copyfile("/bin/true", "program")


def copied(descriptor):
    target = os.open("mount/target", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.copy_file_range(descriptor, target, os.fstat(descriptor).st_size)
    os.close(target)


def sent(descriptor):
    target = os.open("mount/target", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.sendfile(target, descriptor, 0, 4096)
    os.close(target)


def direct(_):
    descriptor = os.open(PATH, os.O_RDONLY | os.O_DIRECT)
    os.preadv(descriptor, [mmap.mmap(-1, 4096)], 0)
    os.close(descriptor)


def mapped(descriptor):
    mmap.mmap(descriptor, 0, prot=mmap.PROT_READ).close()


def read_mapped(descriptor):
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as view:
        os.utime(PATH, (1, 1))
        assert len(bytes(view)) == os.fstat(descriptor).st_size


def seen(action):
    """By whom an action on a file that is in no cache is noticed."""
    shutil.copyfile("program", PATH)
    os.chmod(PATH, 0o755)
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as caches:
        caches.write("1")
    os.utime(PATH, (1, 1))
    watcher = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watcher, PATH.encode(), IN_ACCESS) > 0
    descriptor = os.open(PATH, os.O_RDONLY)
    action(descriptor)
    os.close(descriptor)
    try:
        event = len(os.read(watcher, 65536)) > 0
    except BlockingIOError:
        event = False
    os.close(watcher)
    time = os.stat(PATH).st_atime != 1
    return {(1, 1): "both", (1, 0): "time", (0, 1): "event", (0, 0): "neither"}[time, event]


cases = {
    "read": lambda descriptor: os.read(descriptor, 10),
    "read O_DIRECT": direct,
    "sendfile": sent,
    "exec": lambda _: subprocess.run([PATH], check=True),
    "cp": lambda _: subprocess.run(["cp", PATH, "mount/target"], check=True),
    "copy_file_range": copied,
    "mmap": mapped,
    "reading what is mapped": read_mapped,
    "read at the end": lambda descriptor: os.pread(descriptor, 10, 1 << 30),
    "read of 0 bytes": lambda descriptor: os.read(descriptor, 0),
    "readahead": lambda descriptor: libc.readahead(descriptor, ctypes.c_long(0), 8192),
}
print(f"{sys.argv[1]}:", ", ".join(f"{name} {seen(case)}" for name, case in cases.items()))
PYTHON
try() { # NAME [PROGRAM ARGUMENT...]: a filesystem, made by that program on an image
    if [ $# = 1 ]; then
        mount -t "$1" -o strictatime "$1" mount
    else
        truncate -s 400M image
        LD_LIBRARY_PATH=$libraries PATH=packages/sbin:packages/bin:$PATH "${@:2}" image > messages
        mount -o loop,strictatime image mount
    fi
    python3 probe.py "$1"
    umount mount
    rm -f image
}
seen=$(
    try ext4 mke2fs -q -t ext4
    try xfs mkfs.xfs -q
    try btrfs mkfs.btrfs -q
    try tmpfs
)
printf '%s\n' "$seen"
line() { # NAME COPIES NOTHING: what is expected of a filesystem
    echo "$1: read both, read O_DIRECT both, sendfile both, exec both, cp $2," \
        "copy_file_range $2, mmap time, reading what is mapped neither, read at the end time," \
        "read of 0 bytes $3, readahead neither"
}
expected="$(line ext4 both neither)
$(line xfs event neither)
$(line btrfs event neither)
$(line tmpfs both time)"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# Linux 6.18, ext4 (e2fsprogs 1.47.0), XFS (xfsprogs 6.1.0), btrfs (btrfs-progs 6.2; packages of
# Debian 12) and tmpfs, python3 of Debian 12, run as root.
#
# Guess: a store to a shared mapping changes the file's mtime when it is made, or at the latest at
# msync(MS_SYNC) or when the mapping is gone, as POSIX has it; so a file whose data has changed
# after a look at its mtime has another one in the end.
# Seen: the time is set by the fault that makes a page writable, and by nothing else. On the three
# disk filesystems the first store after the page was written back sets it; what is stored while the
# page is dirty leaves no trace: msync, munmap, fsync and close write the data and keep the old
# time. On tmpfs pages stay writable, so the first store to a page counts and no other one; and
# where the page was read through the mapping before, not even that.
# So a backup, rsync or make that looked between two stores, tens of seconds apart, never sees the
# second; on tmpfs (/dev/shm) a file that a program works in for days has the time of its start. A
# program that keeps data in a mapping sets the time itself (futimens) before it says "done", and a
# server behind FUSE cannot infer from a late WRITE when the store was made.
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
import mmap
import os
import sys
import time


def is_new(action):
    """Whether the action gives the file another time than the old one that it is given before."""
    os.utime("mount/file", (1, 1))
    time.sleep(0.02)
    action()
    return "new" if os.stat("mount/file").st_mtime != 1 else "old"


def try_mapping(loads):
    """What becomes of the time with each of some stores; the page may have been looked at first."""
    descriptor = os.open("mount/file", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    os.write(descriptor, bytes(4096))
    os.fsync(descriptor)
    mapped = mmap.mmap(descriptor, 4096)

    def end():
        mapped.flush()
        mapped.close()
        os.fsync(descriptor)
        os.close(descriptor)

    if loads:
        assert mapped[0] == 0
    seen = [is_new(lambda: mapped.__setitem__(0, 1)), is_new(lambda: mapped.__setitem__(1, 1))]
    mapped.flush()
    seen += [is_new(lambda: mapped.__setitem__(2, 1)), is_new(lambda: mapped.__setitem__(3, 1))]
    seen.append(is_new(end))
    with open("mount/file", "rb") as file:
        assert file.read(4) == b"\1\1\1\1"
    return "store {}, store {}, msync, store {}, store {}, end {}".format(*seen)


print(f"{sys.argv[1]}: {try_mapping(False)}")
print(f"{sys.argv[1]}, page read before: {try_mapping(True)}")
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
expected="ext4: store new, store old, msync, store new, store old, end old
ext4, page read before: store new, store old, msync, store new, store old, end old
xfs: store new, store old, msync, store new, store old, end old
xfs, page read before: store new, store old, msync, store new, store old, end old
btrfs: store new, store old, msync, store new, store old, end old
btrfs, page read before: store new, store old, msync, store new, store old, end old
tmpfs: store new, store old, msync, store old, store old, end old
tmpfs, page read before: store old, store old, msync, store old, store old, end old"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

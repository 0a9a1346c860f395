#!/usr/bin/env bash
# Linux 6.18, ext4 (e2fsprogs 1.47.0), XFS (xfsprogs 6.1.0), btrfs (btrfs-progs 6.2; packages of
# Debian 12) and tmpfs, python3 of Debian 12, run as root.
#
# Guess: room that fallocate has reserved behind the end of a file (FALLOC_FL_KEEP_SIZE) stays until
# the file is made smaller or removed; ftruncate to the size that the file has does nothing.
# Seen: all four give the whole reserve back, at once, when the file is "cut" to the size that it
# has, by truncate or ftruncate. What looks more drastic keeps it: growing the file by truncate up
# to the end of the reserve, appending, closing and opening it again.
# So a program that reserves room for its log and calls ftruncate(fd, the size it knows) as a matter
# of course (after a crash, after each batch, to drop a torn record that is not there) loses its
# reserve without an error; it compares the sizes first, or reserves again. A filesystem that skips
# truncates to the same size as needless differs from all of these.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    xfsprogs=6.1.0-1 libinih1=55-1 liburcu8=0.13.2-1 btrfs-progs=6.2-1+deb12u2
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
cat > probe.py <<'PYTHON'
import ctypes
import os
import sys

MIB = 1 << 20
KEEP_SIZE = 1
library = ctypes.CDLL(None, use_errno=True)
library.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
os.chdir("mount")


def left(change):
    """MiB that are left of a reserve of 8 after the change and a close."""
    descriptor = os.open("file", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    os.write(descriptor, bytes(4096))
    assert library.fallocate(descriptor, KEEP_SIZE, 0, 8 * MIB) == 0
    assert os.fstat(descriptor).st_blocks * 512 >= 8 * MIB
    change(descriptor)
    os.fsync(descriptor)
    os.close(descriptor)
    return os.stat("file").st_blocks * 512 // MIB


cases = {
    "same": lambda descriptor: os.ftruncate(descriptor, 4096),
    "same by path": lambda _: os.truncate("file", 4096),
    "grown": lambda descriptor: os.ftruncate(descriptor, 8 * MIB),
    "appended": lambda descriptor: os.pwrite(descriptor, b"more", 4096),
    "reopened": lambda _: os.close(os.open("file", os.O_RDWR)),
}
results = ", ".join(f"{name} {left(change)}" for name, change in cases.items())
print(f"{sys.argv[1]}: {results}")
PYTHON
mkdir mount
try() { # NAME [MKFS...]: mounts a new filesystem and tells how much of a reserve is left
    rm -f image
    truncate -s 400M image
    if [ $# -eq 1 ]; then
        mount -t "$1" "$1" mount
    else
        LD_LIBRARY_PATH=$libraries "packages/sbin/$2" "${@:3}" image > messages 2>&1
        mount -t "$1" -o loop image mount
    fi
    python3 probe.py "$1"
    umount mount
}
seen=$(try ext4 mke2fs -q -F -t ext4; try xfs mkfs.xfs -q; try btrfs mkfs.btrfs -q; try tmpfs)
printf '%s\n' "$seen"
expected="ext4: same 0, same by path 0, grown 8, appended 8, reopened 8
xfs: same 0, same by path 0, grown 8, appended 8, reopened 8
btrfs: same 0, same by path 0, grown 8, appended 8, reopened 8
tmpfs: same 0, same by path 0, grown 8, appended 8, reopened 8"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

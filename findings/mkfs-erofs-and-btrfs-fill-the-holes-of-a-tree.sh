#!/usr/bin/env bash
# mkfs.erofs 1.5 of erofs-utils, mkfs.btrfs 6.2 of btrfs-progs, beside mke2fs 1.47.0 (packages of
# Debian 12), Linux 6.18 with erofs and btrfs, run as root.
#
# Guess: a tool that makes an image of a tree keeps holes, as mke2fs -d and mksquashfs do: they ask
# for them, or leave out blocks of zeros.
# Seen: mkfs.erofs without compression and mkfs.btrfs --rootdir read the holes and write zeros. A
# file of 64 MiB with 4 KiB of data, and 64 MiB that were reserved and never written, make an image
# of more than 128 MiB each; mounted, SEEK_HOLE finds no hole, so a copy out of it stays full.
# mke2fs -d keeps holes and leaves the reserve out. Of the times mkfs.erofs keeps the nanoseconds;
# the other two drop them, so the next rsync or make takes every file for another.
# So a tree with disk images or databases goes into such an image packed or compressed (erofs -z
# does well), or is copied into the mounted filesystem.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download erofs-utils=1.5-1 btrfs-progs=6.2-1+deb12u2 e2fsprogs=1.47.0-2+b2 \
    libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 liblzo2-2=2.10-2 liblz4-1=1.9.4-1 \
    libselinux1=3.4-1+b6
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
mkdir tree mount
head -c 4096 /dev/zero | tr '\0' x > tree/hole
truncate -s 64M tree/hole
fallocate -l 64M tree/reserve
touch -d "2020-01-01 00:00:00.25" tree/hole tree/reserve
try() { # NAME COMMAND...: how much of each file is allocated in the image that the command makes
    local name=$1
    shift
    rm -f image
    truncate -s 400M image
    LD_LIBRARY_PATH=$libraries "$@" > messages 2>&1
    mount -o loop,ro image mount
    cmp tree/hole mount/hole
    echo "$name: hole $(($(stat -c %b mount/hole) / 2048)) MiB, reserve" \
        "$(($(stat -c %b mount/reserve) / 2048)) MiB, first hole of the file at" \
        "$(python3 -c 'import os; print(os.lseek(os.open("mount/hole", 0), 0, os.SEEK_HOLE))')," \
        "time .$(date -r mount/hole +%N | cut -c 1-2)"
    umount mount
}
tools=packages/sbin
seen=$(
    try mke2fs $tools/mke2fs -q -F -t ext4 -d tree image
    try mkfs.erofs packages/usr/bin/mkfs.erofs image tree
    try "mkfs.erofs, lz4" packages/usr/bin/mkfs.erofs -zlz4 image tree
    try mkfs.btrfs $tools/mkfs.btrfs -q --rootdir tree image
)
printf '%s\n' "$seen"
expected="mke2fs: hole 0 MiB, reserve 0 MiB, first hole of the file at 4096, time .00
mkfs.erofs: hole 64 MiB, reserve 64 MiB, first hole of the file at 67108864, time .25
mkfs.erofs, lz4: hole 0 MiB, reserve 0 MiB, first hole of the file at 67108864, time .25
mkfs.btrfs: hole 64 MiB, reserve 64 MiB, first hole of the file at 67108864, time .00"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

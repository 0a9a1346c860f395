#!/usr/bin/env bash
# e2fsprogs 1.47.0, f2fs-tools 1.15.0, xfsprogs 6.1.0, btrfs-progs 6.2 (packages of Debian 12),
# Linux, image files on a filesystem that can punch holes.
#
# Guess: fallocate -l SIZE image reserves the room for a disk image, and to make a filesystem in it
# writes into that room; discarding is for devices.
# Seen: mke2fs and mkfs.f2fs take "discard" for files too and punch out nearly all of it, without a
# word; mkfs.xfs and mkfs.btrfs leave files alone. The file keeps its size, and its room is free for
# others again, so that writes into the mounted image have none of their own. e2fsck -E discard does
# it to an image that was right.
# So fallocate comes after mkfs, not before it, or the options -E nodiscard (mke2fs) and -t 0
# (mkfs.f2fs) are given; and du of the image says whether it is still reserved.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    f2fs-tools=1.15.0-1 xfsprogs=6.1.0-1 libinih1=55-1 liburcu8=0.13.2-1 \
    btrfs-progs=6.2-1+deb12u2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
told() { # WHAT: how much of the image is still there
    local size room
    size=$(stat -c %s image)
    room=$(($(stat -c %b image) * 512))
    if [ "$room" -ge "$size" ]; then
        echo "$1: all of it"
    elif [ "$room" -lt $((size / 10)) ]; then
        echo "$1: less than a tenth"
    else
        echo "$1: $room of $size"
    fi
}
try() { # COMMAND...: makes a filesystem in a reserved image
    rm -f image
    fallocate -l 320M image
    "packages/sbin/$1" "${@:2}" image > messages 2>&1 || { cat messages >&2; return 1; }
    told "$*"
}
seen=$(
    try mke2fs -q -F -t ext4 -O ^has_journal
    try mkfs.f2fs -q
    try mkfs.xfs -q
    try mkfs.btrfs -q
    try mkfs.f2fs -q -t 0
    try mke2fs -q -F -t ext4 -O ^has_journal -E nodiscard
    packages/sbin/e2fsck -fy -E discard image > messages 2>&1
    told "the same, e2fsck -E discard"
)
printf '%s\n' "$seen"
expected="mke2fs -q -F -t ext4 -O ^has_journal: less than a tenth
mkfs.f2fs -q: less than a tenth
mkfs.xfs -q: all of it
mkfs.btrfs -q: all of it
mkfs.f2fs -q -t 0: all of it
mke2fs -q -F -t ext4 -O ^has_journal -E nodiscard: all of it
the same, e2fsck -E discard: less than a tenth"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

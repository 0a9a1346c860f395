#!/usr/bin/env bash
# Linux 6.18, btrfs, btrfs-progs 6.2 and e2fsprogs 1.47.0 (chattr, lsattr; packages of Debian 12),
# cp of coreutils 9.1, run as root.
#
# Guess: chattr +C (no copy-on-write) of a file that already has data is refused, or takes effect
# for what is written from then on; chattr -C gives checksums back to what is written.
# Seen: both end with status 0 and change nothing: the flag can only be changed while the file is
# empty, and the request for it is passed over. chattr +c of a file with +C is refused, so the
# kernel has an answer for what it cannot do. A file that is moved into a directory with +C stays as
# it was, a copy by cp gets the flag. Between the two kinds no extents are shared: cp
# --reflink=always fails with EINVAL and leaves an empty file, --reflink=auto copies all bytes.
# So a database or disk image that was made "no copy-on-write" by chattr has gone on as before, and
# the loss of speed that it was to cure stays. Look with lsattr, and copy into a new file with the
# flag. An ioctl that cannot do what it is asked has to say so.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download btrfs-progs=6.2-1+deb12u2 e2fsprogs=1.47.0-2+b2 liblzo2-2=2.10-2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/usr/bin:$dir/packages/bin:$PATH
truncate -s 200M image
packages/sbin/mkfs.btrfs -q image > messages 2>&1
mkdir mount
mount -o loop image mount
cd mount
try() { # FILE COMMAND...: its status, and which of the flags C and c the file has afterwards
    local file=$1 status=0
    shift
    "$@" 2> ../messages || status=$?
    echo "$*: status $status, flags $(lsattr -d "$file" | cut -d ' ' -f 1 | tr -dc Cc)," \
        "$(stat -c %s "$file") bytes"
}
seen=$(
    : > empty
    echo data | tee full > other
    mkdir directory
    try empty chattr +C empty
    try full chattr +C full
    echo data > empty
    mv empty flagged
    try flagged chattr -C flagged
    try flagged chattr +c flagged
    chattr +C directory
    try directory/full mv full directory
    try directory/other cp other directory
    try directory/clone cp --reflink=always other directory/clone
    try clone cp --reflink=always flagged clone
)
printf '%s\n' "$seen"
cd ..
expected="chattr +C empty: status 0, flags C, 0 bytes
chattr +C full: status 0, flags , 5 bytes
chattr -C flagged: status 0, flags C, 5 bytes
chattr +c flagged: status 1, flags C, 5 bytes
mv full directory: status 0, flags , 5 bytes
cp other directory: status 0, flags C, 5 bytes
cp --reflink=always other directory/clone: status 1, flags C, 0 bytes
cp --reflink=always flagged clone: status 1, flags , 0 bytes"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

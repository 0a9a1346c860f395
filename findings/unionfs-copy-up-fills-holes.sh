#!/usr/bin/env bash
# unionfs-fuse 1.0 with libfuse 2.9.9 (packages of Debian 12), Linux 6.18, ext4 or tmpfs, run as
# root.
#
# Guess: when a file of the lower, read-only branch is copied up because its mode or its owner
# changes, the copy has the holes of the original, as with the kernel's overlayfs.
# Seen: every hole is written out as zeros. chmod of a file of 256 MiB that holds 4 KiB of data
# takes 256 MiB of the upper branch.
# So a chown -R or a chmod -R over a union of disk images or databases can fill the disk; sparse
# files are copied up beforehand with cp --sparse=always.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true; [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download unionfs-fuse=1.0-1+b1 libfuse2=2.9.9-6+b1
for package in *.deb; do dpkg -x "$package" packages; done
mkdir upper lower mount
truncate -s 256M lower/image
printf '%4096s' text | dd of=lower/image conv=notrunc status=none
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
packages/usr/bin/unionfs-fuse -f -o cow upper=RW:lower=RO mount 2> log &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
chmod 600 mount/image
blocks() { echo $(($(stat -c %b "$1") / 2)); }
cmp lower/image upper/image
echo "of 256 MiB, KiB used: lower $(blocks lower/image), upper $(blocks upper/image)"
[ "$(blocks lower/image)" -lt 100 ]
[ "$(blocks upper/image)" -ge 262144 ] || { echo "copying up keeps holes now" >&2; exit 1; }

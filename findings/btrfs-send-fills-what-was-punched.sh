#!/usr/bin/env bash
# Linux 6.18, btrfs, btrfs-progs 6.2 (package of Debian 12), run as root.
#
# Guess: an incremental btrfs send knows the extents of both snapshots, so a hole that was punched
# between them costs nothing in the stream and is a hole at the receiver, as in a new file.
# Seen: a hole in a file that the parent snapshot has is sent as zeros, all of it, and lies on the
# receiver's disk as data: 62 MiB punched out of a file of 64 MiB make a stream of 62 MiB, and the
# copy still takes 64 MiB. What fallocate --zero-range leaves goes the same way. A new file with
# holes is sent well, a file that truncate made longer too. Beside it: a new file that is all
# reserved (fallocate) arrives as one hole.
# So disk images that are punched (by a guest that trims, by fallocate --dig-holes) make the next
# backup as large as what they freed, and free nothing at the receiver: its disk is not to be
# planned by du of the sender. An image that is trimmed a lot is better copied as a new file.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'cd /; umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download btrfs-progs=6.2-1+deb12u2 liblzo2-2=2.10-2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/sbin:$PATH
truncate -s 800M disk
mkfs.btrfs -q disk > notes 2>&1
mkdir mount
mount -o loop disk mount
cd mount
btrfs -q subvolume create live
head -c 64M /dev/urandom > live/punched
head -c 16M /dev/urandom > live/zeroed
echo text > live/longer
btrfs -q subvolume snapshot -r live first
fallocate --punch-hole --offset 1MiB --length 62MiB live/punched
fallocate --zero-range --offset 1MiB --length 14MiB live/zeroed
truncate -s 100M live/longer
truncate -s 100M live/new-hole
fallocate -l 30MiB live/new-reserve
btrfs -q subvolume snapshot -r live second
mkdir copy
btrfs -q send first | btrfs -q receive copy
btrfs -q send -p first second > ../stream
btrfs -q receive -f ../stream copy
sync -f .
cmp second/punched copy/second/punched
seen=$(
    echo "stream: $(($(stat -c %s ../stream) >> 20)) MiB"
    for name in punched zeroed longer new-hole new-reserve; do
        echo "$name: $(du -m "second/$name" | cut -f 1) MiB," \
            "of the copy $(du -m "copy/second/$name" | cut -f 1) MiB"
    done
)
printf '%s\n' "$seen"
expected="stream: 76 MiB
punched: 2 MiB, of the copy 64 MiB
zeroed: 16 MiB, of the copy 16 MiB
longer: 1 MiB, of the copy 1 MiB
new-hole: 0 MiB, of the copy 0 MiB
new-reserve: 30 MiB, of the copy 0 MiB"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

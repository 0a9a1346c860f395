#!/usr/bin/env bash
# fio 3.33, zstd 1.5.4, btrfs-progs 6.2 (packages of Debian 12), Linux 6.18 with btrfs, run as root.
#
# Guess: without an option for it fio writes random bytes, which no compression makes smaller; so a
# job of writes is the same work for a store that compresses as for one that does not.
# Seen: a job writes what is nearly the same buffer again and again. As soon as a compressor sees
# some blocks together little is left: of 32 MiB by blocks of 4 KiB zstd -3 keeps about a hundredth,
# by blocks of 64 KiB too. With --refill_buffers nothing is saved, and nothing of the file that a
# job of reads lays out first: the reads of a test are of another kind of data than its writes. What
# a store makes of it depends on how it looks: btrfs with compress=zstd stores all of it in full.
# So a store with compressed segments, a log or a backup looks many times better with
# writes of fio than it is, and two stores that both compress cannot be compared by them.
# --refill_buffers goes into each such job; --buffer_compress_percentage says how much there is to
# be gained.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
: > none # no package is there yet for apt, so all that fio needs is named
apt-get -o Dir::State::status="$dir/none" --no-install-recommends -s install fio=3.33-3 |
    awk '$1 == "Inst" && $2 != "libc6" {print $2 "=" substr($3, 2)}' | xargs apt-get -qq download
apt-get -qq download zstd=1.5.4+dfsg2-5+deb12u1 btrfs-progs=6.2-1+deb12u2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/usr/bin:$PATH
mkdir mount
truncate -s 400M image
mkfs.btrfs -q image > messages
mount -o loop,compress=zstd image mount
used() { # bytes in use on the mount
    sync -f mount
    echo $(($(stat -f -c '(%b - %f) * %S' mount)))
}
share() { # BYTES: how much that is of 32 MiB, roughly
    if [ "$1" -lt $((4 << 20)) ]; then
        echo "under an eighth"
    elif [ "$1" -gt $((31 << 20)) ]; then
        echo all
    else
        echo between
    fi
}
try() { # WHAT OPTION...: 32 MiB by a job
    local before
    before=$(used)
    fio --name=job --filename=mount/file --size=32M --ioengine=psync "${@:2}" > messages
    echo "$1: zstd leaves $(share "$(zstd -q -3 -c mount/file | wc -c)")," \
        "btrfs $(share "$(($(used) - before))")"
    rm mount/file
    sync -f mount
}
seen=$(
    try "write 4k" --rw=write --bs=4k
    try "randwrite 4k" --rw=randwrite --bs=4k
    try "write 64k" --rw=write --bs=64k
    try "write 4k, refilled" --rw=write --bs=4k --refill_buffers
    try "laid out for reads" --rw=read --bs=4k
)
printf '%s\n' "$seen"
expected="write 4k: zstd leaves under an eighth, btrfs all
randwrite 4k: zstd leaves under an eighth, btrfs all
write 64k: zstd leaves under an eighth, btrfs all
write 4k, refilled: zstd leaves all, btrfs all
laid out for reads: zstd leaves all, btrfs all"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

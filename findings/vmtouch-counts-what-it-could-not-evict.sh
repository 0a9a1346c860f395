#!/usr/bin/env bash
# vmtouch 1.3.1, fincore of util-linux 2.38.1, e2fsprogs 1.47.0 (packages of Debian 12), Linux 6.18,
# run as root.
#
# Guess: vmtouch -e takes a file out of the page cache and says how many pages it evicted; pages
# that cannot go are not counted, or the status says so.
# Seen: "Evicted Pages" is the size of the file, whatever happened. On tmpfs nothing can be evicted,
# and all pages stay; on ext4 those stay that somebody maps and has touched. The number is the same
# for a file of which nothing was in the cache at all, and the status is always 0. Without the
# mapping the same call does what it says.
# So a benchmark or a measurement of heat that begins with vmtouch -e on files that a program maps
# (a database, an index), or on /dev/shm, starts with a warm cache and a line that says that it is
# cold. fincore or plain vmtouch comes after it; a tool that asks by posix_fadvise counts again.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
holder=
trap '[ -z "$holder" ] || kill "$holder" 2>/dev/null || true
      wait; umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 777 .
apt-get -qq download vmtouch=1.3.1-2 > /dev/null
dpkg -x ./*.deb packages
mkdir mount
resident() { fincore -b -n -o PAGES mount/file | tr -d ' '; }
evict() { # WHAT
    local before
    before=$(resident)
    packages/usr/bin/vmtouch -e mount/file > said
    echo "$1: $before pages, status and count of eviction: $(
        echo "0,$(sed -n 's/.*Evicted Pages: \([0-9]*\).*/ \1/p' said)"), then $(resident)"
}
{
    mount -t tmpfs -o size=16m,huge=never tmpfs mount
    head -c 4M /dev/zero > mount/file
    evict tmpfs
    umount mount
    truncate -s 64M image
    mke2fs -q -t ext4 image
    mount -o loop image mount
    head -c 4M /dev/zero > mount/file
    sync -f mount
    evict "ext4, written back"
    evict "ext4, nothing there"
    python3 -c '
import mmap
import time

with open("mount/file", "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
assert not any(mapped[::mmap.PAGESIZE])
open("mapped", "w").close()
time.sleep(600)' &
    holder=$!
    for _ in $(seq 400); do [ -e mapped ] && break; sleep 0.05; done
    evict "ext4, mapped"
    kill "$holder"
    wait "$holder" || true
    holder=
    evict "ext4, no longer mapped"
    umount mount
} > results
cat results
diff - results <<'EXPECTED' || { echo "this is no longer what is described above" >&2; exit 1; }
tmpfs: 1024 pages, status and count of eviction: 0, 1024, then 1024
ext4, written back: 1024 pages, status and count of eviction: 0, 1024, then 0
ext4, nothing there: 0 pages, status and count of eviction: 0, 1024, then 0
ext4, mapped: 1024 pages, status and count of eviction: 0, 1024, then 1024
ext4, no longer mapped: 1024 pages, status and count of eviction: 0, 1024, then 0
EXPECTED

#!/usr/bin/env bash
# Linux 6.18, FIDEDUPERANGE on XFS (xfsprogs 6.1.0) and btrfs (btrfs-progs 6.2; packages of Debian
# 12), run as root.
#
# Guess: the answer says how many bytes were deduplicated, as its manual page has it: those that
# both files now have in common on the disk. What is not a whole block is refused, or counted as 0.
# Seen: the answer is the length that was asked for, always, with status 0. Shared is that length
# rounded down to whole blocks, unless it ends where both files end: of 10,000 bytes in a longer
# file 8,192, of 100 bytes nothing at all. Only a start within a block is refused.
# So what a deduplicator adds up ("saved so many bytes") is too high, and a program that works in
# records that are no whole blocks saves nothing and is told of success each time. Whoever wants to
# know asks FIEMAP; whoever answers such a request says what was done.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download btrfs-progs=6.2-1+deb12u2 xfsprogs=6.1.0-1 liblzo2-2=2.10-2 libinih1=55-1 \
    liburcu8=0.13.2-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
cat > dedupe.py <<'PYTHON'
import fcntl
import os
import struct
import sys

FIDEDUPERANGE, FIEMAP, SHARED = 0xC0189436, 0xC020660B, 0x2000


def shared(file):
    """How many bytes of a file lie in blocks that it shares with another one."""
    answer = bytearray(struct.pack("QQIIII", 0, 2**63, 1, 0, 50, 0) + bytes(56 * 50))
    fcntl.ioctl(file, FIEMAP, answer)
    count = struct.unpack_from("I", answer, 20)[0]
    extents = [struct.unpack_from("QQQQQI", answer, 32 + 56 * i) for i in range(count)]
    return sum(extent[2] for extent in extents if extent[5] & SHARED)


def dedupe(size, start, length):
    """Two equal files, a part of which is to be shared."""
    data = os.urandom(size)
    files = []
    for name in ("one", "two"):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(file, data)
        os.fsync(file)
        files.append(file)
    one, two = files
    request = bytearray(struct.pack("QQHHIqQQiI", start, length, 1, 0, 0, two, start, 0, 0, 0))
    fcntl.ioctl(one, FIDEDUPERANGE, request)
    told, status = struct.unpack_from("Qi", request, 40)
    os.fsync(two)
    print(f"{sys.argv[1]}: {length} bytes at {start} of {size}: status {status}, told {told},"
          f" shared {shared(two)}")


dedupe(65536, 0, 65536)
dedupe(10000, 0, 10000)
dedupe(15000, 0, 10000)
dedupe(65536, 4096, 5000)
dedupe(65536, 0, 100)
dedupe(65536, 100, 5000)
PYTHON
mkdir mount
for kind in xfs btrfs; do
    truncate -s 400M image
    "packages/sbin/mkfs.$kind" -q -f image > messages 2>&1
    mount -o loop image mount
    (cd mount && python3 ../dedupe.py "$kind")
    umount mount
    rm image
done > seen
seen=$(cat seen)
printf '%s\n' "$seen"
expected=$(for kind in xfs btrfs; do
    echo "$kind: 65536 bytes at 0 of 65536: status 0, told 65536, shared 65536
$kind: 10000 bytes at 0 of 10000: status 0, told 10000, shared 12288
$kind: 10000 bytes at 0 of 15000: status 0, told 10000, shared 8192
$kind: 5000 bytes at 4096 of 65536: status 0, told 5000, shared 4096
$kind: 100 bytes at 0 of 65536: status 0, told 100, shared 0
$kind: 5000 bytes at 100 of 65536: status -22, told 0, shared 0"
done)
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

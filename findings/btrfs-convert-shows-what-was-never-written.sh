#!/usr/bin/env bash
# btrfs-convert of btrfs-progs 6.2, mke2fs 1.47.0 of e2fsprogs (packages of Debian 12), Linux 6.18
# with ext4 and btrfs, run as root.
#
# Guess: a conversion in place keeps what each file reads as. Room that fallocate has reserved and
# nobody has written reads as zeros on ext4, so it does on btrfs, which knows the same kind of
# extents; and a time stays what it is, or is refused.
# Seen: reserved extents become plain ones. Each such file has what lay in its blocks before, of
# whatever file that was, and reads it with a good checksum, as the checksums are made of it at the
# conversion. Holes are right. A file of 1960 is of 2096 afterwards: the bits that ext4 has for the
# years beyond 2038 are not looked at, the low 32 are taken as unsigned. It says "Conversion
# complete", with status 0, and btrfs check is content.
# So databases, disk images and downloads that were preallocated are to be compared with a copy from
# before, or copied by cp --sparse=always before the conversion. Whoever converts a format has to
# ask what a block reads as, not only where it is.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 777 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 btrfs-progs=6.2-1+deb12u2 > /dev/null
for package in *.deb; do dpkg -x "$package" packages; done
PATH=$dir/packages/sbin:$dir/packages/usr/sbin:$dir/packages/bin:$dir/packages/usr/bin:$PATH
mkdir mount
truncate -s 512M image
mke2fs -q -t ext4 -b 4096 image
mount -o loop image mount
yes "written by somebody else" | head -c 300M > mount/removed
sync -f mount
rm mount/removed
sync -f mount
fallocate -l 100M mount/reserved
echo "the only line" | dd of=mount/reserved conv=notrunc status=none
truncate -s 10M mount/holes
echo "behind a hole" >> mount/holes
echo old > mount/old
touch -d "1960-01-01 UTC" mount/old
look() { # WHEN: what a plain reader finds in the three files
    echo "$1: reserved $(tr -d '\0' < mount/reserved | grep -qx "written by somebody else" \
        && echo "has lines of another file" || echo "is $(tr -d '\0' < mount/reserved) and zeros"),\
 holes $(tr -d '\0' < mount/holes), old is of $(date -u -r mount/old +%Y)"
}
{
    look before
    umount mount
    btrfs-convert image > messages 2>&1
    tail -n 1 messages
    btrfs check --check-data-csum image > checked 2>&1
    mount -o loop image mount
    look after
    umount mount
} > results
cat results
diff - results <<'EXPECTED' || { echo "this is no longer what is described above" >&2; exit 1; }
before: reserved is the only line and zeros, holes behind a hole, old is of 1960
Conversion complete
after: reserved has lines of another file, holes behind a hole, old is of 2096
EXPECTED

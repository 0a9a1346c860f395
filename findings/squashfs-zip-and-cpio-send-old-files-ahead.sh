#!/usr/bin/env bash
# mksquashfs and unsquashfs of squashfs-tools 4.5.1, bsdtar 3.6.2 of libarchive, GNU cpio 2.13, GNU
# tar 1.34 (packages of Debian 12), Linux.
#
# Guess: a format whose times are unsigned gives a file from before 1970 the time 0, or the packer
# refuses it; times after 2106 likewise end at the last one that there is, or are refused.
# Seen: the number is written with as many bits as there are. A file of 1960 is of 2096 in squashfs
# (for the kernel as for unsquashfs), in a zip archive by bsdtar and in GNU cpio's newc, of 2232 in
# its odc; bsdtar's cpio formats take the end of the range, 2106 and 2242. One of 2200 is of 2063 in
# most of these. All are silent and end with status 0. Only bsdtar's 7-zip makes it 1970.
# So in an image the oldest file becomes the newest: "make" rebuilds, "find -mtime" and backups by
# time see the opposite of what is so. Who packs for such formats moves old files to 1970 first
# (mksquashfs has no option for it but one time for all), and a format gets a signed time.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download squashfs-tools=1:4.5.1-1 liblzo2-2=2.10-2 liblz4-1=1.9.4-1 \
    libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5 cpio=2.13+dfsg-7.1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu TZ=UTC
PATH=$dir/packages/bin:$dir/packages/usr/bin:$PATH
mkdir tree
touch -d "1960-01-01" tree/1960
touch -d "2020-01-01" tree/2020
touch -d "2200-01-01" tree/2200
told() { # NAME: of which year each file is that was taken out
    echo "$1: $(cd out && for file in 1960 2020 2200; do
        date -r $file "+$file is %Y"
    done | paste -sd ,)"
    rm -rf out
    mkdir out
}
mkdir out
seen=$(
    tar --format=posix -cf pax.tar -C tree 1960 2020 2200 2> messages
    tar -xf pax.tar -C out 2> messages
    told "tar, pax"
    mksquashfs tree image -quiet > messages 2>&1
    unsquashfs -q -f -d out image > messages 2>&1
    told squashfs
    for format in zip 7zip newc odc; do
        bsdtar --format $format -cf packed -C tree 1960 2020 2200
        bsdtar -xf packed -C out
        told "bsdtar, $format"
    done
    for format in newc odc; do
        (cd tree && printf '%s\n' 1960 2020 2200 | cpio -o -H $format --quiet) > packed
        (cd out && cpio -im --quiet < ../packed)
        told "cpio, $format"
    done
)
printf '%s\n' "$seen"
expected="tar, pax: 1960 is 1960,2020 is 2020,2200 is 2200
squashfs: 1960 is 2096,2020 is 2020,2200 is 2063
bsdtar, zip: 1960 is 2096,2020 is 2020,2200 is 2063
bsdtar, 7zip: 1960 is 1970,2020 is 2020,2200 is 2200
bsdtar, newc: 1960 is 2106,2020 is 2020,2200 is 2106
bsdtar, odc: 1960 is 2242,2020 is 2020,2200 is 2200
cpio, newc: 1960 is 2096,2020 is 2020,2200 is 2063
cpio, odc: 1960 is 2232,2020 is 2020,2200 is 2200"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

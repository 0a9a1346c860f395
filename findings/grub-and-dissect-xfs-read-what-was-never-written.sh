#!/usr/bin/env bash
# GRUB 2.06 (grub-fstest of grub-common, Debian 12), dissect.xfs 3.13 and dissect.extfs 3.15 (PyPI),
# files of Linux 6.18 on ext4 (e2fsprogs 1.47.0) and XFS (xfsprogs 6.1.0), run as root.
#
# Guess: a program that reads ext4 or XFS from an image gives zeros for what fallocate has reserved
# and nobody has written (unwritten extents), as the kernel does.
# Seen: GRUB on both and dissect.xfs give what lies in the blocks, that is, whatever file had them
# before. Of a file of 1 MiB that was reserved and begun with a short text, nearly all is old data,
# and nothing is said. debugfs and dissect.extfs read zeros.
# So a file that was preallocated (an environment block, a download, a database, a disk image) looks
# different to a boot loader, a forensic or a backup tool than to the system; what they must read
# has to be written out once (dd if=/dev/zero), and its checksum has to be compared.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    libss2=1.47.0-2+b2 xfsprogs=6.1.0-1 libinih1=55-1 liburcu8=0.13.2-1 \
    grub-common=2.06-13+deb12u2
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install dissect.xfs==3.13 dissect.extfs==3.15 \
    dissect.util==3.24 dissect.cstruct==4.7
run() { LD_LIBRARY_PATH=$libraries "packages/$1" "${@:2}"; }
cat > read.py <<'PYTHON'
import sys

from dissect.extfs import ExtFS
from dissect.xfs import XFS

system = {"ext4": ExtFS, "xfs": XFS}[sys.argv[1]]
with open("image", "rb") as image, open("copy", "wb") as copy:
    copy.write(system(image).get("file").open().read())
PYTHON
told() { # WHO: what is in the copy that was made
    local old
    old=$(tr -dc S < copy | wc -c)
    [ "$(stat -c %s copy)" = 1048576 ]
    if [ "$old" = 0 ]; then
        echo "$1: zeros"
    elif [ "$old" -gt 900000 ]; then
        echo "$1: old data"
    else
        echo "$1: $old bytes of old data"
    fi
    rm copy
}
mkdir mount
try() { # NAME MKFS...: makes an image on blocks that are full of old data, reads a file from it
    yes SSSSSSS | tr '\n' S | head -c 320M > image
    run "$2" "${@:3}" image > messages 2>&1
    mount -t "$1" -o loop image mount
    fallocate -l 1M mount/file
    echo text 1<> mount/file
    cp mount/file copy
    told "kernel, $1"
    umount mount
    run usr/bin/grub-fstest "$dir/image" cp "(loop0)/file" copy
    told "GRUB, $1"
    venv/bin/python read.py "$1"
    told "dissect, $1"
    if [ "$1" = ext4 ]; then
        run sbin/debugfs -R "dump file copy" image 2> messages
        told "debugfs, $1"
    fi
}
seen=$(
    try ext4 sbin/mke2fs -q -F -t ext4 -b 4096 -E nodiscard
    try xfs sbin/mkfs.xfs -q -f
)
printf '%s\n' "$seen"
expected="kernel, ext4: zeros
GRUB, ext4: old data
dissect, ext4: zeros
debugfs, ext4: zeros
kernel, xfs: zeros
GRUB, xfs: old data
dissect, xfs: old data"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

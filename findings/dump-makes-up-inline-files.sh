#!/usr/bin/env bash
# dump and restore 0.4b47, e2fsprogs 1.47.0 (packages of Debian 12), Linux, run as root.
#
# Guess: dump(8) saves each file of an ext4 filesystem that it accepts; a feature that it does not
# know (inline_data: tiny files are kept within the inode) makes it refuse the filesystem.
# Seen: dump takes what is in the inode for block numbers. Each file of up to some 130 bytes comes
# back with its size, all zeros, and its user attributes are gone with it. dump says that it is done
# and ends with status 0; restore says "Unknown EA index" and ends with status 0 as well. Files with
# blocks are right, also with holes and with a reserve.
# So a backup by dump of such a filesystem lacks the tiny files, which are the settings and the
# keys. A feature that moves the data is marked as incompatible for nothing when readers of the disk
# do not look; whoever adds one to a format tries all of them.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
device=
end() {
    if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi
    [ -z "$device" ] || losetup -d "$device"
    rm -rf "$dir"
}
trap end EXIT
cd "$dir"
chmod 755 .
apt-get -qq download dump=0.4b47-4 e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 attr=1:2.5.1-4 \
    libcom-err2=1.47.0-2+b2 libss2=1.47.0-2+b2 libattr1=1:2.5.1-4
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/sbin:$dir/packages/usr/sbin:$dir/packages/usr/bin:$PATH
mkdir mount
whether() { # NAME: what the restored file is
    if cmp -s "tree/$1" "out/$1"; then
        echo same
    elif [ -z "$(tr -d '\0' < "out/$1")" ]; then
        echo zeros
    else
        echo different
    fi
}
told() { # FEATURES: what comes back of five files
    local name
    rm -rf image out
    mkdir out
    truncate -s 100M image
    mke2fs -q -F -t ext4 -I 256 -O "$1" image
    device=$(losetup -f --show image)
    mount "$device" mount
    echo 'answer = 42' > mount/small
    head -c 100 /dev/zero | tr '\0' x > mount/middle
    head -c 5000 /dev/zero | tr '\0' y > mount/blocks
    truncate -s 3M mount/hole
    echo end >> mount/hole
    fallocate -l 64K mount/reserve
    setfattr -n user.key -v value mount/small mount/blocks
    rm -rf tree
    cp -a mount tree
    umount mount
    dump -0 -f dumped "$device" > messages 2>&1
    echo "$1: dump ends with status $?"
    (cd out && restore -rf ../dumped > ../messages 2>&1)
    echo "    restore ends with status $?"
    losetup -d "$device"
    device=
    for name in small middle blocks hole reserve; do
        echo "    $name: $(stat -c %s "tree/$name") bytes, restored $(stat -c %s "out/$name"):" \
            "$(whether "$name")," \
            "attributes $(getfattr "out/$name" | grep -c user || true)"
    done
}
seen=$(told ^inline_data && told inline_data)
printf '%s\n' "$seen"
expected="^inline_data: dump ends with status 0
    restore ends with status 0
    small: 12 bytes, restored 12: same, attributes 1
    middle: 100 bytes, restored 100: same, attributes 0
    blocks: 5000 bytes, restored 5000: same, attributes 1
    hole: 3145732 bytes, restored 3145732: same, attributes 0
    reserve: 65536 bytes, restored 65536: same, attributes 0
inline_data: dump ends with status 0
    restore ends with status 0
    small: 12 bytes, restored 12: zeros, attributes 0
    middle: 100 bytes, restored 100: zeros, attributes 0
    blocks: 5000 bytes, restored 5000: same, attributes 1
    hole: 3145732 bytes, restored 3145732: same, attributes 0
    reserve: 65536 bytes, restored 65536: same, attributes 0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

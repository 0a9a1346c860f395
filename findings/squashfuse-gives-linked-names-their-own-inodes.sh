#!/usr/bin/env bash
# squashfuse 0.1.105 with libfuse 3.14.0, squashfs-tools 4.5.1 (packages of Debian 12), Linux 6.18
# with squashfs, run as root.
#
# Guess: an image mounted by squashfuse shows what the kernel shows of it: two names of one file
# have its inode number both, which the image holds, and holes take no blocks.
# Seen: squashfuse numbers names, not files: the two names have link count 2 and two numbers. So du
# counts both, tar and cp -a make two files of them, and a sparse file has the blocks of its whole
# size. squashfuse_ll, from the same package, has the numbers of the image, and the blocks of the
# whole size too. Nothing is wrong in the contents.
# So AppImages and packages that are copied out of such a mount grow, and links between their files
# are gone; the copy is made with unsquashfs or squashfuse_ll. A server on the high-level interface
# of libfuse has to set use_ino and fill st_ino, or all tools that pair numbers are blind on it.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'if mountpoint -q "$dir/mount"; then umount "$dir/mount"; fi; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download squashfuse=0.1.105-1 libsquashfuse0=0.1.105-1 squashfs-tools=1:4.5.1-1 \
    libfuse3-3=3.14.0-4 fuse3=3.14.0-4 liblzo2-2=2.10-2 liblz4-1=1.9.4-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/usr/bin:$PATH
mkdir tree mount
head -c 1M /dev/urandom > tree/one
ln tree/one tree/two
truncate -s 64M tree/hole
echo end >> tree/hole
mksquashfs tree image -quiet > messages 2>&1
see() { # NAME COMMAND...: what a mount made by the command shows, and what a copy of it is
    local same=one
    echo "$1:"
    "${@:2}"
    [ mount/one -ef mount/two ] || same=two
    echo "    names with $(stat -c %h mount/one) links, $same inode number(s)," \
        "hole of $(($(stat -c %b mount/hole) / 2048)) MiB"
    rm -rf copy
    mkdir copy
    cp -a mount/one mount/two copy
    echo "    copied by cp -a: $(($(du -sk copy | cut -f 1) / 1024)) MiB," \
        "$(stat -c %h copy/one) link(s)"
    rm -rf copy
    umount mount
}
seen=$(
    see kernel mount -o loop,ro image mount
    see squashfuse squashfuse image mount
    see squashfuse_ll squashfuse_ll image mount
)
printf '%s\n' "$seen"
expected="kernel:
    names with 2 links, one inode number(s), hole of 0 MiB
    copied by cp -a: 1 MiB, 2 link(s)
squashfuse:
    names with 2 links, two inode number(s), hole of 64 MiB
    copied by cp -a: 2 MiB, 1 link(s)
squashfuse_ll:
    names with 2 links, one inode number(s), hole of 64 MiB
    copied by cp -a: 1 MiB, 2 link(s)"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

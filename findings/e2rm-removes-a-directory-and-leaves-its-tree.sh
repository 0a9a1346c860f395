#!/usr/bin/env bash
# e2tools 0.1.0, e2fsprogs 1.47.0 (packages of Debian 12), Linux.
#
# Guess: e2rm -r removes a tree from an ext2 or ext4 image and gives back all of its room, as rm -r
# on the mount does; the image is as sound afterwards as it was before.
# Seen: the files in it are freed, the directories are not: only the name of the topmost one is
# taken out. All of them keep their inode and their block, with nothing that leads to them. e2rm
# says nothing and ends with status 0. e2fsck ends with status 4, and finds each directory
# unconnected.
# So an image that a build changes by e2tools is no longer clean, and its free inodes and blocks
# become fewer with each tree. Trees are removed on the mount; e2fsck -fy is the last step of such a
# build.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2tools=0.1.0-3 e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 \
    libcom-err2=1.47.0-2+b2 libss2=1.47.0-2+b2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/sbin:$dir/packages/usr/bin:$PATH
head -c 1M /dev/urandom > large
free() {
    debugfs -R stats image 2> messages | awk '/^Free (blocks|inodes):/ {n += $3} END {print n}'
}
try() { # FEATURES: a tree that is made and removed
    local before status=0
    rm -f image
    truncate -s 64M image
    mke2fs -q -F -t "$1" image
    before=$(free)
    e2mkdir image:/tree image:/tree/below
    e2cp large image:/tree/below/large
    e2fsck -fn image > messages 2>&1 || status=$?
    echo "$1, made: e2fsck ends with status $status"
    status=0
    e2rm -r image:/tree > messages 2>&1 || status=$?
    echo "$1: e2rm ends with status $status, says $(wc -l < messages) lines;" \
        "in the root: $(e2ls image:/ | tr -s ' \n' ' ')"
    echo "$1: $((before - $(free))) inodes and blocks are lost"
    status=0
    e2fsck -fn image > messages 2>&1 || status=$?
    echo "$1, removed: e2fsck ends with status $status, $(grep -c Unconnected messages || true)" \
        "directories unconnected"
}
seen=$(try ext2; try ext4)
printf '%s\n' "$seen"
expected="ext2, made: e2fsck ends with status 0
ext2: e2rm ends with status 0, says 0 lines; in the root: lost+found 
ext2: 4 inodes and blocks are lost
ext2, removed: e2fsck ends with status 4, 2 directories unconnected
ext4, made: e2fsck ends with status 0
ext4: e2rm ends with status 0, says 0 lines; in the root: lost+found 
ext4: 4 inodes and blocks are lost
ext4, removed: e2fsck ends with status 4, 2 directories unconnected"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

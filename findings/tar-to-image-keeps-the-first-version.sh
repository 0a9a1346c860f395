#!/usr/bin/env bash
# sqfstar of squashfs-tools 4.5.1, genext2fs 1.5.0, tar2sqfs of squashfs-tools-ng 1.2.0, GNU tar
# 1.34 (packages of Debian 12), Linux.
#
# Guess: a filesystem image made from a tar archive holds what the archive would leave in an empty
# directory. Where a name is there twice, because a newer version was appended (tar -r, tar -u), or
# archives were joined (tar -A), that is the last one.
# Seen: sqfstar and genext2fs -a keep the first one, the old file, and leave out the rest. sqfstar
# says so among its messages, genext2fs says nothing; both end with status 0. A directory that the
# archive later has as a link stays a directory. tar2sqfs refuses such an archive.
# So archives that were appended to are not for these tools: take them out and make the image of the
# directory (mksquashfs, genext2fs -d), or refuse them first: tar -t | sort | uniq -d.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download squashfs-tools=1:4.5.1-1 genext2fs=1.5.0-3 squashfs-tools-ng=1.2.0-1 \
    libsquashfs1=1.2.0-1 liblzo2-2=2.10-2 liblz4-1=1.9.4-1 libselinux1=3.4-1+b6 \
    libarchive13=3.6.2-1+deb12u5 e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 \
    libcom-err2=1.47.0-2+b2 libss2=1.47.0-2+b2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/sbin:$dir/packages/usr/bin:$PATH
mkdir tree
cd tree
echo old > file
mkdir current
tar -cf ../archive.tar file current
echo new > file
rmdir current
ln -s elsewhere current
tar -rf ../archive.tar file current
cd ..
made() { # COMMAND...: makes an image of the archive
    local status=0
    "$@" < archive.tar > messages 2>&1 || status=$?
    echo "$1: status $status, it names $(grep -c -e file -e current messages || true)"
}
told() { # what came out of the image
    echo "    file $(cat out/file), current $(stat -c %F out/current)"
    rm -r out
}
seen=$(
    mkdir out
    tar -xf archive.tar -C out
    echo "tar:"
    told
    made sqfstar -quiet -no-progress squashfs
    unsquashfs -quiet -no-progress -d out squashfs > messages
    told
    made genext2fs -b 1000 -a archive.tar ext2
    mkdir out
    debugfs -R "rdump file current out" ext2 2> messages
    told
    made tar2sqfs --quiet refused
)
printf '%s\n' "$seen"
expected="tar:
    file new, current symbolic link
sqfstar: status 0, it names 2
    file old, current directory
genext2fs: status 0, it names 0
    file old, current directory
tar2sqfs: status 1, it names 1"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# mke2fs and debugfs 1.47.0 of e2fsprogs (package of Debian 12), Linux.
#
# Guess: mke2fs -d puts the files of a tree into the new filesystem with the sizes and contents that
# they have. The feature inline_data is about where the bytes of tiny files are kept.
# Seen: with inline_data, a file that ends with a hole, or with a block of written zeros, ends with
# the block of its last other byte instead. The size is a smaller one, and large files are cut like
# small ones. Zeros before other data stay; without the feature all is right. Nothing is said, the
# status is 0, and e2fsck finds nothing. "debugfs write" does it too.
# So disk images, databases and logs with room at their end are damaged in the image. Where
# inline_data is wanted, the tree is copied into the mounted filesystem; whoever uses mke2fs -d
# leaves the feature out, and compares the sizes.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    libss2=1.47.0-2+b2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/sbin:$PATH
mkdir tree
echo data > tree/hole-at-end
truncate -s 10M tree/hole-at-end
{ echo data; head -c 10M /dev/zero; } > tree/zeros-written
{ head -c 10M /dev/zero; echo data; } > tree/zeros-before
head -c 10000 /dev/zero | tr '\0' x > tree/full
told() { # what each file of the tree is in the image
    local name
    for name in hole-at-end zeros-written zeros-before full; do
        rm -f out
        debugfs -R "dump $name out" image 2> messages
        echo "    $name: $(stat -c %s "tree/$name") bytes, in the image $(stat -c %s out):" \
            "$(cmp -s "tree/$name" out && echo same || echo different)"
    done
    e2fsck -fn image > messages 2>&1 && echo "    e2fsck finds nothing"
}
seen=$(
    for features in ^inline_data inline_data; do
        echo "mke2fs -O $features -d:"
        rm -f image
        truncate -s 40M image
        mke2fs -q -F -t ext4 -b 1024 -O "$features" -d tree image
        told
    done
    echo "debugfs write, inline_data:"
    rm -f image
    truncate -s 40M image
    mke2fs -q -F -t ext4 -b 1024 -O inline_data image
    for name in hole-at-end zeros-written zeros-before full; do
        debugfs -w -R "write tree/$name $name" image > messages 2>&1
    done
    told
)
printf '%s\n' "$seen"
expected="mke2fs -O ^inline_data -d:
    hole-at-end: 10485760 bytes, in the image 10485760: same
    zeros-written: 10485765 bytes, in the image 10485765: same
    zeros-before: 10485765 bytes, in the image 10485765: same
    full: 10000 bytes, in the image 10000: same
    e2fsck finds nothing
mke2fs -O inline_data -d:
    hole-at-end: 10485760 bytes, in the image 1024: different
    zeros-written: 10485765 bytes, in the image 1024: different
    zeros-before: 10485765 bytes, in the image 10485765: same
    full: 10000 bytes, in the image 10000: same
    e2fsck finds nothing
debugfs write, inline_data:
    hole-at-end: 10485760 bytes, in the image 1024: different
    zeros-written: 10485765 bytes, in the image 1024: different
    zeros-before: 10485765 bytes, in the image 10485765: same
    full: 10000 bytes, in the image 10000: same
    e2fsck finds nothing"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

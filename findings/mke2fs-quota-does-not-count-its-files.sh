#!/usr/bin/env bash
# mke2fs, debugfs and e2fsck 1.47.0 of e2fsprogs (package of Debian 12), Linux, run as root.
#
# Guess: mke2fs -O quota -d TREE makes a filesystem whose quota files know what the users have in
# it: the feature keeps the usage in the filesystem, and whoever writes files there counts them.
# Seen: the usage is taken down before the tree is copied. The files of the tree count for nobody:
# a user who owns megabytes has no entry, root has what an empty filesystem has. "debugfs write"
# and "debugfs rm" leave the usage as it was, too. mke2fs says nothing; only e2fsck -f of the new
# image complains, with status 4, and the limits of users would begin behind what is there.
# So after mke2fs -d, or after debugfs, either e2fsck -fy counts anew, or the feature is taken on at
# the end, by tune2fs -O quota, which counts.
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
head -c 3M /dev/zero | tr '\0' x > tree/large
echo small > tree/small
chown 1000:1000 tree/*
told() { # WHAT: what the image has for user 1000, and what e2fsck says
    local status=0
    e2fsck -fn image > messages 2>&1 || status=$?
    echo "$1: $(debugfs -R 'list_quota user' image 2> /dev/null |
        awk '$1 == 1000 {print $2 " bytes, " $5 " files"; found = 1}
             END {if (!found) print "nothing"}'), e2fsck $status"
}
new() { # OPTION...: makes an image
    rm -f image
    truncate -s 40M image
    mke2fs -q -F -t ext4 -b 1024 "$@" image
}
seen=$(
    new -O quota -d tree
    told "mke2fs -O quota -d"
    e2fsck -fy image > messages 2>&1 || true
    told "after e2fsck -fy"
    debugfs -w -R "rm large" image > messages 2>&1
    told "after debugfs rm"
    new -d tree
    tune2fs -O quota image > messages
    told "tune2fs -O quota"
)
printf '%s\n' "$seen"
expected="mke2fs -O quota -d: nothing, e2fsck 4
after e2fsck -fy: 3146752 bytes, 2 files, e2fsck 0
after debugfs rm: 3146752 bytes, 2 files, e2fsck 4
tune2fs -O quota: 3146752 bytes, 2 files, e2fsck 0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# Linux 6.18, ext4 (e2fsprogs 1.47.0), XFS (xfsprogs 6.1.0; packages of Debian 12) and tmpfs,
# util-linux of Debian 12, run as root.
#
# Guess: "mount -o remount,ro" fails with EBUSY while a file is open for writing, or mapped for it;
# whoever only reads, whatever it is, does not stand in the way.
# Seen: a file that has no name any more and is open for reading only does so as well: the kernel
# counts the files that are still to be freed, since freeing one writes. It needs no writer: a
# program that was replaced by an update and still runs, a log of which a reader has the old one.
# tmpfs, which has nothing to write, refuses too. A read-only bind mount of the same filesystem
# (remount,bind,ro) is granted beside it, as it looks for writers only.
# So what to look for before a remount is "lsof +L1" as much as open for writing. A filesystem that
# is about to become read-only has to settle its orphans first, or keep them for the next start.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
end() {
    for mount in "$dir/bound" "$dir/mount"; do
        if mountpoint -q "$mount"; then umount "$mount"; fi
    done
    rm -rf "$dir"
}
trap end EXIT
cd "$dir"
chmod 755 .
apt-get -qq download e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 libcom-err2=1.47.0-2+b2 \
    xfsprogs=6.1.0-1 libinih1=55-1 liburcu8=0.13.2-1
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
mkdir mount bound
try() { # WHAT OPTIONS: whether a remount is granted
    local said=granted
    mount -o "remount,$2" "$3" 2> messages || said=refused
    echo "    $1: $said"
    [ $said = refused ] || mount -o "${2/ro/rw},remount" "$3"
}
seen=$(
    for fs in ext4 xfs tmpfs; do
        echo "$fs"
        rm -f image
        truncate -s 400M image
        if [ $fs = tmpfs ]; then
            mount -t tmpfs tmpfs mount
        else
            LD_LIBRARY_PATH=$libraries packages/sbin/mkfs.$fs -q image > messages 2>&1
            mount -o loop image mount
        fi
        echo data > mount/file
        exec 5< mount/file
        try "open for reading" ro mount
        rm mount/file
        try "open for reading, removed" ro mount
        mount --bind mount bound
        try "open for reading, removed, bind" bind,ro bound
        umount bound
        exec 5<&-
        try "closed" ro mount
        umount mount
    done
)
printf '%s\n' "$seen"
expected="ext4
    open for reading: granted
    open for reading, removed: refused
    open for reading, removed, bind: granted
    closed: granted
xfs
    open for reading: granted
    open for reading, removed: refused
    open for reading, removed, bind: granted
    closed: granted
tmpfs
    open for reading: granted
    open for reading, removed: refused
    open for reading, removed, bind: granted
    closed: granted"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# e2image 1.47.0 of e2fsprogs, partclone 0.3.23, zerofree 1.1.1, beside them xfs_copy 6.1.0
# (packages of Debian 12), Linux 6.18 with ext4 and XFS, run as root.
#
# Guess: a snapshot of the device below a mounted filesystem is as good as the device after a loss
# of power: the journal is played back at the next mount, and what was synced is there. A tool that
# copies only the used blocks, or zeroes the free ones, plays the journal back first, or looks in it
# for what is used, or refuses, as it has to know the feature flag that says so.
# Seen: only xfs_copy refuses. e2image -ra, partclone (ext4 and XFS) and zerofree take the bitmaps
# as they lie outside the journal. The copy has the journal, so its mount brings the synced file
# back with name and size; its blocks, which only the journal calls used, were left out or zeroed.
# A file of zeros, status 0 everywhere, and e2fsck or mount find nothing wrong: checksums of ext4
# and XFS are for metadata. A plain copy of the same snapshot has the contents.
# So a snapshot (of LVM, of a virtual machine) is mounted once, or checked with e2fsck -p, before
# one of these sees it. partclone's own check of its image cannot notice:
# it is made from what it read.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
: > none # no package is there yet for apt, so all that they need is named
apt-get -o Dir::State::status="$dir/none" --no-install-recommends -s install \
    e2fsprogs=1.47.0-2+b2 partclone=0.3.23+repack-1 zerofree=1.1.1-1 xfsprogs=6.1.0-1 |
    awk '$1 == "Inst" && $2 !~ /^(libc6|perl.*|python3.*|libgcc-s1|gcc-.*)$/ {
        print $2 "=" substr($3, 2)}' |
    xargs apt-get -qq download
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/sbin:$dir/packages/usr/sbin:$PATH
tool() { # COMMAND...: with the libraries of its own packages
    LD_LIBRARY_PATH=$libraries "$@" >> messages 2>&1
}
mkdir mount
head -c 300000 /dev/urandom > data
look() { # NAME: what is there behind the playback of the journal
    mount -o loop copy mount
    if cmp -s data mount/new; then
        echo "  $1: whole"
    elif cmp -s <(head -c 300000 /dev/zero) mount/new; then
        echo "  $1: $(stat -c %s mount/new) zeros"
    else
        echo "  $1: something else"
    fi
    umount mount
}
snapshot() { # SIZE COMMAND...: of a mounted filesystem with a file that is synced
    truncate -s "$1" image
    tool "${@:2}" image
    mount -o loop image mount
    cp -p data mount/old
    sync -f mount
    mount -o remount,ro mount # which writes the journal back: what lies outside is of now
    mount -o remount,rw mount
    cp data mount/new
    sync mount/new
    cp image snapshot
    umount mount
    rm image
}
through_partclone() { # FILESYSTEM
    rm -f copy saved
    tool "partclone.$1" -q -c -L log -s snapshot -o saved
    tool partclone.restore -q -C -L log -s saved -o copy
    truncate -s "$(stat -c %s snapshot)" copy
    look "partclone.$1"
}
seen=$(
    echo ext4
    snapshot 64M mke2fs -q -t ext4
    cp snapshot copy
    look "plain copy"
    rm copy
    tool e2image -ra snapshot copy
    look "e2image -ra"
    through_partclone ext4
    cp snapshot copy
    tool zerofree copy
    look zerofree
    echo "  e2fsck: $(LD_LIBRARY_PATH=$libraries e2fsck -fn copy > messages 2>&1; echo $?)"
    echo XFS
    snapshot 320M mkfs.xfs -q
    cp snapshot copy
    look "plain copy"
    through_partclone xfs
    rm copy
    tool xfs_copy snapshot copy || echo "  xfs_copy: refused"
)
printf '%s\n' "$seen"
expected="ext4
  plain copy: whole
  e2image -ra: 300000 zeros
  partclone.ext4: 300000 zeros
  zerofree: 300000 zeros
  e2fsck: 0
XFS
  plain copy: whole
  partclone.xfs: 300000 zeros
  xfs_copy: refused"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

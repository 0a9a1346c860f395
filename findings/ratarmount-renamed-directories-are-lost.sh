#!/usr/bin/env bash
# ratarmount 1.3.0 with mfusepy 3.1.1 (PyPI), libfuse 2.9.9 (Debian 12), GNU tar 1.34, Linux 6.18,
# run as root.
#
# Guess: a directory of an archive that is mounted with --write-overlay is renamed with all that is
# in it, or rename fails with EXDEV, upon which mv copies, as over overlayfs.
# Seen: rename succeeds and takes the name alone. The overlay gets an empty file of the new name,
# which the mount shows as an empty directory; what was in the directory is at neither name. A
# symbolic link that is renamed loses its target. A file that has been changed is moved well, but
# its old name stays, with the contents from before the change. mv returns 0 each time.
# --commit-overlay then writes that to the archive: an empty file stands for the directory and one
# for the link, the contents are gone for good, and it says "Committed successfully".
# So in such a mount only plain files that are not yet changed are moved; a directory is copied and
# then removed. The archive is kept until what is in the new one has been looked through.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'cd /; umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download libfuse2=2.9.9-6+b1
dpkg -x libfuse2_*.deb package
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check ratarmount==1.3.0 mfusepy==3.1.1
FUSE_LIBRARY_PATH=$(ls "$dir"/package/lib/x86_64-linux-gnu/libfuse.so.2)
export FUSE_LIBRARY_PATH
mkdir -p source/old mount overlay
echo text > source/old/file
ln -s old/file source/link
echo text > source/plain
echo text > source/changed
tar -C source -cf archive.tar old link plain changed
mounted() { # COMMAND...: what it prints with the archive mounted
    environment/bin/ratarmount -w overlay archive.tar mount > messages 2>&1
    mountpoint -q mount
    (cd mount && "$@")
    umount mount
    # The server leaves its database behind some time after that.
    sleep 1
}
moves() {
    echo more >> changed
    mv old new && echo "directory moved"
    mv link newlink && echo "link moved"
    mv plain newplain && echo "plain file moved"
    mv changed newchanged && echo "changed file moved"
}
look() {
    local name
    for name in *; do
        echo "$1: $name, $(stat -c %F "$name")," \
            "$(find "$name" -mindepth 1 | wc -l) names below," \
            "$(if [ -L "$name" ]; then readlink -n "$name" | wc -c
               elif [ -f "$name" ]; then wc -c < "$name"; else echo no; fi) bytes"
    done
}
moves_and_look() { moves; look "moved"; }
seen=$(
    mounted moves_and_look
    mounted look "mounted again"
    echo commit | environment/bin/ratarmount --commit-overlay -w overlay archive.tar |
        grep -o 'Committed successfully'
    mkdir unpacked
    tar -C unpacked -xf archive.tar
    cd unpacked
    look "unpacked"
)
printf '%s\n' "$seen"
expected="directory moved
link moved
plain file moved
changed file moved
moved: changed, regular file, 0 names below, 5 bytes
moved: new, directory, 0 names below, no bytes
moved: newchanged, regular file, 0 names below, 10 bytes
moved: newlink, symbolic link, 0 names below, 0 bytes
moved: newplain, regular file, 0 names below, 5 bytes
mounted again: changed, regular file, 0 names below, 5 bytes
mounted again: new, directory, 0 names below, no bytes
mounted again: newchanged, regular file, 0 names below, 10 bytes
mounted again: newlink, symbolic link, 0 names below, 0 bytes
mounted again: newplain, regular file, 0 names below, 5 bytes
Committed successfully
unpacked: changed, regular file, 0 names below, 5 bytes
unpacked: new, regular empty file, 0 names below, 0 bytes
unpacked: newchanged, regular file, 0 names below, 10 bytes
unpacked: newlink, regular empty file, 0 names below, 0 bytes
unpacked: newplain, regular file, 0 names below, 5 bytes"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

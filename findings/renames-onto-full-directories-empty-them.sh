#!/usr/bin/env bash
# cryfs 0.11.3, securefs 0.13.1 (its format 2), fuse-zip 0.5.0, encfs 1.9.5, libfuse 2.9.9 (packages
# of Debian 12), Linux 6.18, run as root.
#
# Guess: rename(2) of a directory to the name of another one works where that one is empty, and says
# ENOTEMPTY where it is not. Filesystems of FUSE do as their kernel's do: it is not an option.
# Seen: the kernel leaves this to the server, and three of these do not look. The directory that was
# there is replaced, and all that was in it is gone, without an error; mv -T does it too. cryfs and
# securefs do not give its room back either. fuse-zip writes it into the archive after all, so that
# with the next mount the old names are there beside the new ones. encfs asks the filesystem below,
# and says ENOTEMPTY.
# So "prepare a tree, rename it to the name that all want, and whoever is first has it" replaces the
# winner's tree on such a mount. There mkdir is the claim. A server looks itself whether the
# directory is empty.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download cryfs=0.11.3-5 libspdlog1.10=1:1.10.0+ds-0.4 libfmt9=9.1.0+ds1-2 \
    libboost-chrono1.74.0=1.74.0+ds1-21 libboost-filesystem1.74.0=1.74.0+ds1-21 \
    libboost-thread1.74.0=1.74.0+ds1-21 libboost-program-options1.74.0=1.74.0+ds1-21 \
    securefs=0.13.1+ds-1 libcrypto++8=8.7.0+git220824-1 libutf8proc2=2.8.0-1 \
    libjsoncpp25=1.9.5-4 libargon2-1=0~20171227-0.3+deb12u1 \
    fuse-zip=0.5.0-1+b1 libzip4=1.7.3-1+b1 encfs=1.9.5-2 libtinyxml2-9=9.0.0+dfsg-3.1 \
    libfuse2=2.9.9-6+b1
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/usr/lib/x86_64-linux-gnu:$dir/packages/lib/x86_64-linux-gnu
libraries=$libraries:$dir/packages/usr/lib/encfs
export CRYFS_FRONTEND=noninteractive CRYFS_NO_UPDATE_CHECK=true
mkdir below mount
mounted() { # PROGRAM ARGUMENT...: runs a server with a password at its standard input
    LD_LIBRARY_PATH=$libraries "packages/usr/bin/$@" <<< password > messages 2>&1
}
try() { # WHAT: renames a directory onto a full one
    for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
    mountpoint -q mount
    python3 - "$1" <<'PYTHON'
import os
import sys

os.chdir("mount")
for name in ["new", "winner"]:
    os.mkdir(name)
    with open(f"{name}/of-{name}", "w") as file:
        file.write(name)
os.mkdir("winner/tree")
with open("winner/tree/large", "wb") as file:
    file.write(os.urandom(8 << 20))
try:
    os.rename("new", "winner")
    said = "no error"
except OSError as error:
    said = error.strerror
print(f"{sys.argv[1]}: {said}, winner has {' '.join(sorted(os.listdir('winner')))}")
PYTHON
    umount mount
    while pgrep -f "$dir/mount" > messages; do sleep 0.05; done
    if [ "$1" = fuse-zip ]; then
        echo "    in the archive: $(python3 -c \
            'import zipfile; print(*sorted(zipfile.ZipFile("archive.zip").namelist()))')"
    else
        echo "    its 8 MiB are still below: $([ "$(du -sk below | cut -f 1)" -ge 8192 ] &&
            echo yes || echo no)"
    fi
    rm -rf below
    mkdir below
}
{
    mounted cryfs "$dir/below" "$dir/mount"
    try cryfs
    mounted securefs create --format 2 --pass password "$dir/below"
    mounted securefs mount -b --pass password "$dir/below" "$dir/mount"
    try securefs
    mounted fuse-zip "$dir/archive.zip" "$dir/mount"
    try fuse-zip
    mounted encfs --standard -S "$dir/below" "$dir/mount"
    try encfs
} > seen
seen=$(cat seen)
printf '%s\n' "$seen"
expected="cryfs: no error, winner has of-new
    its 8 MiB are still below: yes
securefs: no error, winner has of-new
    its 8 MiB are still below: yes
fuse-zip: no error, winner has of-new
    in the archive: winner/ winner/of-new winner/of-winner winner/tree/ winner/tree/large
encfs: Directory not empty, winner has of-winner tree
    its 8 MiB are still below: yes"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

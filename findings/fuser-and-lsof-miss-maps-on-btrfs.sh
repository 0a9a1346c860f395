#!/usr/bin/env bash
# fuser of psmisc 23.6, lsof 4.95.0, btrfs-progs 6.2, e2fsprogs 1.47.0 (packages of Debian 12),
# Linux 6.18, run as root.
#
# Guess: "fuser FILE" and "lsof FILE" name each process that uses the file, whether by a descriptor
# or by a mapping only, as a program is used by itself and a library by all that have loaded it.
# Seen: on ext4 they do. On btrfs both find the descriptor and not the mapping: they look for the
# device number of stat(2) in /proc/PID/maps, and btrfs gives stat a number for each subvolume while
# the kernel prints the one of the superblock there. Both end with status 1: nobody uses it.
# "fuser -m" of the mount finds nobody either, while umount says that it is busy.
# So "nobody uses the old library, restart nothing" and "nobody has the database open" are wrong
# there. A filesystem that answers stat with a device number of its own has this to expect of all
# that read maps; who asks for users of a file compares names in /proc/PID/map_files as well.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
holder=
end() {
    [ -z "$holder" ] || kill "$holder" 2> "$dir/ended" || true
    wait
    for fs in ext4 btrfs; do
        if mountpoint -q "$dir/$fs"; then umount "$dir/$fs"; fi
    done
    rm -rf "$dir"
}
trap end EXIT
cd "$dir"
chmod 755 .
apt-get -qq download psmisc=23.6-1 lsof=4.95.0-1 btrfs-progs=6.2-1+deb12u2 \
    e2fsprogs=1.47.0-2+b2 libtirpc3=1.3.3+ds-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/sbin:$dir/packages/usr/bin:$PATH
cat > hold.py <<'PYTHON'
import ctypes
import os
import sys
import time

path, how = sys.argv[1:]
fd = os.open(path, os.O_RDONLY)
if how == "map":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    assert libc.mmap(None, 4096, 1, 2, fd, ctypes.c_long(0)) != ctypes.c_void_p(-1).value
    os.close(fd)
print("ready", flush=True)
time.sleep(600)
PYTHON
found() { # WORD COMMAND...: whether the command names the process
    local word=$1
    shift
    "$@" 2> messages | tr -s ' ' '\n' | grep -qx "$holder" || word="no $word"
    echo -n ", $word"
}
seen=$(
    for fs in ext4 btrfs; do
        truncate -s 200M "$fs.img"
        "mkfs.$fs" -q "$fs.img" > messages 2>&1
        mkdir "$fs"
        mount -o loop "$fs.img" "$fs"
        head -c 8192 /dev/zero > "$fs/data"
        for how in open map; do
            : > ready
            python3 hold.py "$fs/data" "$how" > ready &
            holder=$!
            until [ -s ready ]; do sleep 0.1; done
            echo -n "$fs, $how"
            found fuser fuser "$fs/data"
            found lsof lsof -t "$fs/data"
            found "fuser -m" fuser -m "$fs"
            umount "$fs" 2> messages && echo ", not busy" || echo ", busy"
            kill "$holder"
            wait "$holder" 2> messages || true
        done
        umount "$fs"
    done
)
printf '%s\n' "$seen"
expected="ext4, open, fuser, lsof, fuser -m, busy
ext4, map, fuser, lsof, fuser -m, busy
btrfs, open, fuser, lsof, fuser -m, busy
btrfs, map, no fuser, no lsof, no fuser -m, busy"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

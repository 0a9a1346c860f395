#!/usr/bin/env bash
# Linux 6.18, bindfs 1.14.7 with libfuse 3.14.0 (packages of Debian 12), run as root.
#
# Guess: sync -f MOUNT (syncfs(2)) and sync(2) reach the server of a FUSE mount as a request, so a
# server that stores something itself can make it durable before the call returns.
# Seen: both succeed at once, and the server gets no FSYNC, no FSYNCDIR and no SYNCFS, only the
# open of the directory that is named. The protocol has SYNCFS, and the kernel sends it for virtiofs,
# not to this server. The kernel's own dirty pages go out as WRITE, and nothing says that they have
# to last.
# So whoever stores behind FUSE needs a command of its own for "all of it is durable", and whoever
# uses such a mount must not believe the exit status of sync.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true; [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download bindfs=1.14.7-1 libfuse3-3=3.14.0-4
for package in *.deb; do dpkg -x "$package" packages; done
mkdir source mount
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
# -d prints each request.
packages/usr/bin/bindfs -d source mount > requests 2>&1 &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
echo text > mount/file
# One request that has to be seen, so that an empty list proves something.
sync mount/file
grep -q 'opcode: FSYNC ' requests
before=$(wc -l < requests)
sync -f mount
sync
sleep 0.5
tail -n "+$((before + 1))" requests | grep -o 'opcode: [A-Z]*' | sort | uniq -c
if tail -n "+$((before + 1))" requests | grep -q 'opcode: [A-Z]*SYNC'; then
    echo "the server was told" >&2
    exit 1
fi
echo "sync -f and sync succeeded, and the server was asked to sync nothing"

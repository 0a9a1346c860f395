#!/usr/bin/env bash
# sshfs 3.7.3 with libfuse 3.14.0, sftp-server of OpenSSH 9.2 (packages of Debian 12), Linux 6.18,
# run as root.
#
# Guess: rewinddir(3) on an sshfs mount reads the directory again, from the server or from the cache
# of names that sshfs keeps by default.
# Seen: only from the cache. The protocol cannot rewind an open directory, and once a name was made
# or removed, sshfs goes on with the one that it has read to its end: the listing is empty, without
# an error. By default this emptiness is then cached as the directory's contents: every program sees
# an empty directory (its names can still be opened) until the cache expires (here after 2 s, by
# dcache_timeout). With dir_cache=no only the descriptor that is read again sees nothing.
# So one program that keeps a directory's descriptor and lists twice (a spool, a watcher by polling,
# "is it empty now?" before rmdir) hides all files from everybody; it has to open the directory anew
# each time. A server of FUSE reads its directory anew when a READDIR starts at offset 0.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download sshfs=3.7.3-1.2~deb12u1 libfuse3-3=3.14.0-4 \
    openssh-sftp-server=1:9.2p1-2+deb12u10
for package in *.deb; do dpkg -x "$package" packages; done
cat > join.py <<'PYTHON'
"""Runs two programs whose standard input and output are each other's: no network is needed."""
import os
import socket
import sys

one, two = socket.socketpair()
for end, command in [(one, sys.argv[1:2]), (two, sys.argv[2:])]:
    if end is one and os.fork():
        continue
    os.dup2(end.fileno(), 0)
    os.dup2(end.fileno(), 1)
    os.execv(command[0], command)
PYTHON
mkdir below mount
try() { # NAME OPTION: lists through one descriptor and through new ones
    mkdir "below/$1"
    LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu python3 join.py \
        "$dir/packages/usr/lib/openssh/sftp-server" \
        "$dir/packages/usr/bin/sshfs" -f -o "slave,$2" "none:$dir/below/$1" mount &
    server=$!
    for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
    mountpoint -q mount
    python3 - "$1" <<'PYTHON'
import os
import sys
import time

os.chdir("mount")
for name in range(5):
    open(f"{name}", "w").close()
kept = os.open(".", os.O_RDONLY)
first, again = len(os.listdir(kept)), len(os.listdir(kept))
open("new", "w").close()
third, other = len(os.listdir(kept)), len(os.listdir("."))
there = os.path.exists("new")
time.sleep(3.5)
later = len(os.listdir("."))
print(f"{sys.argv[1]}: {first}, again {again}; one is made: {third}, by a new descriptor {other}")
print(f"{sys.argv[1]}: the name is there: {there}; by a new descriptor later {later}")
PYTHON
    umount mount
    wait "$server" || true
    server=
}
{ try cached dcache_timeout=2; try uncached dir_cache=no; } > seen
seen=$(cat seen)
printf '%s\n' "$seen"
expected="cached: 5, again 5; one is made: 0, by a new descriptor 0
cached: the name is there: True; by a new descriptor later 6
uncached: 5, again 0; one is made: 0, by a new descriptor 6
uncached: the name is there: True; by a new descriptor later 6"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

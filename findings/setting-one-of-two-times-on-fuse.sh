#!/usr/bin/env bash
# fuse-posixovl 1.3 and fuse-zip 0.5.0 with libfuse 2.9.9, sshfs 3.7.3 with libfuse 3.14.0 and
# sftp-server of OpenSSH 9.2 (packages of Debian 12), Linux 6.18, run as root.
#
# Guess: utimensat(2) with UTIME_OMIT for one of the two times (touch -m, touch -a, set_modified of
# Rust, os.Chtimes of Go with a zero time) sets the other one, or fails with EOPNOTSUPP or EINVAL
# where a server can set only both.
# Seen: neither. A server on the high-level interface of libfuse 2 that does not say that it knows
# UTIME_OMIT (most do not) is not even asked: the library answers with success and nothing changes.
# sshfs, whose protocol has only both, sets the omitted time to now: touch -a of an old file makes
# it a new one. With both times given all of them do what they are told.
# So on a FUSE mount a program that must keep a file's time reads both and sets both, and checks
# with stat afterwards; make, rsync -u and backups act on what came of it.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download fuse-posixovl=1.3-1+b1 fuse-zip=0.5.0-1+b1 libzip4=1.7.3-1+b1 \
    libfuse2=2.9.9-6+b1 sshfs=3.7.3-1.2~deb12u1 libfuse3-3=3.14.0-4 \
    openssh-sftp-server=1:9.2p1-2+deb12u10
for package in *.deb; do dpkg -x "$package" packages; done
libraries=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
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
mkdir mount
told() { # FILE: its two times, each as the one of the test or as another
    local shown=() name time
    for name in X Y; do
        time=$(stat -c %$name "$1")
        [ "$time" -lt 1000000000 ] || time=now
        shown+=("$time")
    done
    echo "${shown[*]}"
}
try() { # NAME COMMAND...: sets times on the mount that the command serves
    mkdir -p below
    LD_LIBRARY_PATH=$libraries "${@:2}" &
    server=$!
    for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
    mountpoint -q mount
    echo text > mount/file
    touch -d @100 mount/file
    echo "$1, both set: $(told mount/file)"
    touch -m -d @200 mount/file
    echo "$1, touch -m: $(told mount/file)"
    touch -d @100 mount/file
    touch -a -d @300 mount/file
    echo "$1, touch -a: $(told mount/file)"
    umount mount
    wait "$server" || true
    server=
    rm -rf below
}
python3 -c 'import zipfile; zipfile.ZipFile("archive.zip", "w").writestr("other", "text")'
{
    try posixovl packages/sbin/mount.posixovl -F -S below mount -- -f
    try fuse-zip packages/usr/bin/fuse-zip -f archive.zip mount
    try sshfs python3 join.py packages/usr/lib/openssh/sftp-server \
        packages/usr/bin/sshfs -f -o slave "none:$dir/below" mount
} > seen
seen=$(cat seen)
printf '%s\n' "$seen"
expected="posixovl, both set: 100 100
posixovl, touch -m: 100 100
posixovl, touch -a: 100 100
fuse-zip, both set: 100 100
fuse-zip, touch -m: 100 100
fuse-zip, touch -a: 100 100
sshfs, both set: 100 100
sshfs, touch -m: now 200
sshfs, touch -a: 300 now"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

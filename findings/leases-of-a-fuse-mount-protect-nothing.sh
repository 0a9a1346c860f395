#!/usr/bin/env bash
# Linux 6.18, bindfs 1.14.7 with libfuse 3.14.0 (packages of Debian 12), run as root.
#
# Guess: fcntl(F_SETLEASE) on a file of a FUSE mount fails, since the protocol has no request for it
# and the kernel cannot know who else changes the file.
# Seen: read and write leases are granted, by the kernel alone. An open through the same mount
# breaks them (SIGIO, as on a local file). A change made below the mount, in the directory that
# bindfs shows, breaks nothing: the holder was promised to hear of it first, and never hears.
# So a program that caches on the strength of a lease (Samba's kernel oplocks, a file server's
# delegations) serves old data on any FUSE mount whose files change by another way: another host,
# another mount, the server itself. Leases have to be switched off for such exports by hand.
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
packages/usr/bin/bindfs -f -o attr_timeout=0 source mount &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
python3 - <<'PYTHON'
import fcntl
import os
import signal
import time

broken = []
signal.signal(signal.SIGIO, lambda *_: broken.append(True))


def lease(kind, path):
    """Takes a lease of a mounted file, has `path` opened for writing, says if the lease broke."""
    broken.clear()
    with open("mount/file", "wb") as file:
        file.write(b"first")
    holder = os.open("mount/file", os.O_RDWR if kind == fcntl.F_WRLCK else os.O_RDONLY)
    fcntl.fcntl(holder, fcntl.F_SETLEASE, kind)
    assert fcntl.fcntl(holder, fcntl.F_GETLEASE) == kind
    assert os.pread(holder, 5, 0) == b"first"
    try:
        # Without O_NONBLOCK this would wait for the holder, which is this process.
        other = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(other, b"other")
        os.close(other)
    except BlockingIOError:
        pass
    time.sleep(0.2)
    is_broken = bool(broken)
    fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(holder)
    return is_broken


for name, kind in [("read", fcntl.F_RDLCK), ("write", fcntl.F_WRLCK)]:
    above, below = lease(kind, "mount/file"), lease(kind, "source/file")
    print(f"{name} lease granted; broken by an open above: {above}, by a change below: {below}")
    assert above and not below
with open("source/file", "rb") as file:
    assert file.read() == b"other"
PYTHON

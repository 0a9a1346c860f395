#!/usr/bin/env bash
# gocryptfs 2.3 with fusermount 3.14.0 (packages of Debian 12), Linux 6.18, run as root.
#
# Guess: ln on an encrypted mount changes the number of names and nothing else, so a line that is
# appended afterwards stands behind the last one.
# Seen: the answer to the link request carries the size that the file has below, with the header and
# the tags of the encryption, and the kernel keeps it for as long as it caches attributes (1 s). In
# that time stat gives 53 bytes for a file of 3, under both names, and what is opened for appending
# is written at byte 53: 50 NUL bytes stay in front of it for good. No call fails. Later than that,
# or after another lookup, all is right.
# So "link the old log, then append to the new one", a lock by link(2) whose holder is written into
# it, and every program that opens with O_APPEND just behind a link leave a gap. A server of FUSE
# answers LINK with the attributes that its GETATTR would give, or tells the kernel to keep none.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download gocryptfs=2.3-1+b4 fuse3=3.14.0-4 libfuse3-3=3.14.0-4
for package in *.deb; do dpkg -x "$package" packages; done
export PATH=$dir/packages/bin:$PATH LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu
mkdir below mount
echo secret > password
packages/usr/bin/gocryptfs -q -init -passfile password below
packages/usr/bin/gocryptfs -fg -q -passfile password below mount &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
seen=$(python3 - <<'PYTHON'
import os
import time

os.chdir("mount")


def run(name, wait):
    """Appends to a file that has just got a second name, or a while later."""
    with open(name, "wb") as file:
        file.write(b"abc")
    os.link(name, f"{name}.other")
    time.sleep(wait)
    sizes = os.stat(name).st_size, os.stat(f"{name}.other").st_size
    with open(name, "ab") as file:
        file.write(b"def")
    with open(name, "rb") as file:
        data = file.read()
    print(f"{name}: sizes {sizes}, then {data.count(0)} NUL bytes in {len(data)}")


run("at once", 0)
run("later", 2.5)
PYTHON
)
printf '%s\n' "$seen"
expected="at once: sizes (53, 53), then 50 NUL bytes in 56
later: sizes (3, 3), then 0 NUL bytes in 6"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

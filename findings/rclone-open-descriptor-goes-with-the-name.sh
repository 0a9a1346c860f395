#!/usr/bin/env bash
# rclone 1.60.1 (package of Debian 12), mount with --vfs-cache-mode full over a local directory, run
# as root.
#
# Guess: with all of a file in the cache a descriptor belongs to the file that was opened, as on a
# disk, or the rename that puts another file in its place is refused while it is open.
# Seen: open does nothing yet; the first read or write takes whatever has the name by then. A reader
# that opened the old version reads the new one, cut to the length of the old one (the kernel still
# has that). A writer that opened the old version to change it in place changes the new one, and the
# mixture is uploaded. A descriptor that has read before the rename keeps the old file: what it
# writes then is gone with it, as on a disk.
# So "open, look at the file, then write through the descriptor" is safe only if the look is a read:
# fstat or a lock is not. Replacing files by rename under open writers wants another mount.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download rclone=1.60.1+dfsg-2+b5 fuse3=3.14.0-4 libfuse3-3=3.14.0-4
for package in *.deb; do dpkg -x "$package" packages; done
export PATH=$dir/packages/bin:$PATH LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu
mkdir below mount
packages/usr/bin/rclone --config /dev/null --cache-dir cache --log-file log \
    mount --vfs-cache-mode full --vfs-write-back 100ms below mount &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
seen=$(python3 - <<'PYTHON'
import os
import time

os.chdir("mount")


def uploaded(name, data):
    """Waits until the file has these bytes below the mount as well."""
    for _ in range(400):
        try:
            with open(f"../below/{name}", "rb") as file:
                if file.read() == data:
                    break
        except FileNotFoundError:
            pass
        time.sleep(0.05)
    else:
        raise SystemExit(f"{name} did not arrive with {data}")


def start(name):
    """A file, its next version, and a descriptor of the first."""
    for one, data in [(name, b"old-old"), (f"{name}.next", b"newer-newer")]:
        with open(one, "wb") as file:
            file.write(data)
        uploaded(one, data)
    descriptor = os.open(name, os.O_RDWR)
    assert os.fstat(descriptor).st_size == 7
    return descriptor


def replace(name):
    os.rename(f"{name}.next", name)


reader = start("reader")
replace("reader")
print("read behind the rename:", os.read(reader, 20).decode())
os.close(reader)

writer = start("writer")
replace("writer")
os.write(writer, b"XYZ")
os.close(writer)
uploaded("writer", b"XYZer-newer")
print("written behind the rename: XYZer-newer")

both = start("both")
os.read(both, 3)
replace("both")
os.write(both, b"XYZ")
print("read before it:", os.pread(both, 20, 0).decode())
os.close(both)
time.sleep(1)
uploaded("both", b"newer-newer")
print("and the new file: newer-newer")
PYTHON
)
printf '%s\n' "$seen"
expected="read behind the rename: newer-n
written behind the rename: XYZer-newer
read before it: oldXYZd
and the new file: newer-newer"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

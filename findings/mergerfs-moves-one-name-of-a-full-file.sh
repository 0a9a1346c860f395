#!/usr/bin/env bash
# mergerfs 2.33.5 (package of Debian 12), two tmpfs branches, Linux 6.18, run as root.
#
# Guess: with moveonenospc=true a file that no longer fits on its branch is moved to another one,
# and all that refers to it goes on with the moved file: its other names (hard links) and its other
# descriptors; or a file with several names is left where it is and the write fails with ENOSPC.
# Seen: only the name and the descriptor of the writer move, the write succeeds. The other name
# keeps the old inode with what the file held before, so one file has become two. Another descriptor
# that was open on the same name stays with the old inode too: what it writes succeeds and is not in
# the file of that name; where no other name is left, it is gone with the close.
# So the option is not for directories with hard links (backups by rsync --link-dest, package
# caches) nor for files that several processes write (databases, logs).
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true; [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; umount "$dir/small" "$dir/large" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download mergerfs=2.33.5-1
dpkg -x mergerfs_*.deb package
mkdir small large mount
mount -t tmpfs -o size=8m tmpfs small
mount -t tmpfs -o size=64m tmpfs large
options=moveonenospc=true,category.create=ff,minfreespace=0
package/usr/bin/mergerfs -f -o "$options" small:large mount &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
python3 - <<'PYTHON'
import os

os.chdir("mount")
MIB = 1 << 20


def create(name):
    descriptor = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(descriptor, b"a" * MIB)
    return descriptor


def fill(descriptor):
    """Writes more than the small branch holds."""
    for part in range(1, 12):
        assert os.pwrite(descriptor, b"b" * MIB, part * MIB) == MIB


def read(name):
    with open(name, "rb") as file:
        return file.read()


writer = create("name")
os.link("name", "other")
assert os.path.exists("../small/name") and os.stat("name").st_nlink == 2
fill(writer)
sizes = os.stat("name").st_size // MIB, os.stat("other").st_size // MIB
places = [sorted(os.listdir(f"../{branch}")) for branch in ("small", "large")]
print(f"two names of one file: {sizes[0]} and {sizes[1]} MiB; on the branches: {places}")
assert sizes[0] == 12 and sizes[1] < 12 and places == [["other"], ["name"]]
os.close(writer)
os.unlink("name")
os.unlink("other")

writer = create("log")
second = os.open("log", os.O_RDWR)
fill(writer)
written = os.pwrite(second, b"SECOND", 0)
print(f"second descriptor: {written} bytes written, the file starts with {read('log')[:6]}")
assert written == 6 and read("log")[:6] == b"aaaaaa"
os.close(second)
os.close(writer)
assert len(read("log")) == 12 * MIB and b"SECOND" not in read("log")
PYTHON

#!/usr/bin/env bash
# Linux 6.18, tmpfs, python3 of Debian 12, run as root.
#
# Guess: reading a hole costs nothing, however it is read: read(2) copies zeros, and a mapping that
# nobody can write through gets the kernel's page of zeros.
# Seen: read(2) does so. Looking at a hole through a mapping allocates every page that is looked at,
# shared or private, with a descriptor for reading only: st_blocks and the use of the mount grow up
# to the file's size, SEEK_DATA finds data where the hole was, and it stays so without the mapping.
# Memory that fallocate has reserved counts as a hole for SEEK_DATA until
# then, and as data afterwards.
# So scanning sparse files on tmpfs (/dev/shm, container volumes, test directories) by mmap, as
# search tools, databases and readers of columnar files do, fills it; and a copy that is made after
# that, guided by SEEK_DATA, is no longer sparse.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
mkdir mount
mount -t tmpfs -o size=16m,huge=never tmpfs mount
seen=$(python3 - <<'PYTHON'
import errno
import mmap
import os

os.chdir("mount")
MIB = 1 << 20


def look(what, name):
    """Tells the room that the file and the whole mount take, and where its data begin."""
    room = os.statvfs(".")
    used = (room.f_blocks - room.f_bfree) * room.f_frsize / MIB
    descriptor = os.open(name, os.O_RDONLY)
    try:
        data = os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        data = errno.errorcode[error.errno]
    blocks = os.fstat(descriptor).st_blocks * 512 / MIB
    os.close(descriptor)
    print(f"{what}: file {blocks:.0f} MiB, mount {used:.0f} MiB, data at {data}")


def read(name):
    descriptor = os.open(name, os.O_RDONLY)
    assert os.read(descriptor, 4 * MIB) == bytes(4 * MIB)
    os.close(descriptor)


def map_it(name, flags):
    """Looks at one byte of each page through a mapping for reading only."""
    descriptor = os.open(name, os.O_RDONLY)
    with mmap.mmap(descriptor, 4 * MIB, flags=flags, prot=mmap.PROT_READ) as mapped:
        assert not any(mapped[::mmap.PAGESIZE])
    os.close(descriptor)


for name in ["shared", "private", "reserved"]:
    with open(name, "wb") as file:
        if name == "reserved":
            os.posix_fallocate(file.fileno(), 0, 4 * MIB)
        file.truncate(4 * MIB)
    os.chmod(name, 0o444)
    look(f"{name}, made", name)
    read(name)
    look(f"{name}, read", name)
    map_it(name, mmap.MAP_PRIVATE if name == "private" else mmap.MAP_SHARED)
    look(f"{name}, mapped", name)
PYTHON
)
printf '%s\n' "$seen"
expected="shared, made: file 0 MiB, mount 0 MiB, data at ENXIO
shared, read: file 0 MiB, mount 0 MiB, data at ENXIO
shared, mapped: file 4 MiB, mount 4 MiB, data at 0
private, made: file 0 MiB, mount 4 MiB, data at ENXIO
private, read: file 0 MiB, mount 4 MiB, data at ENXIO
private, mapped: file 4 MiB, mount 8 MiB, data at 0
reserved, made: file 4 MiB, mount 12 MiB, data at ENXIO
reserved, read: file 4 MiB, mount 12 MiB, data at ENXIO
reserved, mapped: file 4 MiB, mount 12 MiB, data at 0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# dissect.hypervisor 3.21 (PyPI), images made by qemu-img 7.2 (package of Debian 12).
#
# Guess: a disk that it opens reads as qemu-img says: holes are zeros and everything is at its
# offset, however much is read at a time.
# Seen: a VDI image is right when a read stays in one block of 1 MiB. A longer read takes the place
# of its first block for all of them: it goes on in the file behind that block, whatever is there,
# or gives zeros to its end when its first block is a hole. A qcow2 image that is larger than its
# backing file has nothing where that has ended, not zeros: the next cluster that was written comes
# at once, at an offset that depends on where the read began. Neither is an error; some reads are
# shorter than the disk says.
# So a hash, a search or a copy of such a disk is of something else. Dynamic VDI files, and disks
# that were grown over a snapshot, are made raw by qemu-img first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download qemu-utils=1:7.2+dfsg-7+deb12u18+b3 liburing2=2.3-3 libaio1=0.3.113-4 \
    libnuma1=2.0.16-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu:$dir/packages/lib/x86_64-linux-gnu
PATH=$dir/packages/usr/bin:$PATH
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install dissect.hypervisor==3.21
# Each MiB is full of one letter or a hole.
python3 -c 'print("a" * (1 << 20) + "b" * (1 << 20), end="")' > base
cp base raw
truncate -s 6M raw
python3 -c 'print("d" * (1 << 20) + "e" * (1 << 20), end="")' > more
dd if=more of=raw bs=1M seek=3 conv=notrunc status=none
qemu-img convert -f raw -O vdi raw disk.vdi
qemu-img create -q -f qcow2 -F raw -b base disk.qcow2 6M
qemu-io -f qcow2 -c "write -P 0x65 4M 1M" disk.qcow2 > written
for image in disk.vdi disk.qcow2; do qemu-img convert -O raw "$image" "$image.raw"; done
seen=$(venv/bin/python - <<'PYTHON'
from pathlib import Path

from dissect.hypervisor.disk.qcow2 import QCow2
from dissect.hypervisor.disk.vdi import VDI

MIB = 1 << 20


def letters(data):
    """One letter for each MiB, a point for zeros."""
    assert all(len(set(data[at : at + MIB])) == 1 for at in range(0, len(data), MIB))
    return data[::MIB].replace(b"\0", b".").decode()


def read(disk, begin, length):
    disk.seek(begin * MIB)
    return letters(disk.read(length * MIB))


for kind, name in (VDI, "disk.vdi"), (QCow2, "disk.qcow2"):
    disk = kind(Path(name)).open()
    print(f"{name}: {disk.size // MIB} MiB, right is {letters(Path(name + '.raw').read_bytes())}")
    print("  by one MiB:", *(read(disk, begin, 1) or "nothing" for begin in range(6)))
    print("  all:", read(disk, 0, 6))
    print("  from 2 MiB:", read(disk, 2, 4))
    print("  3 MiB from 2 MiB:", read(disk, 2, 3))
PYTHON
)
printf '%s\n' "$seen"
expected="disk.vdi: 6 MiB, right is ab.de.
  by one MiB: a b . d e .
  all: abde
  from 2 MiB: ....
  3 MiB from 2 MiB: ...
disk.qcow2: 6 MiB, right is ab..e.
  by one MiB: a b nothing nothing e nothing
  all: abe
  from 2 MiB: e
  3 MiB from 2 MiB: e"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# Linux 6.18, btrfs with quota groups, btrfs-progs 6.2 (package of Debian 12), run as root.
#
# Guess: below a limit a file can be written again in place, and at the limit it can be made
# smaller.
# Seen: a subvolume with a limit of 40 MiB and one file of 30 MiB refuses to have the file written
# over: each new extent is charged before the old one is free, and EDQUOT comes after a third. The
# next try gets nowhere, and truncate to a smaller size is refused with EDQUOT as well: it needs a
# little room for itself. Only unlink works.
# So a program that makes room by truncating its log, or keeps a file of fixed size, stops for good
# at such a limit; tenants on btrfs need a limit of twice their largest file, or have to delete.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'umount "$dir/mount" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download btrfs-progs=6.2-1+deb12u2 liblzo2-2=2.10-2
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/bin:$dir/packages/sbin:$PATH
truncate -s 600M disk
mkfs.btrfs -q disk > notes 2>&1
mkdir mount
mount -o loop disk mount
btrfs quota enable mount
btrfs subvolume create mount/tenant > made
btrfs qgroup limit 40M mount/tenant
sync -f mount
python3 - <<'PYTHON'
import errno
import os

MIB = 1 << 20
file = os.open("mount/tenant/file", os.O_CREAT | os.O_RDWR)


def write():
    """MiB of 30 that could be written from the start of the file."""
    for part in range(30):
        try:
            os.pwrite(file, os.urandom(MIB), part * MIB)
        except OSError as error:
            assert error.errno == errno.EDQUOT
            return part
    os.fsync(file)
    return 30


def said(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"


first = write()
again = [write() for _ in range(3)]
print(f"written {first} of 30 MiB, again {again}, file of {os.fstat(file).st_size // MIB} MiB")
assert first == 30 and min(again) < 30
shrunk = said(os.ftruncate, file, MIB)
print(f"truncate to 1 MiB: {shrunk}, file of {os.fstat(file).st_size // MIB} MiB")
assert shrunk == "EDQUOT", "a file can be made smaller at the limit now"
os.close(file)
removed = said(os.unlink, "mount/tenant/file")
print(f"unlink: {removed}")
assert removed == "done"
PYTHON

#!/usr/bin/env bash
# pyfakefs 6.3.2 (PyPI), Python 3.11.
#
# Guess: the disk of a given size that pyfakefs offers (set_disk_usage) counts as a disk does: a
# file without a name is charged until its last descriptor is closed, and then its room is free.
# Seen: unlink frees the room at once, though the file can still be read and written, so more fits
# than the disk holds. What is written to it afterwards is charged, and never given back: not by
# close and not by anything else. Ten temporary files in the usual way (open, unlink, write, close)
# fill a disk of ten times their size for good, and a write to the empty disk fails with ENOSPC.
# So tests of behaviour on a full disk go wrong in both directions there; a small tmpfs or loop
# device tells the truth.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install pyfakefs==6.3.2
"$dir/venv/bin/python" - <<'PYTHON'
import errno
import os

from pyfakefs.fake_filesystem_unittest import Patcher

SIZE = 1_000_000


def write(path, count, mode="wb"):
    with open(path, mode) as file:
        file.write(b"x" * count)


def check(what, seen, expected):
    print(f"{what}: {seen}")
    assert seen == expected, "pyfakefs counts in another way now"


with Patcher() as patcher:
    fake = patcher.fs
    fake.set_disk_usage(SIZE, "/")
    fake.create_dir("/data")
    empty = fake.get_disk_usage("/").used

    def used():
        return fake.get_disk_usage("/").used - empty

    write("/data/large", 600_000)
    reader = open("/data/large", "rb")
    os.unlink("/data/large")
    check("removed but open", used(), 0)
    write("/data/second", 600_000)
    check("its bytes can be read", len(reader.read()), 600_000)
    reader.close()
    os.unlink("/data/second")

    for _ in range(9):
        temporary = open("/data/temporary", "wb")
        os.unlink("/data/temporary")
        temporary.write(b"x" * 100_000)
        temporary.close()
    check("files", os.listdir("/data"), [])
    check("used", used(), 900_000)
    try:
        write("/data/new", 200_000)
        said = "done"
    except OSError as error:
        said = errno.errorcode[error.errno]
    check("write of a fifth of the disk", said, "ENOSPC")
PYTHON

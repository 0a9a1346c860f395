#!/usr/bin/env bash
# pyfatfs 1.1.0 with fs 2.4.16 (PyFilesystem2, PyPI), Python 3.11.
#
# Guess: a file that is removed or moved while it is open either goes on, or its writes fail, or the
# remove is refused. A copy or a move of a file onto itself does nothing or fails.
# Seen: remove frees the clusters and leaves them to the open file as well. When the next file has
# got them, a write through the removed one lands in that file; write and close succeed. A move is a
# copy and a remove, so it is the same there, and what is written after the move is not in the moved
# file. copy(path, path, overwrite=True) empties the file, and move(path, path, overwrite=True)
# removes it; both succeed. So it is with the MemoryFS of PyFilesystem2; its TempFS refuses the copy
# and keeps the file at a move.
# So a file is closed before its name is removed or moved, and whoever copies into a folder compares
# the paths first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv environment
# setuptools: fs imports pkg_resources.
environment/bin/pip install --quiet --disable-pip-version-check pyfatfs==1.1.0 fs==2.4.16 \
    setuptools==65.5.0
cat > probe.py <<'PYTHON'
from fs.memoryfs import MemoryFS
from fs.tempfs import TempFS
from pyfatfs.PyFat import PyFat
from pyfatfs.PyFatFS import PyFatFS

SIZE = 16 << 20
with open("image", "wb") as image:
    image.truncate(SIZE)
maker = PyFat()
maker.mkfs("image", PyFat.FAT_TYPE_FAT16, size=SIZE, label="PROBE")
maker.close()
disk = PyFatFS("image")


def beside(what, step):
    """Opens a file, does something to its name, makes another file and writes to the first."""
    disk.writebytes("/old", b"o" * 5000)
    file = disk.openbin("/old", "r+")
    step()
    disk.writebytes("/next", b"n" * 5000)
    try:
        file.write(b"OLD")
        file.close()
        result = "written"
    except Exception as error:
        result = f"refused ({type(error).__name__})"
    names = " ".join(f"{name} {disk.readtext(name)[:6]}" for name in sorted(disk.listdir("/")))
    print(f"{what}: {result}, then {names}")
    for name in disk.listdir("/"):
        disk.remove(name)


def onto_itself(what, there, call):
    there.writetext("/file", "text")
    try:
        getattr(there, call)("/file", "/file", overwrite=True)
        result = "succeeds"
    except Exception as error:
        result = f"refused ({type(error).__name__})"
    left = repr(there.readtext("/file")) if there.exists("/file") else "nothing"
    print(f"{what}, {call} onto itself: {result}, {left} is left")


beside("nothing", lambda: None)
beside("removed", lambda: disk.remove("/old"))
beside("moved", lambda: disk.move("/old", "/moved"))
for what, there in [("FAT", disk), ("memory", MemoryFS()), ("disk", TempFS())]:
    for call in ["copy", "move"]:
        onto_itself(what, there, call)
disk.close()
PYTHON
seen=$(environment/bin/python -W ignore probe.py)
printf '%s\n' "$seen"
expected="nothing: written, then next nnnnnn old OLDooo
removed: written, then next OLDnnn
moved: written, then moved oooooo next OLDnnn
FAT, copy onto itself: succeeds, '' is left
FAT, move onto itself: succeeds, nothing is left
memory, copy onto itself: succeeds, '' is left
memory, move onto itself: succeeds, nothing is left
disk, copy onto itself: refused (SameFileError), 'text' is left
disk, move onto itself: succeeds, 'text' is left"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

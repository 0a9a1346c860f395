#!/usr/bin/env bash
# fsspec 2026.9.0 (PyPI), its memory filesystem, Python 3.11.
#
# Guess: two open files of one path of fsspec's memory filesystem are two open files, as on the
# local one: each has its own position.
# Seen: open() for reading hands out the stored file itself, moved to its start. A second open moves
# the first reader back, and then each read of one moves the other: two readers of ten bytes get each
# about half. Nothing raises.
# So the usual double for tests of fsspec code gives wrong bytes where all others are right: open a
# file once, or read with cat_file(start, end), which has no position.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install fsspec==2026.9.0
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import sys

import fsspec


def read_in_turns(filesystem, path):
    """What two readers of the same ten bytes get, two bytes at a time."""
    filesystem.pipe_file(path, b"0123456789")
    parts = [b"", b""]
    with filesystem.open(path, "rb") as one, filesystem.open(path, "rb") as two:
        for _ in range(5):
            parts[0] += one.read(2)
            parts[1] += two.read(2)
    return parts


local = read_in_turns(fsspec.filesystem("file"), f"{sys.argv[1]}/file")
memory = read_in_turns(fsspec.filesystem("memory"), "/file")
print("local: ", *local)
print("memory:", *memory)
assert local == [b"0123456789", b"0123456789"]
assert memory == [b"014589", b"2367"], "memory files have positions of their own now"
store = fsspec.filesystem("memory")
first = store.open("/file", "rb")
first.read(6)
store.open("/file", "rb")
moved = first.read(2)
print("memory, a second open after six bytes:", moved)
assert moved == b"01"
PYTHON

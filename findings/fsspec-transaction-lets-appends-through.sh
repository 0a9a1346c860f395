#!/usr/bin/env bash
# fsspec 2026.9.0 (PyPI), its local filesystem, Python 3.11.
#
# Guess: in a transaction of fsspec's local filesystem, whose files appear together at its end or
# not at all, a file that was opened for appending takes part: its new bytes appear with the others.
# Seen: the bytes go straight into the file. At the end the file that was appended to raises
# AttributeError, and that stops the commit where it is: files that were opened before it are there,
# what was written to those opened after it is thrown away. When the block raises by itself, the
# appended bytes stay too, and the AttributeError takes the place of the block's own error.
# So a transaction that holds an append is neither atomic nor undone; files in it have to be opened
# with "w" or "x", the old contents written again.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install fsspec==2026.9.0
mkdir "$dir/data"
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import os
import sys

import fsspec

root = f"{sys.argv[1]}/data"
local = fsspec.filesystem("file")
with open(f"{root}/log", "wb") as file:
    file.write(b"old")


def transaction(is_broken):
    """The error that comes out of a transaction with a new file, an append and a new file."""
    try:
        with local.transaction:
            for name, mode in [("before", "wb"), ("log", "ab"), ("after", "wb")]:
                with local.open(f"{root}/{name}", mode) as file:
                    file.write(b"+new")
            if is_broken:
                raise ValueError("the caller changed its mind")
    except Exception as error:
        return type(error).__name__
    return None


def contents():
    with open(f"{root}/log", "rb") as file:
        return sorted(os.listdir(root)), file.read()


error = transaction(is_broken=False)
print("commit:", error, *contents())
assert error == "AttributeError"
assert contents() == (["before", "log"], b"old+new")
error = transaction(is_broken=True)
print("undo:", error, *contents())
assert error == "AttributeError"
assert contents() == (["before", "log"], b"old+new+new")
PYTHON

#!/usr/bin/env bash
# opendal 0.47.12 (PyPI), services fs, memory, sled, dashmap and moka.
#
# Guess: remove_all("reports/2024") removes that directory and what is below it, as its description
# says ("all files and directories at the given path"), and does the same on each service.
# Seen: on fs it does. On the four that keep keys, sled on disk among them, it removes every key
# that starts with these letters: reports/2024.csv, reports/2024-draft/x and reports/20240/y go as
# well, without an error. With a slash at the end, "reports/2024/", all remove the same.
# So a program that was written and tested on a directory loses its neighbours' files when it moves
# to another service, which is what the library is for. The slash is never to be left out.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install opendal==0.47.12
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import sys
import tempfile

import opendal

NAMES = ["2024/one", "2024/deep/two", "2024.csv", "2024-draft/x", "20240/y", "other"]


def left(service, path):
    """The names that are there after remove_all."""
    where = {"fs": "root", "sled": "datadir"}
    options = {where[service]: tempfile.mkdtemp(dir=sys.argv[1])} if service in where else {}
    store = opendal.Operator(service, **options)
    for name in NAMES:
        store.write(f"reports/{name}", b"x")
    store.remove_all(path)
    return [name for name in NAMES if store.exists(f"reports/{name}")]


NEIGHBOURS = NAMES[2:]
for service in ["fs", "memory", "sled", "dashmap", "moka"]:
    for path in ["reports/2024/", "reports/2024"]:
        seen = left(service, path)
        print(f"{service}, remove_all({path!r}): left {' '.join(seen)}")
        right = service == "fs" or path.endswith("/")
        expected = NEIGHBOURS if right else ["other"]
        assert seen == expected, "this is no longer what is described above"
PYTHON

#!/usr/bin/env bash
# checksumdir 1.3.0 (PyPI), Python 3.11, Linux.
#
# Guess: dirhash() with include_paths=True (checksumdir -p), which takes the paths in, gives another
# digest when two files have swapped what they hold, or when a file is in another directory.
# Seen: the digests of all files and of all paths are sorted in one list, and that is hashed: which
# file holds what does not count. Two files that swapped their contents keep the digest; of five
# files any order of what they hold does. The parts of a path are hashed without anything
# between them: ab/c, a/bc and abc are the same. Another content or another name does count.
# So a configuration with its old and its new version swapped passes as unchanged. A list of digests
# with names, sorted by name and then hashed, tells it.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install checksumdir==1.3.0
cat > probe.py <<'PYTHON'
import itertools
import os
import shutil

from checksumdir import dirhash


def digest(files):
    shutil.rmtree("tree", ignore_errors=True)
    for name, text in files.items():
        os.makedirs(os.path.dirname("tree/" + name), exist_ok=True)
        with open("tree/" + name, "w") as file:
            file.write(text)
    return dirhash("tree", "sha256", include_paths=True)


def compare(what, first, second):
    print(what, "same" if digest(first) == digest(second) else "other")


files = {"current": "new", "previous": "old"}
compare("swapped:", files, {"current": "old", "previous": "new"})
compare("changed:", files, {"current": "newer", "previous": "old"})
compare("renamed:", files, {"current": "new", "earlier": "old"})
compare("ab/c, a/bc:", {"ab/c": "text"}, {"a/bc": "text"})
compare("ab/c, abc:", {"ab/c": "text"}, {"abc": "text"})
orders = itertools.permutations("12345")
print("digests of 120 orders:", len({digest(dict(zip("vwxyz", order))) for order in orders}))
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="swapped: same
changed: other
renamed: other
ab/c, a/bc: same
ab/c, abc: same
digests of 120 orders: 1"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

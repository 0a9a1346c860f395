#!/usr/bin/env bash
# klepto 0.2.8 (PyPI; archives that act as a dict, and caches of results in them), Python 3.11,
# Linux.
#
# Guess: in an archive 1 and "1" are two keys, and so are "a-b" and "a_b"; where the names of files
# do not allow a key, it is encoded, or setting it raises. A cached function that is called with
# "a_b" does not get what it computed for "a-b".
# Seen: file_archive keeps them apart. dir_archive makes a directory of str(key) with "_" for "-":
# 1 and "1", None and "None", (1, 2) and "(1, 2)", -1 and "_1", "a-b" and "a_b" are one entry each,
# and the second value replaces the first and is found under both keys. "a/b" lies within "a", and
# goes when "a" is set. No error is raised. inf_cache and lru_cache over such a directory give a
# call with "a_b" the result of "a-b", with their default keymap and with stringmap and picklemap.
# With cached=True all looks right as long as the dict in memory answers, before dump() and after.
# So a cache in a directory takes keymap=hashmap(algorithm="md5"), and an archive whose keys come
# from elsewhere is a file_archive or has keys that are digests.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install klepto==0.2.8 dill==0.4.1
cat > "$dir/try.py" <<'PYTHON'
import os
import sys

from klepto.archives import dir_archive, file_archive
from klepto.keymaps import hashmap, picklemap, stringmap
from klepto.safe import inf_cache, lru_cache

os.chdir(sys.argv[1])
pairs = [(1, "1"), (None, "None"), ((1, 2), "(1, 2)"), (-1, "_1"), ("a-b", "a_b"), ("a/b", "a"),
         ("ab", "AB")]
for kind in file_archive, dir_archive:
    mixed = []
    for number, (first, second) in enumerate(pairs):
        archive = kind(f"{kind.__name__}{number}", {}, cached=False)
        archive[first] = "first"
        archive[second] = "second"
        if (archive.get(first), archive.get(second)) != ("first", "second"):
            mixed.append(f"{first!r} is {archive.get(first)}")
    print(f"{kind.__name__}: {'; '.join(mixed) or 'all apart'}")
maps = {"the default": {}, "stringmap": {"keymap": stringmap()},
        "picklemap": {"keymap": picklemap()}, "md5": {"keymap": hashmap(algorithm="md5")}}
for name, options in maps.items():
    for cache in inf_cache, lru_cache:
        where = dir_archive(f"{cache.__name__} {name}", {}, cached=False)

        @cache(cache=where, **options)
        def twice(text):
            return text * 2

        print(f"{cache.__name__} with {name}: {twice('a-b')} and {twice('a_b')}")
PYTHON
seen=$("$dir/venv/bin/python" -W ignore "$dir/try.py" "$dir")
printf '%s\n' "$seen"
gone="'a/b' is None"
both="a-ba-b and a-ba-b"
expected="file_archive: all apart
dir_archive: 1 is second; None is second; (1, 2) is second; -1 is second; 'a-b' is second; $gone
inf_cache with the default: $both
lru_cache with the default: $both
inf_cache with stringmap: $both
lru_cache with stringmap: $both
inf_cache with picklemap: $both
lru_cache with picklemap: $both
inf_cache with md5: a-ba-b and a_ba_b
lru_cache with md5: a-ba-b and a_ba_b"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

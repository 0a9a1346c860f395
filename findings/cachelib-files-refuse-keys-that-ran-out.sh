#!/usr/bin/env bash
# cachelib 0.17.0 (PyPI; the caches of Flask-Caching), Python 3.11.
#
# Guess: once the time of a value has run out, its key is free again: get() gives nothing, has() is
# false, and add() stores a new value and says so.
# Seen: that is so in memory. FileSystemCache.add() only looks whether there is a file of that name,
# and nothing removes the file of a value that ran out but set() of the same key, delete(), or a
# cache with more files than its threshold. So add() refuses the key for ever, while get() and has()
# say that there is nothing: a lock taken with add() that was to free itself after a second is held
# by nobody and taken by nobody.
# inc() of a counter stores it with the default time of the cache, not with the time that it was
# given, in memory too: a counter of tries in a second counts for five minutes, and longer with each
# try.
# So over files, has() and set() instead of add() (no lock), or delete() first where get() gave
# nothing; a lock is better a file lock.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install cachelib==0.17.0
cat > "$dir/try.py" <<'PYTHON'
import sys
import time

from cachelib import FileSystemCache, SimpleCache

for cache in SimpleCache(), FileSystemCache(sys.argv[1]):
    name = type(cache).__name__
    print(f"{name}: add {cache.add('lock', 'first', timeout=1)}, "
          f"again {cache.add('lock', 'second', timeout=1)}")
    cache.set("tries", 1, timeout=1)
    cache.inc("tries")
    time.sleep(2.5)
    print(f"{name}, later: has {cache.has('lock')}, get {cache.get('lock')}, "
          f"add {cache.add('lock', 'third', timeout=60)}, get {cache.get('lock')}")
    cache.delete("lock")
    print(f"{name}, deleted: add {cache.add('lock', 'third', timeout=60)}, "
          f"get {cache.get('lock')}; the counter of a second {cache.get('tries')}")
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir/cache")
printf '%s\n' "$seen"
expected="SimpleCache: add True, again False
SimpleCache, later: has False, get None, add True, get third
SimpleCache, deleted: add True, get third; the counter of a second 2
FileSystemCache: add True, again False
FileSystemCache, later: has False, get None, add False, get None
FileSystemCache, deleted: add True, get third; the counter of a second 2"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

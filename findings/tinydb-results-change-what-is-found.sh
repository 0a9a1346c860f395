#!/usr/bin/env bash
# tinydb 4.9.0 (PyPI), Python 3.11.
#
# Guess: what search() returns is the caller's own, as what get() and all() return is: the store
# was read and decoded for it. And an update() that raises has changed nothing.
# Seen: search() keeps its results by query, and the list that it gives out the next time is new but
# the documents in it are the same objects. What a caller adds to one, or removes from it, is found
# by everyone who asks the same question again, though it is in no file; get() and all() do not show
# it, nor does the same question in other words. It is gone with the next write to the table.
# An update() whose function raises at the second document has changed the first one, where the
# store is in memory or behind CachingMiddleware; the latter writes that half to the file when it is
# closed. Only the plain file has nothing of it.
# So documents that were found are copied (copy.deepcopy) before they are changed, or the table gets
# cache_size = 0; and an update by a function is tried out first, or goes to the plain file.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install tinydb==4.9.0
cat > "$dir/try.py" <<'PYTHON'
import json
import pathlib
import sys

from tinydb import TinyDB, where
from tinydb.middlewares import CachingMiddleware
from tinydb.storages import JSONStorage, MemoryStorage

root = pathlib.Path(sys.argv[1])


def stored(path):
    """What the file of a database holds."""
    return list(json.loads(path.read_text())["prices"].values())


def looked(cache_size):
    """Changes what a search found, and looks again."""
    path = root / f"looked-{cache_size}"
    db = TinyDB(path).table("prices", cache_size=cache_size)
    db.insert({"name": "one", "price": 100})
    for found in db.search(where("name") == "one"):
        found["price"] *= 2
    again = db.search(where("name") == "one")[0]["price"]
    other = db.search(where("name").matches("one"))[0]["price"]
    got = db.get(where("name") == "one")["price"]
    print(f"cache of {cache_size}: again {again}, in other words {other}, get {got}, "
          f"file {stored(path)[0]['price']}")
    db.insert({"name": "two", "price": 5})
    print(f"after a write: {db.search(where('name') == 'one')[0]['price']}")


def failed(name, **storage):
    """Updates two documents with a function that fails at the second one."""
    path = root / name
    base = TinyDB(path, **storage) if name != "memory" else TinyDB(**storage)
    db = base.table("prices")
    db.insert_multiple([{"price": 100}, {"price": None}])
    try:
        db.update(lambda document: document.update(price=document["price"] * 2))
    except TypeError:
        print(f"{name}: raised, {[document['price'] for document in db.all()]}", end="")
    base.close()
    print(f", file {[d['price'] for d in stored(path)]}" if path.exists() else "")


looked(10)
looked(0)
failed("plain")
failed("cached", storage=CachingMiddleware(JSONStorage))
failed("memory", storage=MemoryStorage)
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir")
printf '%s\n' "$seen"
expected="cache of 10: again 200, in other words 100, get 100, file 100
after a write: 100
cache of 0: again 100, in other words 100, get 100, file 100
after a write: 100
plain: raised, [100, None], file [100, None]
cached: raised, [200, None], file [200, None]
memory: raised, [200, None]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

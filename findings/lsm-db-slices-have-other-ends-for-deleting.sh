#!/usr/bin/env bash
# lsm-db 0.7.3 (PyPI; the storage engine of SQLite 4), Python 3.11.
#
# Guess: del db[a:b] removes what db[a:b] gives: the same slice of the same object, with its end
# left out as in Python, or with both ends as in SQL's BETWEEN, but one of them for both.
# Seen: reading gives both ends, deleting takes neither. After "del db['k2':'k5']" a look at
# db['k2':'k5'] still finds k2 and k5; a slice from a key to itself reads one record and deletes
# none, and one between neighbours reads two and deletes none. No error. delete_range does the same.
# A slice without a start or an end raises TypeError for deleting, so the first and the last record
# of a database are never reached that way.
# So a clean-up of expired keys leaves its ends each time. Read the keys of the slice and delete
# them one by one, or delete the two ends after the range. Whoever offers ranges has one rule.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install lsm-db==0.7.3
seen=$("$dir/venv/bin/python" - "$dir" <<'PYTHON'
import sys

from lsm import LSM


def keys(pairs):
    return " ".join(key.decode() for key, _ in pairs) or "none"


def try_range(number, first, last, delete):
    """What a range reads, and what is left of all keys when it has been deleted."""
    db = LSM(f"{sys.argv[1]}/db{number}")
    for digit in range(7):
        db[f"k{digit}"] = "value"
    read = keys(db[first:last])
    try:
        delete(db)
        after = f"leaves {keys(db)}"
    except TypeError:
        after = "raises TypeError"
    db.close()
    print(f"{first} to {last}: reads {read}, deleting {after}")


def delete_slice(first, last):
    def delete(db):
        del db[first:last]
    return delete


ranges = [("k2", "k5"), ("k2", "k3"), ("k2", "k2"), ("k2", None), (None, "k2")]
for number, (first, last) in enumerate(ranges):
    try_range(number, first, last, delete_slice(first, last))
try_range(9, "k2", "k5", lambda db: db.delete_range("k2", "k5"))
PYTHON
)
printf '%s\n' "$seen"
expected="k2 to k5: reads k2 k3 k4 k5, deleting leaves k0 k1 k2 k5 k6
k2 to k3: reads k2 k3, deleting leaves k0 k1 k2 k3 k4 k5 k6
k2 to k2: reads k2, deleting leaves k0 k1 k2 k3 k4 k5 k6
k2 to None: reads k2 k3 k4 k5 k6, deleting raises TypeError
None to k2: reads k0 k1 k2, deleting raises TypeError
k2 to k5: reads k2 k3 k4 k5, deleting leaves k0 k1 k2 k5 k6"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

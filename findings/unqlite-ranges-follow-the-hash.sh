#!/usr/bin/env bash
# unqlite 1.2.0 (PyPI, with the UnQLite within it), Python 3.11, Linux.
#
# Guess: range(first, last) gives the pairs whose keys lie between the two, in order, as such calls
# of ordered stores do; a store without an order has none, or raises. A loop that deletes at a
# cursor until it is no longer valid deletes everything behind it.
# Seen: the store is a hash table, and a range is what its cursor passes from the one key to the
# other, or to the table's end where the last one comes first in it. Most of the keys are from
# outside, most of those within can be missing, and nothing is raised; with a few keys the order
# can be right by chance. The loop ends early, with most of the keys still there and a cursor that
# is no longer valid.
# So a prefix or a range is taken from a sorted list of keys(), and keys are deleted by name.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install unqlite==1.2.0
cat > probe.py <<'PYTHON'
from unqlite import UnQLite


def told(name, pairs, first, last, store):
    keys = [pair[0] for pair in pairs]
    between = [key for key in sorted(store.keys()) if first <= key <= last]
    print(f"{name}: {len(keys)} keys, {len(set(keys) - set(between))} from outside,"
          f" {len(set(between) - set(keys))} of {len(between)} missing, sorted"
          f" {keys == sorted(keys)}")


store = UnQLite("file")
for number in range(1000):
    store[f"day-{number:03}"] = "value"
store.commit()
for first, last in (("day-100", "day-199"), ("day-003", "day-006")):
    told(f"range {first} to {last}", store.range(first, last), first, last, store)
deleted = 0
with store.cursor() as cursor:
    cursor.first()
    while cursor.is_valid():
        cursor.delete()
        deleted += 1
print(f"loop: {deleted} deleted, {len(store)} left")
store.close()
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="range day-100 to day-199: 266 keys, 188 from outside, 87 of 100 missing, sorted False
range day-003 to day-006: 412 keys, 359 from outside, 0 of 4 missing, sorted False
loop: 70 deleted, 930 left"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

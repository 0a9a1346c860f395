#!/usr/bin/env bash
# lmdb 3.0.0 (PyPI), Python 3.11.
#
# Guess: a loop over a cursor sees each record, also when its body deletes the one that it was
# given, with the cursor or with the transaction.
# Seen: only with the transaction. Cursor.delete() leaves the cursor on the record behind the one
# that it deleted, and the loop goes on from there to the next: every other record is never seen and
# stays. Where a condition decides, what stays is every record that lies behind a deleted one, so
# with few matches it looks right. Backwards, the loop ends after the first record, because the
# cursor is at the end then. Nothing is raised, and the count of the loop agrees with itself.
# So a loop deletes with Transaction.delete(key), or runs "while cursor.delete()" from first(), or
# takes the keys into a list first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install lmdb==3.0.0
cat > "$dir/try.py" <<'PYTHON'
import sys

import lmdb

environment = lmdb.open(sys.argv[1])


def tell(what, delete):
    """Fills the database, deletes in a loop, and tells what is left of it."""
    with environment.begin(write=True) as transaction:
        for number in range(1000):
            # Numbers 100 to 109 are the old ones.
            value = b"old" if 100 <= number < 110 else b"new"
            transaction.put(b"%04d" % number, value)
    with environment.begin(write=True) as transaction:
        count = delete(transaction, transaction.cursor())
    with environment.begin() as transaction:
        left = list(transaction.cursor())
    old = sum(value == b"old" for _, value in left)
    print(f"{what}: the loop deleted {count}, left {len(left)}, of them old {old}")


def by_cursor(transaction, cursor):
    return sum(cursor.delete() for _ in cursor)


def by_cursor_backwards(transaction, cursor):
    return sum(cursor.delete() for _ in cursor.iterprev())


def old_by_cursor(transaction, cursor):
    return sum(cursor.delete() for _, value in cursor if value == b"old")


def by_transaction(transaction, cursor):
    return sum(transaction.delete(key) for key, _ in cursor)


def without_loop(transaction, cursor):
    count = 0
    cursor.first()
    while cursor.delete():
        count += 1
    return count


tell("by the cursor", by_cursor)
tell("by the cursor, backwards", by_cursor_backwards)
tell("the old ones by the cursor", old_by_cursor)
tell("by the transaction", by_transaction)
tell("while there is one", without_loop)
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir/store")
printf '%s\n' "$seen"
expected="by the cursor: the loop deleted 500, left 500, of them old 5
by the cursor, backwards: the loop deleted 1, left 999, of them old 10
the old ones by the cursor: the loop deleted 5, left 995, of them old 5
by the transaction: the loop deleted 1000, left 0, of them old 0
while there is one: the loop deleted 1000, left 0, of them old 0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

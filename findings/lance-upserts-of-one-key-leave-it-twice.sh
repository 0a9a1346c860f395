#!/usr/bin/env bash
# pylance 14.0.2 with pyarrow 26.0.1 (PyPI; the Lance format), Python 3.11, Linux, a local folder.
#
# Guess: merge_insert("key") with when_matched_update_all and when_not_matched_insert_all is an
# upsert: whoever comes second with the same key, by a handle that has not seen the first one's row,
# updates it after a retry or is refused. Two updates by such handles both take effect, after all.
# Seen: both insert. The key is there twice, with both values, and the one that was to be inserted
# only where it is not there yet is so, too; no error, whether the first row came from an upsert
# or from an append. Update and delete do look again: two updates that add 100 make 200. Two
# upserts that find the key there, and update it, end with one row as well.
# So upserts from several programs go through one of them, or are followed by a count of each key.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install pylance==14.0.2 pyarrow==26.0.1
cat > probe.py <<'PYTHON'
import shutil

import lance
import pyarrow


def row(key, value):
    return pyarrow.table({"key": [key], "value": pyarrow.array([value], pyarrow.int64())})


def upsert(key, value):
    return lambda data: (data.merge_insert("key").when_matched_update_all()
                         .when_not_matched_insert_all().execute(row(key, value)))


def insert(key, value):
    return lambda data: (data.merge_insert("key").when_not_matched_insert_all()
                         .execute(row(key, value)))


def append(data):
    lance.write_dataset(row("new", 1), data, mode="append")


def update(data):
    data.update({"value": "value + 100"})


def attempt(name, *changes):
    """Each change by a handle of its own that was opened before all of them."""
    shutil.rmtree("data", ignore_errors=True)
    lance.write_dataset(row("old", 0), "data")
    results = []
    for change, data in [(change, lance.dataset("data")) for change in changes]:
        try:
            change(data)
            results.append("done")
        except OSError:
            results.append("refused")
    rows = sorted((r["key"], r["value"]) for r in lance.dataset("data").to_table().to_pylist())
    print(f"{name}: {', '.join(results)};", *[f"{key}={value}" for key, value in rows])


attempt("two updates", update, update)
attempt("two upserts, old key", upsert("old", 1), upsert("old", 2))
attempt("two upserts, new key", upsert("new", 1), upsert("new", 2))
attempt("two inserts", insert("new", 1), insert("new", 2))
attempt("append, upsert", append, upsert("new", 2))
PYTHON
seen=$(venv/bin/python probe.py 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="two updates: done, done; old=200
two upserts, old key: done, done; old=2
two upserts, new key: done, done; new=1 new=2 old=0
two inserts: done, done; new=1 new=2 old=0
append, upsert: done, done; new=1 new=2 old=0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

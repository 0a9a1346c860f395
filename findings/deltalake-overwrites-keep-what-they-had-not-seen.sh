#!/usr/bin/env bash
# deltalake 1.6.6 with pyarrow 26.0.1 (PyPI; delta-rs), Python 3.11, Linux, a table in a local
# directory.
#
# Guess: to overwrite or to empty a Delta table touches all of it, so with a handle that does not
# know the newest version it is refused, as updates, merges and deletes by a predicate are, or it is
# done to the newest version. After two overwrites one of them has won.
# Seen: with mode="overwrite", or delete() without a predicate, just the files that the handle knows
# are removed. What somebody appended since its load stays, and the call returns normally. Two
# overwrites of a table without rows, each by its own handle, both succeed, and it has the rows of
# both: no order of the two gives that. delete("true") and all others are refused
# (CommitFailedError).
# So a job that fills a table anew calls update_incremental() or makes a new handle just before, and
# overwrites with a predicate that is always true, or a retry leaves each row twice.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install deltalake==1.6.6 pyarrow==26.0.1
cat > probe.py <<'PYTHON'
import shutil

import pyarrow
import pyarrow.parquet
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError


def of(*keys):
    return pyarrow.table({"key": pyarrow.array(keys, pyarrow.string())})


def overwrite(key, **options):
    return lambda table: write_deltalake(table, of(key), mode="overwrite", **options)


def append(table):
    write_deltalake(table, of("appended"), mode="append")


def clear(table):
    table.delete()


def attempt(name, before, *changes):
    """Each change by a handle of its own that was opened before all of them."""
    shutil.rmtree("table", ignore_errors=True)
    write_deltalake("table", before)
    results = []
    for change, table in [(change, DeltaTable("table")) for change in changes]:
        try:
            change(table)
            results.append("done")
        except CommitFailedError:
            results.append("refused")
    left = [row["key"] for path in DeltaTable("table").file_uris()
            for row in pyarrow.parquet.read_table(path).to_pylist()]
    print(f"{name}: {', '.join(results)}; left {' '.join(sorted(left))}")


attempt("append, overwrite", of("old"), append, overwrite("new"))
attempt("append, overwrite where true", of("old"), append, overwrite("new", predicate="true"))
attempt("append, delete all", of("old"), append, clear)
attempt("append, delete where true", of("old"), append, lambda table: table.delete("true"))
attempt("append, update all", of("old"), append,
        lambda table: table.update(new_values={"key": "changed"}))
attempt("two overwrites", of("old"), overwrite("one"), overwrite("two"))
attempt("two overwrites of no rows", of(), overwrite("one"), overwrite("two"))
attempt("two of no rows where true", of(), overwrite("one", predicate="true"),
        overwrite("two", predicate="true"))
attempt("two retries of no rows", of(), overwrite("one"), overwrite("one"))
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="append, overwrite: done, done; left appended new
append, overwrite where true: done, refused; left appended old
append, delete all: done, done; left appended
append, delete where true: done, refused; left appended old
append, update all: done, refused; left appended old
two overwrites: done, refused; left one
two overwrites of no rows: done, done; left one two
two of no rows where true: done, refused; left one
two retries of no rows: done, done; left one one"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

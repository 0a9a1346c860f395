#!/usr/bin/env bash
# pyiceberg 0.12.0 with pyarrow 26.0.1 (PyPI; Apache Iceberg), Python 3.11, a table in a local
# folder with a catalog of SQLite.
#
# Guess: Table.delete() removes the rows that a scan with the same filter shows. Whether "x != 1"
# takes rows without an x is a matter of definition (in SQL it does not, in Iceberg it does), but
# the same for each row.
# Seen: it is a matter of the file that the row is in. Of a file that holds a 1, delete("x != 1")
# writes the rows without x again, and they stay; a file that has no 1 goes as a whole, with its
# rows without x. A scan with "x != 1" shows none of those, so they go unseen; one with
# "x not in (1, 7)" shows them all, and delete with that keeps them or not by the file again. NaN
# shows in a scan with "f != 1.0", and delete with that leaves it.
# A scan with "not (f <= 2.0)" misses the NaN of a file that has 1.0 and 2.0 beside it, and shows it
# when it has a file of its own. So once small files are joined, a filter means other rows.
# A filter with an inequality says what is to become of the others: "x != 1 and x is not null", or
# "x != 1 or x is null", and the same with "is nan" for floats.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install "pyiceberg[sql-sqlite]==0.12.0" \
    pyarrow==26.0.1
mkdir "$dir/warehouse"
cat > "$dir/try.py" <<'PYTHON'
import math
import sys

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

home = sys.argv[1]
catalog = SqlCatalog("try", uri=f"sqlite:///{home}/catalog", warehouse=f"file://{home}/warehouse")
catalog.create_namespace("try")
schema = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("f", pa.float64())])
rows = [(1, 1, 1.0), (2, 2, 2.0), (3, None, None), (4, None, math.nan)]


def ids(scan):
    return sorted(scan.to_arrow()["id"].to_pylist())


filters = ("x = 1", "x != 1", "x not in (1, 7)", "x != 1 and x is not null", "x != 1 or x is null",
           "f != 1.0", "f != 1.0 or f is nan or f is null", "not (f <= 2.0)")
for number, which in enumerate(filters):
    found = []
    for files in [rows], [rows[:2], rows[2:]]:
        table = catalog.create_table(f"try.t{number}_{len(files)}", schema)
        for file in files:
            table.append(pa.Table.from_pylist(
                [dict(zip(schema.names, row)) for row in file], schema=schema))
        shown = ids(table.scan(row_filter=which))
        table.delete(which)
        found.append(f"shows {shown}, leaves {ids(table.scan())}")
    print(f"{which}: one file {found[0]}; two {found[1]}")
PYTHON
seen=$("$dir/venv/bin/python" -W ignore "$dir/try.py" "$dir")
printf '%s\n' "$seen"
same="shows [2, 3, 4], leaves [1]"
expected="x = 1: one file shows [1], leaves [2, 3, 4]; two shows [1], leaves [2, 3, 4]
x != 1: one file shows [2], leaves [1, 3, 4]; two shows [2], leaves [1]
x not in (1, 7): one file shows [2, 3, 4], leaves [1, 3, 4]; two shows [2, 3, 4], leaves [1]
x != 1 and x is not null: one file shows [2], leaves [1, 3, 4]; two shows [2], leaves [1, 3, 4]
x != 1 or x is null: one file shows [2, 3, 4], leaves [1]; two shows [2, 3, 4], leaves [1]
f != 1.0: one file shows [2, 4], leaves [1, 3, 4]; two shows [2, 4], leaves [1, 3, 4]
f != 1.0 or f is nan or f is null: one file shows [2, 3, 4], leaves [1]; two $same
not (f <= 2.0): one file shows [], leaves [1, 2, 3, 4]; two shows [4], leaves [1, 2, 3, 4]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

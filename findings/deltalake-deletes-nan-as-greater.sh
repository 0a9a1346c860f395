#!/usr/bin/env bash
# deltalake 1.6.6 (PyPI; delta-rs) with pyarrow 26.0.1 (PyPI), Python 3.11, Linux, a local folder.
#
# Guess: delete("x > 5") removes the rows that a read with the filter x > 5 shows: a caller looks at
# what would go, and then has it go. NaN is greater than no number.
# Seen: the row with NaN goes too. To the engine that deletes, NaN is greater than every number; to
# the reader's filter it is not. "x < 5" and "x != 10" agree: NaN and null stay with the first, and
# with the second null stays.
# So measurements that are missing as NaN go with the large ones. Whoever deletes by a lower bound
# adds "and not isnan(x)".
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
from deltalake import DeltaTable, write_deltalake

rows = pyarrow.table({"id": [1, 2, 3, 4], "x": [1.0, 10.0, float("nan"), None]})
for operator, bound in ((">", 5.0), ("<", 5.0), ("!=", 10.0)):
    shutil.rmtree("table", ignore_errors=True)
    write_deltalake("table", rows)
    table = DeltaTable("table")
    shown = table.to_pyarrow_table(filters=[("x", operator, bound)])["id"].to_pylist()
    table.delete(f"x {operator} {bound}")
    left = DeltaTable("table").to_pyarrow_table()["id"].to_pylist()
    gone = sorted(set(rows["id"].to_pylist()) - set(left))
    print(f"x {operator} {bound:g}: shown {sorted(shown)}, deleted {gone}")
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="x > 5: shown [2], deleted [2, 3]
x < 5: shown [1], deleted [1]
x != 10: shown [1, 3], deleted [1, 3]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

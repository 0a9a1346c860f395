#!/usr/bin/env bash
# tiledb 0.36.1 (PyPI), numpy, Python 3.11, Linux, arrays in a local directory.
#
# Guess: an array of TileDB that is written twice with the same timestamp shows what was written
# last, as it does without one, also within a millisecond; or the second write is refused.
# Seen: without a timestamp the last one of eight quick writes is seen, always. With one that the
# caller gives, as for the day that the data are of, every write is kept, and which one is seen
# comes from a random number in the names of their files: it can be the first one, and it stays so
# for all readers. Consolidation and vacuuming then remove the others. Nothing is said at any time.
# So data of a day are corrected with a timestamp that is larger by one, which the day has room for
# if it counts in milliseconds, or written without one.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install tiledb==0.36.1
cat > probe.py <<'PYTHON'
import numpy
import tiledb

SCHEMA = tiledb.ArraySchema(
    tiledb.Domain(tiledb.Dim("x", domain=(0, 9), tile=5, dtype=numpy.int32)),
    attrs=[tiledb.Attr("value", dtype=numpy.int64)])


def shown(uri):
    with tiledb.open(uri) as array:
        values = array[0:10]["value"]
        assert len(set(values)) == 1
        return int(values[0])


def newest(name, **options):
    """How many of 16 arrays show the last of eight writes, and how many still do once merged."""
    counts = [0, 0]
    for number in range(16):
        uri = f"{name}{number}"
        tiledb.Array.create(uri, SCHEMA)
        for value in range(8):
            with tiledb.open(uri, "w", **options) as array:
                array[0:10] = numpy.full(10, value, dtype=numpy.int64)
        before = shown(uri)
        assert shown(uri) == before
        tiledb.consolidate(uri)
        tiledb.vacuum(uri)
        counts[0] += before == 7
        counts[1] += shown(uri) == 7
    return counts


plain, equal = newest("plain"), newest("equal", timestamp=20260101)
print("no timestamp:", *plain)
print("equal ones:", *["most show an older write" if count < 10 else count for count in equal])
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="no timestamp: 16 16
equal ones: most show an older write most show an older write"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

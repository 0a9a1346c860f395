#!/usr/bin/env bash
# partd 1.4.2 (appendable key-value files) with numpy 2.4.6 (PyPI), Python 3.11.
#
# Guess: partd.Numpy gives back what was appended: an array of another type to the same key is
# converted or refused, and an array of two dimensions keeps its rows.
# Seen: the type of a key is what its first array had, and the bytes of all later ones are read as
# that type: 1.5 and 2.5 behind integers are two numbers of nineteen digits, and 7 and 8 as
# 32-bit integers become one number. With 64-bit numbers behind 32-bit ones there are twice as many.
# A table of two rows comes back as one row. Nothing is refused.
# So a part that has no missing values has integers, one with a gap has fractions, and the sum is
# silently wrong. Whoever appends gives each array the type first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install partd==1.4.2 numpy==2.4.6
cat > probe.py <<'PYTHON'
import numpy
import partd

store = partd.Numpy(partd.File("store"))
parts = {
    "same": [numpy.array([1, 2]), numpy.array([7, 8])],
    "fractions": [numpy.array([1, 2]), numpy.array([1.5, 2.5])],
    "shorter": [numpy.array([1, 2]), numpy.array([7, 8], "i4")],
    "longer": [numpy.array([1, 2], "i4"), numpy.array([7, 8])],
    "table": [numpy.array([[1, 2], [3, 4]])],
}
for key, arrays in parts.items():
    for array in arrays:
        store.append({key: array})
    read = store.get(key)
    print(f"{key}: {read.dtype} {read.tolist()}")
PYTHON
seen=$(venv/bin/python probe.py)
printf '%s\n' "$seen"
expected="same: int64 [1, 2, 7, 8]
fractions: int64 [1, 2, 4609434218613702656, 4612811918334230528]
shorter: int64 [1, 2, 34359738375]
longer: int32 [1, 2, 7, 0, 8, 0]
table: int64 [1, 2, 3, 4]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# h5py 3.16.0 and tables 3.11.1 (PyTables) with numpy 2.4.6 (PyPI), Python 3.11.
#
# Guess: numbers that do not fit the type of a dataset are refused when they are written, as numpy
# refuses a single one; or, in an array, they wrap around as in numpy's own assignment.
# Seen: it depends on the way in, for the same file. h5py hands an array to the HDF5 library, which
# puts the nearest number of the type for each, and the smallest one for what is not a number:
# 300 is 255, and -5 is 0 in an unsigned byte. PyTables converts with numpy before, and stores 44
# and 251. A single number that h5py is given is refused. On reading, astype() of h5py clamps what
# numpy's astype() of the same values wraps. There is no error and no warning from h5py.
# So values are brought into range, or checked (numpy.can_cast, min and max), before they are
# written; what comes out of a narrowed copy tells which library made it, not what was measured.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install h5py==3.16.0 tables==3.11.1 numpy==2.4.6
cat > "$dir/try.py" <<'PYTHON'
import sys
import warnings

import h5py
import numpy
import tables

warnings.simplefilter("error")
measured = numpy.array([300, -5, 256, 3])
odd = numpy.array([1e12, float("nan"), -2.7])

with h5py.File(sys.argv[1], "w") as file:
    narrow = file.create_dataset("narrow", (4,), dtype="u1")
    narrow[:] = measured
    integers = file.create_dataset("integers", (3,), dtype="i4")
    integers[:] = odd
    wide = file.create_dataset("wide", data=measured)
    print("h5py, written:", narrow[:].tolist(), integers[:].tolist())
    print("h5py, read as bytes:", wide.astype("u1")[:].tolist(),
          "by numpy:", wide[:].astype("u1").tolist())
    try:
        narrow[0] = 300
        print("h5py, a single one:", narrow[0])
    except OverflowError:
        print("h5py, a single one: refused")
with tables.open_file(sys.argv[1], "a") as file:
    file.root.narrow[:] = measured
    print("PyTables, written:", file.root.narrow[:].tolist())
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir/file.h5")
printf '%s\n' "$seen"
expected="h5py, written: [255, 0, 255, 3] [2147483647, -2147483648, -2]
h5py, read as bytes: [255, 0, 255, 3] by numpy: [44, 251, 0, 3]
h5py, a single one: refused
PyTables, written: [44, 251, 0, 3]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

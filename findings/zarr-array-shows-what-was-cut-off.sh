#!/usr/bin/env bash
# zarr 3.1.6 with numcodecs 0.16.6 and numpy 2.4.6 (PyPI), Python 3.11, its local store.
#
# Guess: an array that was made shorter and then longer again shows the fill value in the new part,
# as a file does after truncate(2).
# Seen: only the chunks that lie wholly behind the new end are removed. The last chunk keeps its old
# values behind the end, and they are there again when the array grows. With chunks of 4, the
# numbers 1 to 16, cut to 6 and grown to 16, elements 7 and 8 are back. With shards it is the same
# in units of inner chunks. An append in between overwrites some of them and leaves the rest.
# So how much returns depends on the chunk size, which is no part of the data: whoever resizes an
# array as a log or a window sets the cut part to the fill value before the cut.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install zarr==3.1.6 numcodecs==0.16.6 numpy==2.4.6
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import sys

import numpy
import zarr


def make(name, **options):
    """An array of the numbers 1 to 16 on the disk."""
    array = zarr.create_array(
        f"{sys.argv[1]}/{name}", shape=(16,), chunks=(4,), dtype="i4", fill_value=0, **options
    )
    array[:] = numpy.arange(1, 17)
    return array


def check(what, array, expected):
    seen = zarr.open_array(array.store, mode="r")[:].tolist()
    print(f"{what}: {seen}")
    assert seen == expected, "zarr cuts in another way now"


zeros = [0] * 8
for name, options in [("chunks", {}), ("shards", {"shards": (8,)})]:
    array = make(name, **options)
    array.resize((6,))
    check(f"{name}, cut to 6", array, [1, 2, 3, 4, 5, 6])
    array.resize((16,))
    check(f"{name}, grown to 16", array, [1, 2, 3, 4, 5, 6, 7, 8, *zeros])

array = make("appended")
array.resize((5,))
array.append(numpy.array([100]))
array.resize((8,))
check("cut to 5, one appended, grown to 8", array, [1, 2, 3, 4, 5, 100, 7, 8])

array = make("cleared")
array[6:] = 0
array.resize((6,))
array.resize((16,))
check("set to 0 before the cut", array, [1, 2, 3, 4, 5, 6, 0, 0, *zeros])
PYTHON

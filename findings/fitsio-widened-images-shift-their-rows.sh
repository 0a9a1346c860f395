#!/usr/bin/env bash
# fitsio 1.4.2 with numpy 2.4.6 (PyPI; FITS images), Python 3.11, Linux.
#
# Guess: write(part, start=[row, column]) of an image, which expands the image in the file when the
# part reaches beyond it, leaves the old pixels at their rows and columns and fills the rest with 0.
# Seen: that holds for more rows. For more columns the old pixels stay where they are in the file
# and the length of a row changes: two rows of three become a row of four or five and what is
# left, pixels of the second row are in the first, zeros are at the end of the last one. A column
# that is added behind the last one, and a longer second row, do it; no error, no warning.
# So an image that grows to the right is read, put into a larger array and written anew.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install fitsio==1.4.2 numpy==2.4.6
cat > probe.py <<'PYTHON'
import fitsio
import numpy


def grow(name, start, shape):
    with fitsio.FITS(name + ".fits", "rw") as file:
        file.write(numpy.arange(1, 7, dtype="i4").reshape(2, 3))
        file[0].write(numpy.full(shape, 99, "i4"), start=start)
    print(f"{name}: {fitsio.read(name + '.fits').tolist()}")


grow("inside", [0, 1], (2, 2))
grow("third row", [2, 0], (1, 3))
grow("fourth column", [0, 3], (2, 1))
grow("longer second row", [1, 0], (1, 5))
grow("end of the first row", [0, 2], (1, 2))
PYTHON
seen=$(venv/bin/python -W error probe.py)
printf '%s\n' "$seen"
expected="inside: [[1, 99, 99], [4, 99, 99]]
third row: [[1, 2, 3], [4, 5, 6], [99, 99, 99]]
fourth column: [[1, 2, 3, 99], [5, 6, 0, 99]]
longer second row: [[1, 2, 3, 4, 5], [99, 99, 99, 99, 99]]
end of the first row: [[1, 2, 99, 99], [5, 6, 0, 0]]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

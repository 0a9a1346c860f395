#!/usr/bin/env bash
# fastparquet 2026.9.0 with pandas 3.1.1 and numpy 2.4.6 (PyPI), Python 3.11, Linux.
#
# Guess: append=True, for which the manual asks for the same schema, refuses a column with another
# type of numbers, as it refuses other names of columns, or converts what fits and refuses the rest.
# Seen: each number is cast to the type that the file began with, as C does: 3.5 becomes 3 and -1.9
# becomes -1, 4294967303 becomes 7 behind 32-bit integers, 300 becomes 44 behind 8-bit ones, -1
# becomes 4294967295 behind unsigned ones, 7 becomes true behind truth values. No error comes, and
# only for 1e300 that becomes infinite as a short fraction does numpy warn. Texts are refused.
# So a measurement whose first day had whole numbers loses its fractions from then on. The types are
# to be compared with those of the file (ParquetFile.dtypes) before each append.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install fastparquet==2026.9.0 pandas==3.1.1 \
    numpy==2.4.6
cat > probe.py <<'PYTHON'
import warnings

warnings.simplefilter("ignore", DeprecationWarning)
import fastparquet
import numpy
import pandas


def append(name, first, second, column="x"):
    fastparquet.write(name, pandas.DataFrame({"x": first}))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", RuntimeWarning)
        try:
            fastparquet.write(name, pandas.DataFrame({column: second}), append=True)
        except (ValueError, TypeError) as error:
            print(f"{name}: {type(error).__name__}")
            return
    read = fastparquet.ParquetFile(name).to_pandas()["x"].tolist()
    print(f"{name}: {read[1:]}", "with a warning" if raised else "silently")


append("same", [1], [2])
append("fractions", [1], [3.5, -1.9])
append("longer", numpy.array([1], "i4"), [4294967303])
append("byte", numpy.array([1], "i1"), [300])
append("unsigned", numpy.array([1], "u4"), [-1])
append("truth", [True], [7])
append("short fraction", numpy.array([1], "f4"), [1e300])
append("text", [1], ["text"])
append("other name", [1], [2], "y")
PYTHON
seen=$(venv/bin/python probe.py 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="same: [2] silently
fractions: [3, -1] silently
longer: [7] silently
byte: [44] silently
unsigned: [4294967295] silently
truth: [True] silently
short fraction: [inf] with a warning
text: ValueError
other name: ValueError"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

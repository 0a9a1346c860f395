#!/usr/bin/env bash
# rocksdict 0.3.29 (PyPI), Python 3.11.
#
# Guess: a store whose keys may be of Python's own types, and which has ranges over them, orders
# them as Python does: it has taken care that -5 comes before 3 and 255 before 256.
# Seen: integers, also negative and large ones, are in order. Floats are not: the negative ones come
# behind all others, and backwards among themselves. keys(from_key=-2.5) begins there and goes away
# from zero, without all that is larger. keys(from_key=3.0) ends with all the negative ones. No
# error. Only delete_range from a negative to a positive float is refused, as its end lies before
# its start; and after that the same words come from the next write and from close().
# So time series, coordinates and scores with a sign have wrong ranges and wrong neighbours. Such
# keys are stored as integers (a fixed number of decimals), or as bytes made for it: the bits of the
# float turned over where it is negative, only the sign bit where it is not.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install rocksdict==0.3.29
seen=$("$dir/venv/bin/python" - "$dir" <<'PYTHON'
import sys

from rocksdict import Rdict


def tell(name, keys):
    print(f"{name}: {' '.join(str(key) for key in keys)}")


for kind in [int, float]:
    store = Rdict(f"{sys.argv[1]}/{kind.__name__}")
    for key in [-300, -2, -1, 0, 1, 3, 255, 256]:
        store[kind(key)] = key
    tell(kind.__name__, store.keys())
    tell(f"{kind.__name__} from -2", store.keys(from_key=kind(-2)))
    tell(f"{kind.__name__} from 3", store.keys(from_key=kind(3)))
    try:
        store.delete_range(kind(-2), kind(3))
        tell(f"{kind.__name__} without -2 to 3", store.keys())
    except Exception as error:
        print(f"{kind.__name__}, delete_range: {error}")
    try:
        store[kind(7)] = 7
        store.close()
        print(f"{kind.__name__}, write and close: done")
    except Exception as error:
        print(f"{kind.__name__}, write and close: {error}")
PYTHON
)
printf '%s\n' "$seen"
expected="int: -300 -2 -1 0 1 3 255 256
int from -2: -2 -1 0 1 3 255 256
int from 3: 3 255 256
int without -2 to 3: -300 3 255 256
int, write and close: done
float: 0.0 1.0 3.0 255.0 256.0 -1.0 -2.0 -300.0
float from -2: -2.0 -300.0
float from 3: 3.0 255.0 256.0 -1.0 -2.0 -300.0
float, delete_range: Invalid argument: end key comes before start key
float, write and close: Invalid argument: end key comes before start key"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

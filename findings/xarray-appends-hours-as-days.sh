#!/usr/bin/env bash
# xarray 2026.9.0 with zarr 3.1.6, pandas 3.1.1 and numpy 2.4.6 (PyPI), Python 3.11, a Zarr store in
# a local folder.
#
# Guess: to_zarr(append_dim="time") adds times as they are. Where the store's unit is too coarse
# for them (it chose whole days for the first two) it raises, rounds, or makes the unit finer.
# Seen: a warning says that the times are stored in hours, not in days, since the first one. The
# numbers are stored in hours and the store still says days: noon of 3 January comes back as 1
# March. Half past one after two full hours comes back days later, 36 hours as 36 days. The
# warning says how to make it silent, not that the store is spoilt; nothing raises, and a reader
# sees times in order.
# Other values get the type of the first ones: 3.7 becomes 4, with a warning about NaN only, and of
# 300 an int8 of 44 without a word.
# So the first piece is written with a unit and a type for all that will follow, as in
# encoding={"time": {"units": "seconds since 1970-01-01", "dtype": "int64"}}, and that warning
# is made an error.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install xarray==2026.9.0 zarr==3.1.6 \
    pandas==3.1.1 numpy==2.4.6
cat > "$dir/try.py" <<'PYTHON'
import sys
import warnings

import numpy as np
import pandas as pd
import xarray as xr

days, third = ["2020-01-01", "2020-01-02"], ["2020-01-03"]
noon = ["2020-01-03T12:00"]
fine = {"time": {"units": "seconds since 1970-01-01", "dtype": "int64"}}


def series(times, values):
    return xr.Dataset({"v": ("time", values)}, coords={"time": pd.to_datetime(times)})


def append(name, first, second, **how):
    store = f"{sys.argv[1]}/{name}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first.to_zarr(store, zarr_format=2, **how)
        second.to_zarr(store, zarr_format=2, append_dim="time")
    units = sum("can't be serialized faithfully" in str(w.message) for w in caught)
    back = xr.open_zarr(store).isel(time=-1)
    print(f"{name}: {str(back.time.values)[:16]}, {back.v.values}, "
          f"{units} of {len(caught)} warnings")


append("days", series(days, [1, 2]), series(third, [3]))
append("noon", series(days, [1, 2]), series(noon, [3]))
append("hours", series(["2020-01-01T00:00", "2020-01-01T01:00"], [1, 2]),
       series(["2020-01-01T01:30"], [3]))
append("seconds", series(days, [1, 2]), series(noon, [3]), encoding=fine)
append("durations", series(days, pd.to_timedelta([1, 2], "D")),
       series(third, pd.to_timedelta([36], "h")))
append("fractions", series(days, [1, 2]), series(third, [3.7]))
append("bytes", series(days, np.array([1, 2], "int8")), series(third, [300]))
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir")
printf '%s\n' "$seen"
expected="days: 2020-01-03T00:00, 3, 0 of 0 warnings
noon: 2020-03-01T00:00, 3, 1 of 1 warnings
hours: 2020-01-04T18:00, 3, 1 of 1 warnings
seconds: 2020-01-03T12:00, 3, 0 of 0 warnings
durations: 2020-01-03T00:00, 3110400000000 microseconds, 1 of 1 warnings
fractions: 2020-01-03T00:00, 4, 0 of 1 warnings
bytes: 2020-01-03T00:00, 44, 0 of 0 warnings"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

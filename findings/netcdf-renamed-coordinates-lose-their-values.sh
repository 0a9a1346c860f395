#!/usr/bin/env bash
# netCDF4 1.7.5.1.post1 with the netCDF 4.10.1 and HDF5 2.2.0 within it, numpy 2.4.6 (PyPI), Python
# 3.11.
#
# Guess: a coordinate "lon" becomes "x" by one renameDimension and one renameVariable, in a file of
# format NETCDF4 as in one of the old NETCDF3; names are all that changes.
# Seen: once both have the new name, in either order, with the file closed between them or not, the
# coordinate comes back without its values: all are masked, and a program that does not look at the
# mask reads the fill value of 9.97e36; they are nowhere in the file any more. No call raises. In
# the program that renames, the values can still be read until it closes the file. Another variable
# along that dimension keeps its values, and each of the two renames alone does no harm; in NETCDF3
# all is well.
# So a coordinate of a NETCDF4 file is renamed by writing it again under its new name (or with
# NETCDF3), and whoever renames reads the file again before the old one goes.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install netCDF4==1.7.5.1.post1 numpy==2.4.6
cat > "$dir/try.py" <<'PYTHON'
import sys

import netCDF4
import numpy as np


def rename(dataset, what):
    (dataset.renameDimension if what == "dimension" else dataset.renameVariable)("lon", "x")


def show(dataset):
    return ", ".join(f"{name} {np.ma.filled(variable[:], -1).astype(int).tolist()}"
                     for name, variable in sorted(dataset.variables.items()))


print("netCDF", netCDF4.__netcdf4libversion__.split()[0], "HDF5", netCDF4.__hdf5libversion__)
formats = {"NETCDF4": "NETCDF4", "NETCDF3": "NETCDF3_CLASSIC"}
for form in formats:
    for parts in (["dimension"], ["variable"], ["dimension", "variable"],
                  ["variable", "dimension"], ["dimension", "close", "variable"]):
        path = f"{sys.argv[1]}/{form} {' '.join(parts)}.nc"
        with netCDF4.Dataset(path, "w", format=formats[form]) as dataset:
            dataset.createDimension("lon", 3)
            for name in "lon", "t":
                dataset.createVariable(name, "f8", ("lon",))[:] = [1, 2, 3]
        dataset = netCDF4.Dataset(path, "a")
        for part in parts:
            if part == "close":
                dataset.close()
                dataset = netCDF4.Dataset(path, "a")
            else:
                rename(dataset, part)
        before = show(dataset)
        dataset.close()
        with netCDF4.Dataset(path) as dataset:
            print(f"{form}, {', '.join(parts)}: {before}; closed: {show(dataset)}")
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir")
printf '%s\n' "$seen"
all="lon [1, 2, 3], t [1, 2, 3]"
all_x="t [1, 2, 3], x [1, 2, 3]"
expected="netCDF 4.10.1 HDF5 2.2.0
NETCDF4, dimension: $all; closed: $all
NETCDF4, variable: $all_x; closed: $all_x
NETCDF4, dimension, variable: $all_x; closed: t [1, 2, 3], x [-1, -1, -1]
NETCDF4, variable, dimension: $all_x; closed: t [1, 2, 3], x [-1, -1, -1]
NETCDF4, dimension, close, variable: $all_x; closed: t [1, 2, 3], x [-1, -1, -1]
NETCDF3, dimension: $all; closed: $all
NETCDF3, variable: $all_x; closed: $all_x
NETCDF3, dimension, variable: $all_x; closed: $all_x
NETCDF3, variable, dimension: $all_x; closed: $all_x
NETCDF3, dimension, close, variable: $all_x; closed: $all_x"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

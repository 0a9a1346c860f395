#!/usr/bin/env bash
# h5diff 1.10.8 of hdf5-tools (package of Debian 12), files made by h5py 3.16.0 with numpy 2.4.6
# (PyPI), Linux.
#
# Guess: h5diff ends with 0 when two files hold the same and with 1 when they do not, as its help
# says and as diff(1) and cmp(1) do. A dataset that has another length, shape or type is different.
# Seen: it is "not comparable", a note on the standard output, and the status is 0: for ten numbers
# beside twenty, for integers beside fractions or texts, for signed beside unsigned ones with other
# values, for a dataset that is empty now, and for a group in its place. With -q there is no note
# either. A dataset or an attribute that only one of the files has, or another value, makes it 1.
# So "h5diff old new && rm old", and a test that compares with a reference, pass when a dataset was
# emptied or cut. The output has to be searched for "not comparable" (h5diff -c), too.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download hdf5-tools=1.10.8+repack1-1 libhdf5-103-1=1.10.8+repack1-1 \
    libhdf5-hl-100=1.10.8+repack1-1 libaec0=1.0.6-1+b1 libsz2=1.0.6-1+b1
for package in *.deb; do dpkg -x "$package" packages; done
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install h5py==3.16.0 numpy==2.4.6
cat > make.py <<'PYTHON'
import h5py
import numpy

ten = numpy.arange(10)
for name, data in {
    "old": ten,
    "same": ten,
    "value": ten + 1,
    "longer": numpy.arange(20),
    "shape": ten.reshape(2, 5),
    "fractions": ten * 1.5,
    "texts": ["text"] * 10,
    "unsigned": (ten + 7).astype("u8"),
    "emptied": ten[:0],
    "group": None,
    "attribute": ten,
    "second": ten,
}.items():
    with h5py.File(name, "w") as file:
        if data is None:
            file.create_group("data")
            continue
        file.create_dataset("data", data=data)
        if name == "attribute":
            file["data"].attrs["unit"] = "m"
        if name == "second":
            file.create_dataset("more", data=ten)
PYTHON
venv/bin/python make.py
for file in same value attribute second longer shape fractions texts unsigned emptied group; do
    status=0
    LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu \
        packages/usr/bin/h5diff old "$file" > told 2>&1 || status=$?
    quiet=0
    LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu \
        packages/usr/bin/h5diff -q old "$file" > silent 2>&1 || quiet=$?
    echo "$file: status $status, noted: $(grep -c 'not comparable$' told || true);" \
        "with -q status $quiet, $(wc -c < silent) bytes of output"
done > seen
seen=$(cat seen)
printf '%s\n' "$seen"
expected="same: status 0, noted: 0; with -q status 0, 0 bytes of output
value: status 1, noted: 0; with -q status 1, 0 bytes of output
attribute: status 1, noted: 0; with -q status 1, 0 bytes of output
second: status 1, noted: 0; with -q status 1, 0 bytes of output
longer: status 0, noted: 1; with -q status 0, 0 bytes of output
shape: status 0, noted: 1; with -q status 0, 0 bytes of output
fractions: status 0, noted: 1; with -q status 0, 0 bytes of output
texts: status 0, noted: 1; with -q status 0, 0 bytes of output
unsigned: status 0, noted: 1; with -q status 0, 0 bytes of output
emptied: status 0, noted: 1; with -q status 0, 0 bytes of output
group: status 0, noted: 1; with -q status 0, 0 bytes of output"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

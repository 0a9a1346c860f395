#!/usr/bin/env bash
# bsdtar 3.6.2 of libarchive, GNU tar 1.34 (packages of Debian 12), tarfile of Python 3.11, Linux.
#
# Guess: a time with nanoseconds goes from one program to another in a pax archive as it is, before
# 1970 too: the record is a decimal number, and both are used as references for the format.
# Seen: a quarter past the last but one second of 1969 is -1.75 for GNU tar and Python, and -2.25
# for bsdtar, which writes the whole seconds, rounded down, and puts the fraction behind without a
# look at the sign. Each reads its own back. What the other wrote is up to two seconds late for
# bsdtar and up to two early for GNU tar and Python, with status 0 and no message. From 1970 on,
# and without a fraction, they agree.
# So a tree that goes to and fro between the two (a backup by one, restored by the other) has old
# files that have changed for rsync and for all that compare times. Seconds that are rounded down
# with nanoseconds that count upwards, as in timespec, are not to be printed as "%d.%09d".
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu TZ=UTC
PATH=$dir/packages/usr/bin:$PATH
touch -d "1969-12-31 23:59:58.25" old
touch -d "1970-01-01 00:00:01.25" young
tar --format=posix -cf tar.tar old young
bsdtar --format=pax -cf bsdtar.tar old young
cat > records.py <<'PYTHON'
import sys
import tarfile

with tarfile.open(sys.argv[1]) as archive:
    print(*(f"{member.name} {member.pax_headers['mtime']}" for member in archive), sep=", ")
PYTHON
took() { # READER ARCHIVE COMMAND...: the times that it gives to the files
    rm -rf out
    mkdir out
    "${@:3}" > messages 2>&1
    echo "    taken out by $1: old $(stat -c %y out/old | cut -c 1-22)," \
        "young $(stat -c %y out/young | cut -c 1-22)"
}
seen=$(
    for writer in tar bsdtar; do
        echo "$writer writes: $(python3 records.py $writer.tar)"
        took tar $writer tar -xf $writer.tar -C out
        took bsdtar $writer bsdtar -xf $writer.tar -C out
        took tarfile $writer python3 -m tarfile -e $writer.tar out
    done
)
printf '%s\n' "$seen"
expected="tar writes: old -1.75, young 1.25
    taken out by tar: old 1969-12-31 23:59:58.25, young 1970-01-01 00:00:01.25
    taken out by bsdtar: old 1969-12-31 23:59:59.75, young 1970-01-01 00:00:01.25
    taken out by tarfile: old 1969-12-31 23:59:58.25, young 1970-01-01 00:00:01.25
bsdtar writes: old -2.25, young 1.25
    taken out by tar: old 1969-12-31 23:59:57.75, young 1970-01-01 00:00:01.25
    taken out by bsdtar: old 1969-12-31 23:59:58.25, young 1970-01-01 00:00:01.25
    taken out by tarfile: old 1969-12-31 23:59:57.75, young 1970-01-01 00:00:01.25"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

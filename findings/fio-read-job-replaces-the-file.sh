#!/usr/bin/env bash
# fio 3.33 (package of Debian 12), Linux.
#
# Guess: a job that only reads (rw=read, rw=randread) changes nothing. Where its size is larger than
# the file that it is given, it reads what is there, or fails.
# Seen: the file is removed, and before the first read a new one of the job's size, full of made-up
# bytes, is put under its name; the status is 0. A second name (hard link) keeps the old file, so
# the two part. Up to the size of the file nothing is touched. --readonly refuses such a job, but
# only when it is given; rw=read does not imply it.
# So a measurement of reads on a live image or database, with a size from memory, is the end of it.
# Whoever measures on data that matters passes --readonly or leaves size out; and a filesystem's
# author who finds a warm cache cold after fio looks whether it is still the same inode.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
: > none # no package is there yet for apt, so all that fio needs is named
apt-get -o Dir::State::status="$dir/none" --no-install-recommends -s install fio=3.33-3 |
    awk '$1 == "Inst" && $2 != "libc6" {print $2 "=" substr($3, 2)}' | xargs apt-get -qq download
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
try() { # NAME OPTION...: a file of 1 MiB with two names, and what a job leaves of it
    local name=$1 status=0
    shift
    rm -f data second
    head -c 1M /dev/zero | tr '\0' x > data
    ln data second
    packages/usr/bin/fio --name=job --filename=data --bs=4k --ioengine=sync --output=messages \
        "$@" > messages2 2>&1 || status=$?
    echo "$name: status $status, $(stat -c %s data) bytes," \
        "$([ data -ef second ] && echo "the old file" || echo "another file")," \
        "$(tr -d x < data | cmp -s - /dev/null && echo "old bytes" || echo "other bytes")"
}
seen=$(
    try "read 1 MiB" --rw=read --size=1M
    try "read, no size" --rw=read
    try "read 4 MiB" --rw=read --size=4M
    try "randread 4 MiB" --rw=randread --size=4M
    try "read 4 MiB, --readonly" --rw=read --size=4M --readonly
)
printf '%s\n' "$seen"
expected="read 1 MiB: status 0, 1048576 bytes, the old file, old bytes
read, no size: status 0, 1048576 bytes, the old file, old bytes
read 4 MiB: status 0, 4194304 bytes, another file, other bytes
randread 4 MiB: status 0, 4194304 bytes, another file, other bytes
read 4 MiB, --readonly: status 1, 1048576 bytes, the old file, old bytes"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

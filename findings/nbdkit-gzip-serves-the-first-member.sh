#!/usr/bin/env bash
# nbdkit 1.32.5 with its gzip and xz filters, nbdcopy of libnbd 1.14.2 (packages of Debian 12), gzip
# and xz of Debian 12, bgzip 1.16 of htslib (package tabix of Debian 12), Linux.
#
# Guess: the gzip filter serves what gzip -d gives, as the xz filter serves what xz -d gives. Where
# a file has several members one behind the other, as the format allows, it serves all of them, or
# refuses the file.
# Seen: the disk ends where the first member ends. Nothing is said and the status is 0. An image
# that was compressed in two parts and joined has the first part only; of one that bgzip made, whose
# members are never longer than 64 KiB, less than that is left. The xz filter serves both streams.
# So what is served is compared in size with "gzip -dc FILE | wc -c" first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download nbdkit=1.32.5-1 libnbd-bin=1.14.2-1 libnbd0=1.14.2-1 tabix=1.16+ds-3 \
    libhts3=1.16+ds-3 libhtscodecs2=1.3.0-4 libdeflate0=1.14-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/usr/bin:$PATH
parts=$dir/packages/usr/lib/x86_64-linux-gnu/nbdkit
head -c 3M /dev/urandom > first
head -c 2M /dev/urandom > second
cat first second > image
gzip -c image > one.gz
{ gzip -c first; gzip -c second; } > two.gz
bgzip -c image > bgzip.gz
{ xz -c first; xz -c second; } > two.xz
told() { # FILE
    local status=0 what=others kind=gzip
    [ "${1##*.}" = gz ] || kind=xz
    "$kind" -dc "$1" | cmp -s - image || what="not even right with $kind"
    rm -f out
    nbdkit -U - --filter="$parts/filters/nbdkit-$kind-filter.so" \
        "$parts/plugins/nbdkit-file-plugin.so" "$1" --run "nbdcopy \"\$uri\" out" || status=$?
    ! cmp -s -n "$(stat -c %s out)" out image || what="the first $(stat -c %s out) bytes"
    ! cmp -s out image || what="all"
    echo "$1: status $status, $what"
}
seen=$(told one.gz; told two.gz; told bgzip.gz; told two.xz)
printf '%s\n' "$seen"
expected="one.gz: status 0, all
two.gz: status 0, the first 3145728 bytes
bgzip.gz: status 0, the first 65280 bytes
two.xz: status 0, all"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# nbdkit 1.32.5 with its tar filter, nbdcopy of libnbd 1.14.2, GNU tar 1.34 (packages of Debian 12),
# Linux.
#
# Guess: the tar filter serves the disk image that the archive has under a name: the bytes that tar
# itself takes out of it, or an error where the image is stored in a form that it cannot serve.
# Seen: where tar -S stored the image without its holes, the disk has the right size, and its bytes
# are those that lie in the archive from there on: the data without the holes, then the next files
# with their headers. Nothing is said. What is written to the end of the disk goes into the files
# behind it: they come out damaged, by tar, without an error. An image that is there twice, as a
# newer one was appended (tar -r), is served in the first version, where tar takes the last.
# So archives for this filter are made without -S and with each name once, and what is served is
# compared first: tar -xO | cmp.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download nbdkit=1.32.5-1 libnbd-bin=1.14.2-1 libnbd0=1.14.2-1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/usr/bin:$PATH
parts=$dir/packages/usr/lib/x86_64-linux-gnu/nbdkit
truncate -s 4M disk
echo start | dd of=disk bs=1M seek=1 conv=notrunc status=none
echo end | dd of=disk bs=1M seek=3 conv=notrunc status=none
head -c 8M /dev/zero | tr '\0' O > other
tar -cf plain.tar disk other
tar -S -cf sparse.tar disk other
cp plain.tar twice.tar
cp disk first
echo newer | dd of=disk bs=1M seek=2 conv=notrunc status=none
tar -rf twice.tar disk
served() { # ARCHIVE COMMAND: serves the disk in the archive to a command
    nbdkit -U - --filter="$parts/filters/nbdkit-tar-filter.so" \
        "$parts/plugins/nbdkit-file-plugin.so" "$1" tar-entry=disk --run "$2"
}
told() { # ARCHIVE: compares what is served with what tar takes out
    local status=0 same=different
    tar -xOf "$1" disk > all
    tail -c 4M all > right # of two versions tar prints both, the last one stays
    rm -f out
    served "$1" "nbdcopy \"\$uri\" out" || status=$?
    cmp -s right out && same=same
    ! cmp -s first out || [ "$1" != twice.tar ] || same="the first version"
    echo "$1: status $status, $(stat -c %s out) bytes, $same," \
        "bytes of the other file $(tr -dc O < out | wc -c)"
    { head -c 3M out; head -c 1M /dev/zero | tr '\0' W; } > new
    served "$1" "nbdcopy new \"\$uri\"" || status=$?
    tar -xOf "$1" other > after || status=$?
    echo "    its end is written: status $status, the other file has $(tr -dc W < after | wc -c)" \
        "bytes of that"
}
seen=$(told plain.tar; told sparse.tar; told twice.tar)
printf '%s\n' "$seen"
expected="plain.tar: status 0, 4194304 bytes, same, bytes of the other file 0
    its end is written: status 0, the other file has 0 bytes of that
sparse.tar: status 0, 4194304 bytes, different, bytes of the other file 4185600
    its end is written: status 0, the other file has 1048576 bytes of that
twice.tar: status 0, 4194304 bytes, the first version, bytes of the other file 0
    its end is written: status 0, the other file has 0 bytes of that"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

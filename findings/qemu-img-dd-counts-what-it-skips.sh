#!/usr/bin/env bash
# qemu-img 7.2 (package qemu-utils of Debian 12), GNU dd of coreutils 9.1, Linux.
#
# Guess: qemu-img dd takes bs, skip and count as dd does: skip so many blocks of the input, then
# copy so many.
# Seen: count is from the start of the input, so what is skipped is taken off it: skip=2 count=3
# copies one block, skip=1 count=8 seven, with status 0 and without a word. Where skip is not less
# than count it says that it cannot skip so far, though the input is long enough, and makes an
# empty image, with status 0 as well. Alone, skip and count do what those of dd do.
# So a part of an image that was saved in this way (a partition, a header before a change) lacks
# its end, and a copy in pieces has gaps. To copy COUNT blocks from SKIP on, give count=SKIP+COUNT,
# and compare the size of what comes out; or use dd on what qemu-nbd shows.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download qemu-utils=1:7.2+dfsg-7+deb12u18+b3 liburing2=2.3-3
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
head -c 1M /dev/urandom > disk
try() { # OPERAND...: copies a part of the disk with both
    local status=0 said
    rm -f theirs ours
    dd if=disk of=ours bs=64k "$@" status=none
    packages/usr/bin/qemu-img dd -f raw -O raw if=disk of=theirs bs=64k "$@" 2> messages ||
        status=$?
    said=$(sed 's/.*: //' messages)
    [ ! -s theirs ] || cmp -s theirs <(head -c "$(stat -c %s theirs)" ours) || said="other bytes"
    echo "$*: dd $(($(stat -c %s ours) / 65536)) blocks," \
        "qemu-img $(($(stat -c %s theirs) / 65536)), status $status${said:+, $said}"
}
seen=$(
    try count=3
    try skip=2
    try skip=2 count=3
    try skip=1 count=8
    try skip=4 count=3
)
printf '%s\n' "$seen"
expected="count=3: dd 3 blocks, qemu-img 3, status 0
skip=2: dd 14 blocks, qemu-img 14, status 0
skip=2 count=3: dd 3 blocks, qemu-img 1, status 0
skip=1 count=8: dd 8 blocks, qemu-img 7, status 0
skip=4 count=3: dd 3 blocks, qemu-img 0, status 0, cannot skip to specified offset"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

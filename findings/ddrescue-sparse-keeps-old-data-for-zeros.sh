#!/usr/bin/env bash
# GNU ddrescue 1.27 (package gddrescue of Debian 12), Linux.
#
# Guess: --sparse is a matter of room only: where the source has zeros the output has holes or
# zeros, also in an output file that was there before.
# Seen: blocks of zeros are skipped and nothing is done to what the output has there. Into an old
# image (the disk of last week, a reused file, one that was filled for a test) the zeros of the new
# disk are not copied: what lay there stays. The map file says that everything is rescued, the exit
# status is 0. Without --sparse the copy is right, and with --truncate too.
# So --sparse goes with a new output file or with --truncate on the first run, and never with a
# device; a comparison (cmp) is needed, the map proves nothing here.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download gddrescue=1.27-1
dpkg -x gddrescue_*.deb package
truncate -s 8M disk
printf 'new data' | dd of=disk bs=1 seek=3000000 conv=notrunc status=none
try() { # OPTION...: rescues the disk into an older image of the same size
    head -c 8M /dev/zero | tr '\0' O > image
    rm -f map
    package/usr/bin/ddrescue -q "$@" disk image map
    cmp -s disk image && same=same || same="$(tr -dc O < image | wc -c) bytes of old data"
    # Each range of the map has a start, a length and + for what is rescued.
    rescued=$(grep -v '^#' map | awk 'NF == 3 && $3 == "+" && $2 ~ /^0x/ {print $2}' | tail -1)
    echo "${*:-plain}: rescued $((rescued)), $same"
}
seen=$(try; try --sparse; try --sparse --truncate)
printf '%s\n' "$seen"
expected="plain: rescued 8388608, same
--sparse: rescued 8388608, 8323072 bytes of old data
--sparse --truncate: rescued 8388608, same"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# rdiff of librsync 2.3.2, bsdiff and bspatch 4.3, xdelta3 3.0.11, zstd 1.5.4 (packages of Debian
# 12), bsdiff4 1.3.2 (PyPI), Linux.
#
# Guess: a binary patch knows the version that it was made for, or at least the one that comes out,
# as both are at hand when it is made; applied to another version it is refused.
# Seen: rdiff patch, bspatch and bsdiff4 look at nothing. To a file of the same size that they were
# not made for they give one of the right length and wrong contents, with status 0 and no message:
# the one piece that the patch brings with it is right, all around it is the wrong base. For bspatch
# and bsdiff4 it is a mixture by addition that neither version had. xdelta3 -d and zstd
# --patch-from refuse, as they keep a checksum of the result.
# So a base that has changed between rdiff signature and rdiff patch (a live file, a second update
# over the first) damages the target in silence. The hash of base and result goes beside such a
# patch; whoever designs a format of deltas puts the two in its header.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 777 .
apt-get -qq download rdiff=2.3.2-1+b1 librsync2=2.3.2-1+b1 libb2-1=0.98.1-1.1 bsdiff=4.3-23 \
    xdelta3=3.0.11-dfsg-1.2 zstd=1.5.4+dfsg2-5+deb12u1 > /dev/null
for package in *.deb; do dpkg -x "$package" packages; done
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install bsdiff4==1.3.2
PATH=$dir/packages/usr/bin:$dir/venv/bin:$PATH
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
seq 100000 139999 > base
seq 200000 239999 > other
{ head -c 140000 base; echo "what is new"; tail -c 140000 base; } > target
rdiff signature base signature
rdiff delta signature target rdiff.patch
bsdiff base target bsdiff.patch
python -c 'import bsdiff4; bsdiff4.file_diff("base", "target", "bsdiff4.patch")'
xdelta3 -e -s base target xdelta3.patch
zstd -q --patch-from=base target -o zstd.patch
try() { # NAME BASE COMMAND...
    local name=$1 base=$2 status=0
    shift 2
    rm -f out
    "$@" > messages 2>&1 || status=$?
    echo "$name to $base: $([ "$status" = 0 ] && echo done || echo refused)$(
        [ "$status" != 0 ] || { cmp -s out target && echo ", right" \
            || echo ", wrong, $(stat -c %s out) bytes of $(stat -c %s target)"; })"
}
for base in base other; do
    try rdiff "$base" rdiff patch "$base" rdiff.patch out
    try bspatch "$base" bspatch "$base" out bsdiff.patch
    try bsdiff4 "$base" python -c \
        "import bsdiff4; bsdiff4.file_patch('$base', 'out', 'bsdiff4.patch')"
    try xdelta3 "$base" xdelta3 -d -s "$base" xdelta3.patch out
    try zstd "$base" zstd -q -d --patch-from="$base" zstd.patch -o out
done > results
cat results
diff - results <<'EXPECTED' || { echo "this is no longer what is described above" >&2; exit 1; }
rdiff to base: done, right
bspatch to base: done, right
bsdiff4 to base: done, right
xdelta3 to base: done, right
zstd to base: done, right
rdiff to other: done, wrong, 280012 bytes of 280012
bspatch to other: done, wrong, 280012 bytes of 280012
bsdiff4 to other: done, wrong, 280012 bytes of 280012
xdelta3 to other: refused
zstd to other: refused
EXPECTED

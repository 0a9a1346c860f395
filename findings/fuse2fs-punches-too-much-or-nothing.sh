#!/usr/bin/env bash
# fuse2fs 1.47.0 of e2fsprogs, libfuse 2.9.9 (packages of Debian 12), Linux 6.18, run as root.
#
# Guess: fallocate --punch-hole on a mount by fuse2fs makes zeros of just the bytes that it is
# given, and frees the whole blocks among them, as the kernel's ext4 does; or it is refused.
# Seen: so it is for a range of several blocks, and for one that starts within a block. A range that
# starts at a block's first byte and ends within the same block is wrong, and the call succeeds. In
# the first block of the file the whole block goes: a hole of 100 bytes at 0 wipes the bytes 100 to
# 4095 as well. In any other block nothing is done at all, and the old bytes can be read on. So it
# is with extents and with files that are mapped by blocks.
# So a disk image, a database or a log whose records are punched out in pieces below the block size
# loses the records beside them, or keeps what was to be gone. On such a mount the caller punches
# whole blocks only and writes zeros over the rest.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'cd /; umount "$dir/mount" 2>/dev/null || true
      [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download fuse2fs=1.47.0-2+b2 e2fsprogs=1.47.0-2+b2 libext2fs2=1.47.0-2+b2 \
    libcom-err2=1.47.0-2+b2 libfuse2=2.9.9-6+b1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/lib/x86_64-linux-gnu:$dir/packages/usr/lib/x86_64-linux-gnu
PATH=$dir/packages/sbin:$dir/packages/usr/bin:$PATH
mkdir mount
# A file of five blocks, all of it the letter A, and what a punched range leaves after a new mount.
ranges="0:100 0:4000 0:4096 0:5000 4096:100 4096:4000 4096:4096 4096:5000 5000:100 5000:3192"
serve() {
    fuse2fs "$1" mount -f -o fakeroot > messages 2>&1 &
    server=$!
    for _ in $(seq 400); do mountpoint -q mount && return; sleep 0.05; done
    return 1
}
unmount() {
    umount mount
    # The last blocks are written after umount has returned.
    wait "$server"
    server=
}
told() { # WHAT OPTION...: a new filesystem made with these options
    local what=$1 range offset length
    shift
    rm -f "$what"
    truncate -s 64M "$what"
    mke2fs -q -t ext4 -b 4096 "$@" "$what"
    serve "$what"
    for range in $ranges; do
        head -c 20480 /dev/zero | tr '\0' A > "mount/$range"
        fallocate --punch-hole --offset "${range%:*}" --length "${range#*:}" "mount/$range"
    done
    unmount "$what"
    e2fsck -fn "$what" > messages 2>&1
    serve "$what"
    for range in $ranges; do
        offset=${range%:*} length=${range#*:}
        echo "$what, $length bytes at $offset:" \
            "zeros within $(tail -c +$((offset + 1)) "mount/$range" | head -c "$length" |
                tr -d A | wc -c)," \
            "lost beside $(($({
                head -c "$offset" "mount/$range"
                tail -c +$((offset + length + 1)) "mount/$range"
            } | tr -d A | wc -c)))"
    done
    unmount "$what"
}
seen=$(
    told extents
    told blocks -O '^extent,^64bit'
)
printf '%s\n' "$seen"
expected="$(for what in extents blocks; do
    echo "$what, 100 bytes at 0: zeros within 100, lost beside 3996
$what, 4000 bytes at 0: zeros within 4000, lost beside 96
$what, 4096 bytes at 0: zeros within 4096, lost beside 0
$what, 5000 bytes at 0: zeros within 5000, lost beside 0
$what, 100 bytes at 4096: zeros within 0, lost beside 0
$what, 4000 bytes at 4096: zeros within 0, lost beside 0
$what, 4096 bytes at 4096: zeros within 4096, lost beside 0
$what, 5000 bytes at 4096: zeros within 5000, lost beside 0
$what, 100 bytes at 5000: zeros within 100, lost beside 0
$what, 3192 bytes at 5000: zeros within 3192, lost beside 0"
done)"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# GNU tar 1.34 (Debian 12), Linux 6.18; fsspec 2026.9.0 with fusepy 3.0.1 (PyPI) and libfuse 2.9.9
# (Debian 12) as a FUSE server that leaves st_blocks at 0, run as root.
#
# Guess: tar --sparse looks for holes with SEEK_HOLE or reads the file; st_blocks is at most a hint
# that there may be some. A file's data are in the archive in any case.
# Seen: a file whose size is not 0 and whose st_blocks is 0 is stored as one hole. tar does not read
# it and says nothing; extracted, it has its length and is all zeros. Without --sparse the archive
# is right, and cp is right with each of --sparse=auto and always.
# So a server that does not count blocks (0 is what a library's cleared structure holds, and what
# many examples send) loses all data in every backup by tar -S; it has to answer (size + 511) / 512
# at least.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
server=
trap 'umount "$dir/mount" 2>/dev/null || true; [ -z "$server" ] || kill "$server" 2>/dev/null || true
      wait; rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download libfuse2=2.9.9-6+b1
dpkg -x libfuse2_*.deb package
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install fsspec==2026.9.0 fusepy==3.0.1
mkdir mount
cat > serve.py <<'PYTHON'
import fsspec
import fsspec.fuse

memory = fsspec.filesystem("memory")
memory.pipe_file("/shown/file", b"0123456789" * 1000)
fsspec.fuse.run(memory, "/shown", "mount", foreground=True, threads=False)
PYTHON
FUSE_LIBRARY_PATH=$(ls "$dir"/package/lib/x86_64-linux-gnu/libfuse.so.2) venv/bin/python serve.py &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
stat -c '%n: %s bytes, %b blocks' mount/file
[ "$(stat -c %b mount/file)" = 0 ]
check() { # NAME OPTION...: packs with the options, unpacks, counts the bytes that are not 0
    mkdir "$1"
    # This server gives the present as the time of change, of which tar warns when it has read.
    tar -C mount -cf "$1.tar" "${@:2}" file || [ $? = 1 ]
    tar -C "$1" -xf "$1.tar"
    echo "$1: $(stat -c %s "$1/file") bytes, $(tr -d '\0' < "$1/file" | wc -c) of them not 0"
}
for way in auto always; do
    cp --sparse=$way mount/file "copy-$way"
    cmp mount/file "copy-$way"
done
seen=$(check plain; check sparse --sparse)
printf '%s\n' "$seen"
expected="plain: 10000 bytes, 10000 of them not 0
sparse: 10000 bytes, 0 of them not 0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# fsspec 2026.9.0 with fusepy 3.0.1 (PyPI), libfuse 2.9.9 (Debian 12), Linux 6.18, run as root.
#
# Guess: a mount by fsspec.fuse either appends (fsspec has mode "ab") or refuses to open an existing
# file for that.
# Seen: every open for writing only becomes mode "wb", which empties the file, whatever was asked
# for. `echo line >> file` over the local filesystem leaves the right length and NUL bytes where the
# old contents were; three bytes written into the middle leave three bytes. Both succeed. An open
# for reading and writing becomes "rb" and its write fails, so what is safest elsewhere is the only
# thing refused.
# So logs, mail boxes and databases lose their contents by the first append; such a mount is to be
# made read-only (a read-only bind mount over it).
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
mkdir mount source
cat > serve.py <<'PYTHON'
import os

import fsspec
import fsspec.fuse

local = fsspec.filesystem("file")
fsspec.fuse.run(local, os.path.abspath("source"), "mount", foreground=True, threads=False)
PYTHON
FUSE_LIBRARY_PATH=$(ls "$dir"/package/lib/x86_64-linux-gnu/libfuse.so.2) venv/bin/python serve.py 2> log &
server=$!
for _ in $(seq 400); do mountpoint -q mount && break; sleep 0.05; done
mountpoint -q mount
show() { echo "$1: $(stat -c %s "source/$1") bytes, text: $(tr -d '\0' < "source/$1")"; }
for name in log image both; do printf 'the old contents\n' > "source/$name"; done
echo 'one more line' >> mount/log
python3 -c 'import os; os.pwrite(os.open("mount/image", os.O_WRONLY), b"new", 3)'
if (printf 'new' 1<> mount/both) 2> /dev/null; then refused=no; else refused=yes; fi
# RELEASE comes after close has returned.
sleep 1
seen=$(show log; show image; show both; echo "open for reading and writing refused: $refused")
printf '%s\n' "$seen"
expected="log: 31 bytes, text: one more line
image: 6 bytes, text: new
both: 17 bytes, text: the old contents
open for reading and writing refused: yes"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

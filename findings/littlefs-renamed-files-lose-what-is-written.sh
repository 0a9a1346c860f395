#!/usr/bin/env bash
# littlefs 2.11 in littlefs-python 0.19.0 (PyPI), Python 3.11.
#
# Guess: an open file that is renamed goes on under its new name, as with POSIX, or rename refuses
# while it is open. What was written before the rename is in the file after flush or close.
# Seen: rename succeeds and cuts the open file off, as remove would. All later writes, flush and
# close succeed and reach nothing; reading through the same file shows what was written. What was
# written before the rename and not flushed is gone too. So it is within a directory and from one to
# another. When the directory above is renamed, or another file beside it, the file goes on well.
# So a log is closed before it is rotated: "rename log to log.1, go on writing, open the new one
# later" loses lines without an error, and so does renaming a working file before its close.
# Beside it, in the Python part: truncate(size) ignores the size and cuts at the position, 0 after
# open, so a call that should make the file longer empties it.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv environment
environment/bin/pip install --quiet --disable-pip-version-check littlefs-python==0.19.0
cat > probe.py <<'PYTHON'
from littlefs import LittleFS

disk = LittleFS(block_size=512, block_count=256)


def write(name, data):
    with disk.open(name, "wb") as file:
        file.write(data)


def read(name):
    with disk.open(name, "rb") as file:
        return file.read().decode()


def around(before, name, step, after):
    """Writes on both sides of a step, unbuffered, and tells what the file has then."""
    write(name, b"....")
    file = disk.open(name, "r+b", buffering=0)
    file.write(b"1")
    file.flush()
    file.write(b"2")
    step()
    assert file.write(b"3") == 1
    file.flush()
    file.seek(0)
    shown = file.read(4).decode()
    file.close()
    print(f"{before}: shown {shown}, in the file {read(after)}")


disk.mkdir("logs")
disk.mkdir("old")
write("other", b"")
around("nothing", "log", lambda: None, "log")
around("renamed", "log", lambda: disk.rename("log", "log.1"), "log.1")
around("moved", "logs/log", lambda: disk.rename("logs/log", "old/log"), "old/log")
around("other renamed", "log", lambda: disk.rename("other", "another"), "log")
around("directory renamed", "logs/log", lambda: disk.rename("logs", "moved"), "moved/log")

write("ten", b"0123456789")
with disk.open("ten", "r+b") as file:
    file.truncate(20)
print(f"ten bytes, made twenty: {len(read('ten'))}")
PYTHON
seen=$(environment/bin/python probe.py)
printf '%s\n' "$seen"
expected="nothing: shown 123., in the file 123.
renamed: shown 123., in the file 1...
moved: shown 123., in the file 1...
other renamed: shown 123., in the file 123.
directory renamed: shown 123., in the file 123.
ten bytes, made twenty: 0"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

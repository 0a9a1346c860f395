#!/usr/bin/env bash
# Linux 6.18, inotify on ext4 (or whatever holds temporary files) and tmpfs, python3 of Debian 12.
#
# Guess: a file that is made with O_TMPFILE, given a name by linkat and closed raises IN_CREATE and
# IN_CLOSE_WRITE for that name in a watched directory, and nothing before it has one.
# Seen: every open, write and close through the first descriptor is reported for the name "#" and the
# inode number, which no listing ever shows: before linkat, and after it as well. The real name gets
# IN_CREATE and nothing else, while the data may still be written.
# So a program that waits for IN_CLOSE_WRITE (or IN_MOVED_TO) to take up finished files never takes
# up one that was published in this way, the way that is advised for atomic creation. It has to act
# on IN_CREATE too, and ignore names that are not there; a server that makes events itself decides
# which name it means.
set -eu
python3 - <<'PYTHON'
import ctypes
import os
import struct
import tempfile

LIBC = ctypes.CDLL("libc.so.6", use_errno=True)
NAMES = {0x2: "MODIFY", 0x8: "CLOSE_WRITE", 0x20: "OPEN", 0x80: "MOVED_TO", 0x100: "CREATE"}
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


def events(watch):
    """The events so far, as pairs of kind and name."""
    found = []
    try:
        data = os.read(watch, 1 << 16)
    except BlockingIOError:
        return found
    while data:
        _, mask, _, length = struct.unpack_from("iIII", data)
        name = data[16 : 16 + length].rstrip(b"\0").decode()
        found += [(word, name) for bit, word in NAMES.items() if mask & bit]
        data = data[16 + length :]
    return found


for place in [tempfile.gettempdir(), "/dev/shm"]:
    with tempfile.TemporaryDirectory(dir=place) as directory:
        watch = LIBC.inotify_init1(os.O_NONBLOCK)
        assert LIBC.inotify_add_watch(watch, directory.encode(), sum(NAMES)) >= 0
        file = os.open(directory, os.O_TMPFILE | os.O_WRONLY)
        os.write(file, b"first half, ")
        before = events(watch)
        link = [f"/proc/self/fd/{file}".encode(), AT_FDCWD, f"{directory}/result".encode()]
        assert LIBC.linkat(AT_FDCWD, *link, AT_SYMLINK_FOLLOW) == 0
        os.write(file, b"second half")
        nameless = f"#{os.fstat(file).st_ino}"
        os.close(file)
        after = events(watch)
        os.close(watch)
        assert os.listdir(directory) == ["result"]
        print(f"{place}: before linkat {before}, from linkat on {after}")
        assert ("MODIFY", nameless) in before
        assert after == [("CREATE", "result"), ("MODIFY", nameless), ("CLOSE_WRITE", nameless)]
PYTHON

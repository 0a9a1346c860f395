#!/usr/bin/env bash
# Linux 6.13 and later (seen with 6.18), files of ext4 and tmpfs, python3 of Debian 12.
#
# Guess: the kernel stamps files with CLOCK_REALTIME_COARSE, so a program that reads this clock
# after a write gets the time of the write or a later one, and may stamp its own files with it.
# Seen: once somebody has asked for a file's times (fstat), the next write to that file gets a fine
# time, and it is ahead of the coarse clock that is read afterwards, in practically every round, by
# up to a tick. The kernel keeps that fine time as a floor for the stamps of all filesystems
# (ktime_get_coarse_real_ts64_mg), but no call gives the floor to programs.
# So whoever keeps file times in user space and must not go back behind the kernel's (a FUSE server
# with a writeback cache, a backup that compares "changed since") takes the fine clock, or raises
# its own floor by every stamp that it is shown.
set -eu
python3 - <<'PYTHON'
import os
import platform
import tempfile
import time

release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
if release < (6, 13):
    raise SystemExit(f"needs Linux 6.13, this is {platform.release()}")
COARSE = 5  # CLOCK_REALTIME_COARSE
ROUNDS = 2000


def ahead(directory, is_asked):
    """Rounds in which a write got a time ahead of the coarse clock that was read behind it."""
    count = 0
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(ROUNDS):
            os.pwrite(file.fileno(), b"x", 0)
            if is_asked:
                os.fstat(file.fileno())
            os.pwrite(file.fileno(), b"y", 0)
            written = os.fstat(file.fileno()).st_mtime_ns
            count += written > time.clock_gettime_ns(COARSE)
    return count


for directory in [tempfile.gettempdir(), "/dev/shm"]:
    found = ahead(directory, True)
    print(f"{directory}: ahead of the coarse clock in {found} of {ROUNDS} rounds")
    assert found > ROUNDS // 2, "the kernel stamps in another way now"
PYTHON

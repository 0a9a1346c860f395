#!/usr/bin/env bash
# watchfiles 1.3.0 (PyPI) with notify 8.0.0 in it; the same in notify 8.2.2 (crates.io) by itself.
#
# Guess: the polling watcher of notify compares what stat gives, so a file that is written again is
# reported at the next poll, however short the time between the two writes.
# Seen: it keeps the time of the last change in whole seconds and compares nothing else, not the
# size, the inode number or the nanoseconds. The second write within one second is never reported,
# not late either: the listener stays with the first version for good. The watcher by inotify sees
# both. In notify with_compare_contents(true) sees both as well, at the price of reading everything;
# watchfiles has no such option, and turns polling on by itself in WSL and by
# WATCHFILES_FORCE_POLLING.
# So on mounts that give no events (network, FUSE), where polling is the advice, a reloader or a
# synchronizer that reacted to the first write must look once more a second later.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install watchfiles==1.3.0
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import os
import sys
import threading
import time

import watchfiles


def reports(directory, is_polling):
    """Reports that came for two writes 0.4 s apart, within one second of the clock."""
    os.mkdir(directory)
    path = f"{directory}/file"
    stop, found = threading.Event(), []

    def write(text):
        with open(path, "w") as file:
            file.write(text)

    def watch():
        options = {"force_polling": is_polling, "poll_delay_ms": 50, "debounce": 50, "step": 20}
        for changes in watchfiles.watch(directory, stop_event=stop, rust_timeout=100, **options):
            found.append(changes)

    write("first")
    time.sleep(1.5)
    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(0.8)
    time.sleep(1.1 - time.time() % 1)
    write("the second")
    one = os.stat(path)
    time.sleep(0.4)
    write("the third and last")
    two = os.stat(path)
    assert int(one.st_mtime) == int(two.st_mtime) and one.st_mtime_ns != two.st_mtime_ns
    time.sleep(3)
    stop.set()
    watcher.join()
    return len(found)


polled, told = reports(f"{sys.argv[1]}/polled", True), reports(f"{sys.argv[1]}/told", False)
print(f"two writes: reported {polled} by polling, {told} by inotify")
assert told == 2
assert polled == 1, "polling compares more than seconds now"
PYTHON

#!/usr/bin/env bash
# fasteners 0.20 (PyPI), Python 3.11, Linux.
#
# Guess: a lock between processes is held by the object that acquired it. A second object for the
# same file, in another part of the same program, is refused while the first one has it, or, if it
# is let in because the process has the lock already, its release leaves the first one's alone.
# Seen: neither. The lock is fcntl's, which belongs to the process: the second object is told that
# it has acquired what the first one holds, as a second writer or as a reader beside a writer. And
# when it is released, the lock is gone for the whole process: another process acquires it, while
# "acquired" of the first object is still true and its block still runs.
# So there is one object per file in a program, shared, and beside it a lock between threads; or a
# lock by flock, such as filelock's.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install fasteners==0.20
cat > "$dir/try.py" <<'PYTHON'
import subprocess
import sys

import fasteners

OTHER = """
import sys
import fasteners
lock = getattr(fasteners, sys.argv[1])(sys.argv[2])
print(getattr(lock, sys.argv[3])(blocking=False))
"""


def other_process(name, path, acquire):
    """Whether another process acquires the lock now."""
    command = [sys.executable, "-c", OTHER, name, path, acquire]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def tell(name, acquire, second_acquire, release):
    """Holds a lock, and acquires and releases it by a second object."""
    path = f"{sys.argv[1]}/{name}-{second_acquire}"
    first, second = (getattr(fasteners, name)(path) for _ in range(2))
    assert getattr(first, acquire)(blocking=False)
    before = other_process(name, path, acquire)
    told = getattr(second, second_acquire)(blocking=False)
    getattr(second, release)()
    after = other_process(name, path, acquire)
    print(f"{name}: held, another process gets it {before}; "
          f"second object, {second_acquire} {told}; released, another process gets it {after}")
    return first


first = tell("InterProcessLock", "acquire", "acquire", "release")
print(f"the first one says that it has it: {first.acquired}")
for second, release in [("acquire_write_lock", "release_write_lock"),
                        ("acquire_read_lock", "release_read_lock")]:
    tell("InterProcessReaderWriterLock", "acquire_write_lock", second, release)
PYTHON
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir")
printf '%s\n' "$seen"
expected="InterProcessLock: held, another process gets it False; second object, acquire True; released, another process gets it True
the first one says that it has it: True
InterProcessReaderWriterLock: held, another process gets it False; second object, acquire_write_lock True; released, another process gets it True
InterProcessReaderWriterLock: held, another process gets it False; second object, acquire_read_lock True; released, another process gets it True"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

"""File objects that may hold what is not written yet.

A volume that is closed, and a program that ends, has them write it first: later they could not.
"""

import io
import weakref
from typing import Any

from ._native import Process, Volume

# In the order of their making: what encodes or compresses comes after what it writes to. Not a
# WeakSet: other threads add to it while it is looked through, and to list a dict is one step.
_files: "dict[weakref.ref[Any], Process]" = {}


def _forget(reference: "weakref.ref[Any]", pop: Any = _files.pop) -> None:
    # With what it needs: the module may be gone before the last file.
    pop(reference, None)


def remember(file: Any, process: Process) -> None:
    """file writes to one of the process by and by."""
    try:
        _files[weakref.ref(file, _forget)] = process
    except TypeError:
        # What compresses may be of a class without references. Its buffer is remembered.
        pass


def write_all(volume: Volume | None = None) -> list[tuple[Any, Exception]]:
    """Has the files of a volume, or all of them, write what they hold. Returns those that failed,
    with the reason."""
    failed: list[tuple[Any, Exception]] = []
    told: list[Any] = []
    for reference in reversed(list(_files)):
        file, process = reference(), _files.get(reference)
        if file is None or process is None or any(file is each for each in told):
            continue
        if volume is not None and not volume._has(process):
            continue
        try:
            _write(file)
        except Exception as error:
            failed.append((file, error))
            # It would fail for the same reason.
            told.append(getattr(file, "buffer", None))
    return failed


def write_of(volume: Volume) -> Exception | None:
    """Has the files of a volume write what they hold. Returns the first error, with the others as
    notes of it."""
    failed = write_all(volume)
    if not failed:
        return None
    first = failed[0][1]
    for file, error in failed:
        first.add_note(f"{file!r} was not written: {error}")
    return first


def _write(file: Any) -> None:
    if not isinstance(file, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
        # What compresses has more to write at its end.
        file.close()
        return
    try:
        is_closed = file.closed
    except ValueError:
        # Detached: what it wrote to is remembered as well.
        return
    if not is_closed:
        file.flush()

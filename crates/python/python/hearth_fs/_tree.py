"""Directories and what is below them, where symbolic links are no way down."""

import errno
import stat as _stat
from collections.abc import Iterator

from ._native import Process


def remove(process: Process, roots: dict[str, int | None], recursive: bool) -> None:
    """Removes files, and with recursive directories and what is below them, each as deep as roots
    says. Nothing is removed before all roots were found."""
    directories: dict[str, None] = {}
    files: dict[str, None] = {}
    for root, stat in zip(roots, process.stat_many(roots, follow_symlinks=False)):
        if isinstance(stat, OSError):
            raise stat
        if not _stat.S_ISDIR(stat.st_mode):
            files[root] = None
        elif recursive:
            _collect(process, root, roots[root], directories, files)
        else:
            raise IsADirectoryError(
                errno.EISDIR, "a directory is removed with recursive=True", root
            )
    for failed in process.unlink_many(files):
        if failed is not None:
            raise failed
    for each in sorted(directories, key=len, reverse=True):
        if each != "/":
            process.rmdir(each)


def _collect(
    process: Process,
    root: str,
    maxdepth: int | None,
    directories: dict[str, None],
    files: dict[str, None],
) -> None:
    """Adds a directory and what is below it, down to maxdepth."""
    waiting = [(root, maxdepth)]
    while waiting:
        directory, depth = waiting.pop()
        directories[directory] = None
        if depth == 0:
            continue
        below = None if depth is None else depth - 1
        for entry in process.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, below))
            else:
                files[entry.path] = None


def leads_up(process: Process, path: str) -> bool:
    """Whether a path is a symbolic link to one of the directories on the way to it."""
    try:
        if not _stat.S_ISLNK(process.lstat(path).st_mode):
            return False
        target = process.stat(path).st_ino
        return any(process.stat(each).st_ino == target for each in ["/", *above(path)])
    except OSError:
        # It has gone meanwhile, which is for who looks into it to say.
        return False


def above(path: str) -> Iterator[str]:
    """The directories on the way to a path, without the root."""
    for at, letter in enumerate(path):
        if letter == "/" and at > 0:
            yield path[:at]

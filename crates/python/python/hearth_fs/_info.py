"""What the filesystem for fsspec tells of files."""

import os
import stat as _stat
from typing import Any

from ._native import Stat


def info_of(path: str, found: Stat) -> dict[str, Any]:
    """Attributes in the words of fsspec, and those of stat."""
    mode = found.st_mode
    if _stat.S_ISREG(mode):
        kind, size = "file", found.st_size
    elif _stat.S_ISDIR(mode):
        kind, size = "directory", 0
    else:
        kind, size = "other", found.st_size
    return {
        "name": path,
        "size": size,
        "type": kind,
        "created": found.st_birthtime,
        "mtime": found.st_mtime,
        "mode": mode,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "ino": found.st_ino,
        "nlink": found.st_nlink,
        "islink": False,
    }


def info_of_link(
    path: str, found: Stat, target: Stat | None, destination: Any
) -> dict[str, Any]:
    """A symbolic link counts as what it leads to, as in fsspec's local filesystem."""
    info = info_of(path, target if target is not None else found)
    if target is None:
        info["type"] = "link"
    info["islink"] = True
    info["destination"] = os.fspath(destination)
    return info

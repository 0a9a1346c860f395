"""Hearth volumes in Python: a filesystem in memory or over a durable store.

    >>> import hearth_fs
    >>> with hearth_fs.open("memory:") as volume:
    ...     process = volume.process()
    ...     _ = process.write_bytes("/hello", b"world")
    ...     process.stat("/hello").st_size
    5

The filesystem for fsspec (``hearth://``) is in ``hearth_fs.fsspec``.
"""

import atexit as _atexit
import os as _os

from . import _native
from ._file import File
from ._native import (
    DirEntry,
    Heat,
    HeatRow,
    Mount,
    Process,
    Quota,
    QuotaEvent,
    QuotaRecord,
    QuotaUsage,
    Stat,
    StatVfs,
    Volume,
    __version__,
    open,
)

__all__ = [
    "DirEntry",
    "File",
    "Heat",
    "HeatRow",
    "Mount",
    "Process",
    "Quota",
    "QuotaEvent",
    "QuotaRecord",
    "QuotaUsage",
    "Stat",
    "StatVfs",
    "Volume",
    "__version__",
    "open",
]

_os.register_at_fork(after_in_child=_native._forked)
_atexit.register(_native._close_all)

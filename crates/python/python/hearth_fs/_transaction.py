"""Transactions of the filesystem for fsspec.

A file that a transaction writes is a part: a file beside the one that it becomes when the
transaction ends. All that is opened for writing at one path in a transaction shares one part, as it
would share the file.
"""

import contextlib
import errno
import io
import os
import secrets
import stat as _stat
from typing import Any

from fsspec.transaction import Transaction

from ._file import File
from ._native import Process, Stat

_LINKS_MOST = 40


class Part:
    """What becomes the file at path, or is removed."""

    def __init__(self, process: Process, path: str, mode: str) -> None:
        self.path = path
        # What the last write of a buffer failed with.
        self.failed: Exception | None = None
        self._process = process
        self._is_new = "x" in mode
        self._is_over = False
        # What is open on it; what compresses or encodes comes after what it writes to.
        self._files: list[Any] = []
        replaced = _replaced(process, path, mode)
        self._place = f"{path}.{secrets.token_hex(6)}.part"
        try:
            self._begin(replaced, keeps="a" in mode or "r" in mode)
        except BaseException:
            self.discard()
            raise

    def _begin(self, replaced: Stat | None, keeps: bool) -> None:
        process, place = self._process, self._place
        if replaced is None:
            process.touch(place, exist_ok=False)
            return
        # Nobody may read it meanwhile who may not read what it replaces.
        process.touch(place, 0o600, exist_ok=False)
        if keeps:
            process.copy(self.path, place)
        with contextlib.suppress(PermissionError):
            process.chown(place, replaced.st_uid, replaced.st_gid)
        process.chmod(place, _stat.S_IMODE(replaced.st_mode))

    def open(self, mode: str, size: int) -> "StagedWriter | StagedRandom":
        """A file object on it, for a mode that writes."""
        raw = _PartFile(self._process, self._place, mode.replace("x", "w"))
        raw.part = self
        file = (StagedRandom if "+" in mode else StagedWriter)(raw, size)
        file.part = self
        self.note(file)
        return file

    def note(self, file: Any) -> None:
        """file writes to it, through what was noted before."""
        if not any(file is noted for noted in self._files):
            self._files.append(file)

    def commit(self) -> None:
        """Gives it its name. Where that fails it is removed."""
        if self._is_over:
            return
        try:
            for file in reversed(self._files):
                file.close()
            if self.failed is not None:
                raise self.failed
            if self._is_new:
                self._process.link(self._place, self.path)
                self._process.unlink(self._place)
            else:
                self._process.rename(self._place, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.discard()
            raise
        self._is_over = True

    def discard(self) -> None:
        """Removes it."""
        if self._is_over:
            return
        self._is_over = True
        for file in reversed(self._files):
            # What cannot be written is not wanted either.
            with contextlib.suppress(Exception):
                file.close()
        with contextlib.suppress(FileNotFoundError):
            self._process.unlink(self._place)


class _PartFile(File):
    """The raw file of a part."""

    part: Part

    def write(self, data: Any, /) -> int:
        try:
            written = super().write(data)
        except Exception as error:
            # Who wrote may not tell anybody, and half a file must not become a whole one.
            self.part.failed = error
            raise
        self.part.failed = None
        return written


class _Staged:
    """What fsspec asks of a file that it opened with autocommit=False."""

    part: Part

    def commit(self) -> None:
        """Gives the file its name."""
        self.part.commit()

    def discard(self) -> None:
        """Removes what was written."""
        self.part.discard()


class StagedWriter(_Staged, io.BufferedWriter):
    """A file of a transaction that is written."""


class StagedRandom(_Staged, io.BufferedRandom):
    """A file of a transaction that is written and read."""


def staged(process: Process, path: str, mode: str, size: int) -> StagedWriter | StagedRandom:
    """A file object on a part of its own."""
    part = Part(process, path, mode)
    try:
        return part.open(mode, size)
    except BaseException:
        part.discard()
        raise


class HearthTransaction(Transaction):
    """A transaction that ends whole: each file gets its name or is removed, whatever becomes of
    the others, and the filesystem is usable afterwards. The first error is raised; the others are
    notes of it."""

    def __init__(self, fs: Any, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self._parts: dict[str, Part] = {}
        self._is_entered = False

    def __enter__(self) -> "HearthTransaction":
        if self._is_entered:
            raise nested()
        super().__enter__()
        self._is_entered = True
        # Also where it is entered once more after its end.
        self.fs._transaction = self
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        try:
            super().__exit__(exc_type, exc_val, exc_tb)
        except Exception as error:
            if exc_val is None:
                raise
            # The caller waits for its own error.
            exc_val.add_note(f"what the transaction wrote was not all removed: {error}")

    def open(self, process: Process, path: str, mode: str, size: int) -> Any:
        """A file object on the part of path."""
        path = path if "x" in mode else _end_of_links(process, path)
        part = self._parts.get(path)
        if part is None:
            file = staged(process, path, mode, size)
            self._parts[path] = file.part
            return file
        if "x" in mode:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        return part.open(mode, size)

    def note(self, process: Process, path: str, file: Any) -> None:
        """file, opened in the transaction, writes to path."""
        part = self._parts.get(_end_of_links(process, path))
        if part is not None:
            part.note(file)

    def complete(self, commit: bool = True) -> None:
        """Ends it: all files get their names, or are removed."""
        parts, self._parts = self._parts, {}
        first: BaseException | None = None
        try:
            for part in parts.values():
                try:
                    if commit:
                        part.commit()
                    else:
                        part.discard()
                except BaseException as error:
                    if first is None:
                        first = error
                    else:
                        first.add_note(f"{part.path}: {error}")
        finally:
            # What fsspec has noted of the same files.
            self.files.clear()
            self._is_entered = False
            if self.fs is not None:
                self.fs._intrans = False
                self.fs._transaction = None
        if first is not None:
            raise first


def nested() -> RuntimeError:
    """The refusal of a transaction inside another one of the same filesystem."""
    return RuntimeError("a transaction of this filesystem is open: end it first")


def _replaced(process: Process, path: str, mode: str) -> Stat | None:
    """Attributes of the file that a part replaces; refuses what an open with the mode would
    refuse."""
    if "x" in mode:
        try:
            process.lstat(path)
        except FileNotFoundError:
            return None
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    try:
        # Without waiting for the other end of a pipe.
        fd = process.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if "r" in mode:
            raise
        return None
    try:
        return process.fstat(fd)
    finally:
        process.close(fd)


def _end_of_links(process: Process, path: str) -> str:
    """Where the symbolic links at path end: a rename would replace the first of them."""
    for _ in range(_LINKS_MOST):
        try:
            target = process.readlink(path)
        except OSError:
            break
        path = os.path.join(os.path.dirname(path), target)
    return path

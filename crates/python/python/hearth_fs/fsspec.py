"""Hearth volumes for fsspec: ``hearth://``.

    >>> import fsspec
    >>> fs = fsspec.filesystem("hearth", volume="memory:")
    >>> fs.pipe_file("/table.csv", b"a,b\\n1,2\\n")
    >>> fs.cat_file("/table.csv")
    b'a,b\\n1,2\\n'

``hearth://a/b`` and ``hearth:///a/b`` are the path ``/a/b`` of the volume that the storage option
``volume`` names.
"""

import io
import os
import stat as _stat
import threading
from datetime import datetime, timezone
from typing import Any, cast

from fsspec import AbstractFileSystem
from fsspec.utils import stringify_path

from . import _native
from ._file import File, buffered
from ._info import info_of, info_of_link
from ._transaction import HearthTransaction, nested, staged
from ._tree import above, leads_up, remove
from ._unwritten import remember

_BUFFER = 64 << 10
_volumes: dict[str, _native.Volume] = {}
_volumes_lock = threading.Lock()


def _shared(source: str, create: bool) -> _native.Volume:
    """The volume of a source, open once in this process for all instances."""
    with _volumes_lock:
        volume = _volumes.get(source)
        if volume is None or volume.closed:
            volume = _volumes[source] = _native.open(source, create=create)
        return volume


def close(source: str) -> None:
    """Closes the volume that instances with ``volume=source`` use, as hearth_fs.open() would be
    closed. Later instances open it again."""
    with _volumes_lock:
        volume = _volumes.pop(source, None)
        # Its instances must not be found again.
        HearthFileSystem.clear_instance_cache()
        if volume is not None:
            volume.close()


class HearthReader(io.BufferedReader):
    """A file that is read. It knows its path and its size, and gives any range: who reads or keeps
    blocks asks for that."""

    def __init__(self, raw: File, blocksize: int) -> None:
        super().__init__(raw, blocksize)
        self.blocksize = blocksize

    @property
    def path(self) -> str:
        """The path on the volume."""
        return cast(str, cast(File, self.raw).name)

    @property
    def closed(self) -> bool:
        """Whether it is closed. fsspec's cache of blocks says so as well, once it has closed it."""
        return super().closed

    @closed.setter
    def closed(self, is_closed: bool) -> None:
        if is_closed:
            super().close()

    def _fetch_range(self, start: int, end: int) -> bytes:
        """The bytes of a range, less what lies behind the end. The place of the file stays."""
        raw = cast(File, self.raw)
        parts = []
        while part := raw.process.pread(raw.descriptor, max(end - start, 0), start):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    @property
    def size(self) -> int:
        """Bytes of the file, as it is now."""
        raw = cast(File, self.raw)
        return raw.process.fstat(raw.descriptor).st_size


class HearthFileSystem(AbstractFileSystem):
    """Files of a Hearth volume.

    Parameters
    ----------
    volume: str or hearth_fs.Volume
        A source such as "store:/srv/v" or "memory:?size=1GiB". All instances with one source use
        one volume, also in other threads; "memory:" is the default, and ends with the process.
    create: bool
        Makes a store of a directory that is new or empty.
    auto_mkdir: bool
        Writing a file makes the directories above it.
    uid, gid: int
        As whom; by default as this process.
    """

    protocol = "hearth"
    root_marker = "/"
    local_file = False
    transaction_type = HearthTransaction

    def __init__(
        self,
        volume: str | _native.Volume = "memory:",
        create: bool = False,
        auto_mkdir: bool = True,
        uid: int | None = None,
        gid: int | None = None,
        **storage_options: Any,
    ) -> None:
        if self._cached:
            return
        super().__init__(**storage_options)
        self.volume = _shared(volume, create) if isinstance(volume, str) else volume
        self.process = self.volume.process(uid, gid)
        self.auto_mkdir = auto_mkdir

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = stringify_path(path)
        if path.startswith("hearth://"):
            path = path[len("hearth://") :]
        elif path.startswith("hearth:"):
            path = path[len("hearth:") :]
        return "/" + path.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path."""
        return "hearth://" + self._strip_protocol(name)

    @property
    def fsid(self) -> str:
        """Tells volumes apart."""
        return f"hearth_{self.volume.source}"

    # Looking.

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Attributes: name, size, type ("file", "directory", "link" or "other"), and those of
        stat."""
        path = self._strip_protocol(path)
        found = self.process.lstat(path)
        if not _stat.S_ISLNK(found.st_mode):
            return info_of(path, found)
        try:
            target = self.process.stat(path)
        except OSError:
            target = None
        return info_of_link(path, found, target, self.process.readlink(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The entries of a directory, or the file itself, sorted by name."""
        path = self._strip_protocol(path)
        if not detail:
            return self._names(path)
        try:
            entries = self.process.scandir(path)
        except NotADirectoryError:
            return [self.info(path)]
        found = []
        for entry in entries:
            if entry.is_symlink():
                found.append(self.info(entry.path))
            else:
                found.append(info_of(entry.path, entry.stat()))
        found.sort(key=_by_name)
        return found

    def _names(self, path: str) -> list[str]:
        try:
            names = self.process.listdir(path)
        except NotADirectoryError:
            return [path]
        above = path if path == "/" else path + "/"
        return sorted([above + name for name in names])

    def walk(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Directories and what is in them, as AbstractFileSystem.walk(). A symbolic link to a
        directory above it is not followed, since there would be no end."""
        path = self._strip_protocol(path)
        if kwargs.get("is_below") and leads_up(self.process, path):
            return
        yield from super().walk(path, *args, **{**kwargs, "is_below": True})

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is something at path."""
        return self.process.exists(self._strip_protocol(path))

    lexists = exists

    def isfile(self, path: str) -> bool:
        """Whether there is a file at path."""
        try:
            return _stat.S_ISREG(self.process.stat(self._strip_protocol(path)).st_mode)
        except OSError:
            return False

    def isdir(self, path: str) -> bool:
        """Whether there is a directory at path."""
        try:
            return _stat.S_ISDIR(self.process.stat(self._strip_protocol(path)).st_mode)
        except OSError:
            return False

    def created(self, path: str) -> datetime:
        """When the file was made."""
        found = self.process.stat(self._strip_protocol(path))
        return datetime.fromtimestamp(found.st_birthtime, tz=timezone.utc)

    def modified(self, path: str) -> datetime:
        """When the contents changed last."""
        found = self.process.stat(self._strip_protocol(path))
        return datetime.fromtimestamp(found.st_mtime, tz=timezone.utc)

    # Directories and names.

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Makes a directory."""
        path = self._strip_protocol(path)
        if create_parents:
            self._make_parent(path)
        self.process.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and those above it."""
        self.process.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self.process.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        self.process.unlink(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with recursive directories and what is below them. A symbolic link is
        removed, and never what it leads to."""
        given = [path] if isinstance(path, (str, os.PathLike)) else path
        roots = {root: depth for each in given for root, depth in self._roots(each, maxdepth)}
        remove(self.process, roots, recursive)

    def _roots(self, path: Any, maxdepth: int | None) -> list[tuple[str, int | None]]:
        """What a path or a pattern names, and how deep to go below."""
        found = self.expand_path(path, maxdepth=maxdepth)
        if not _has_magic(self._strip_protocol(path)):
            return [(each, maxdepth) for each in found]
        # "**" goes through links to directories, and the links are what is removed.
        links = {each for each in found if self.islink(each)}
        depth = None if maxdepth is None else maxdepth - 1
        return [(each, depth) for each in found if links.isdisjoint(above(each))]

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file, or makes the directory that path1 is."""
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.auto_mkdir:
            self._make_parent(path2)
        if self.isdir(path1):
            self.process.makedirs(path2, exist_ok=True)
        else:
            self.process.copy(path1, path2)

    def mv(self, path1: str, path2: str, recursive: bool = False, **kwargs: Any) -> None:
        """Moves a file or a directory, as rename does where both are plain paths."""
        one, two = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(two):
            two = two.rstrip("/") + "/" + one.rsplit("/", 1)[-1]
        if self.auto_mkdir:
            self._make_parent(two)
        self.process.rename(one, two)

    def link(self, src: str, dst: str, **kwargs: Any) -> None:
        """Gives a file another name."""
        self.process.link(self._strip_protocol(src), self._strip_protocol(dst))

    def symlink(self, src: str, dst: str, **kwargs: Any) -> None:
        """Makes a symbolic link at dst that leads to src."""
        self.process.symlink(src, self._strip_protocol(dst))

    def islink(self, path: str) -> bool:
        """Whether there is a symbolic link at path."""
        try:
            return _stat.S_ISLNK(self.process.lstat(self._strip_protocol(path)).st_mode)
        except OSError:
            return False

    def chmod(self, path: str, mode: int) -> None:
        """Changes permission bits."""
        self.process.chmod(self._strip_protocol(path), mode)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Makes an empty file, or empties one, or with truncate=False moves its times."""
        path = self._strip_protocol(path)
        if self._intrans:
            self.open(path, "wb" if truncate else "ab").close()
            return
        if self.auto_mkdir:
            self._make_parent(path)
        if truncate:
            self.process.write_bytes(path, b"")
        else:
            self.process.touch(path)

    # Contents.

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """The contents of a file, or a part of it."""
        return self.process.read_bytes(self._strip_protocol(path), start, end)

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any
    ) -> Any:
        """The contents of files: bytes for one plain path, else {path: bytes}."""
        is_plain = isinstance(path, str) and not recursive and not _has_magic(path)
        if is_plain and on_error == "raise":
            return self.cat_file(path, **kwargs)
        if kwargs:
            return super().cat(path, recursive=recursive, on_error=on_error, **kwargs)
        paths = self.expand_path(path, recursive=recursive)
        if is_plain:
            found = self.process.read_many(paths)[0]
            return found if isinstance(found, bytes) or on_error == "return" else {}
        all_ = dict(zip(paths, self.process.read_many(paths)))
        failed = {each: found for each, found in all_.items() if isinstance(found, OSError)}
        if on_error == "return":
            return all_
        for each, found in failed.items():
            # Directories that a pattern has found have no contents.
            if isinstance(found, IsADirectoryError) and recursive or on_error == "omit":
                del all_[each]
            else:
                raise found
        return all_

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Writes a file; mode "create" refuses one that is there."""
        path = self._strip_protocol(path)
        if mode == "create" or self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb") as file:
                file.write(value)
            return
        try:
            self.process.write_bytes(path, value)
        except FileNotFoundError:
            if not self.auto_mkdir:
                raise
            self._make_parent(path)
            self.process.write_bytes(path, value)

    def pipe(self, path: Any, value: Any = None, **kwargs: Any) -> None:
        """Writes one file, or the files of {path: bytes}."""
        if isinstance(path, str) and not kwargs:
            self.pipe_file(path, value)
            return
        if not isinstance(path, dict) or kwargs or self._intrans:
            super().pipe(path, value, **kwargs)
            return
        files = [(self._strip_protocol(each), data) for each, data in path.items()]
        for (each, data), done in zip(files, self.process.write_many(files)):
            if isinstance(done, FileNotFoundError):
                self.pipe_file(each, data)
            elif isinstance(done, OSError):
                raise done

    def open(self, path: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        """Opens a file as builtins.open() does, binary by default. What is written in a
        transaction is there when that ends."""
        file = super().open(path, mode, *args, **kwargs)
        if not _writes(mode):
            return file
        if not isinstance(file, (io.BufferedWriter, io.BufferedRandom)):
            # It encodes or compresses.
            remember(file, self.process)
        if self._intrans and not kwargs.get("autocommit"):
            self.transaction.note(self.process, self._strip_protocol(path), file)
        return file

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        size = block_size if isinstance(block_size, int) and block_size > 0 else _BUFFER
        if self.auto_mkdir and "r" not in mode:
            self._make_parent(path)
        if not _writes(mode):
            return HearthReader(File(self.process, path, mode), size)
        if autocommit:
            return buffered(File(self.process, path, mode), size)
        if self._intrans:
            return self.transaction.open(self.process, path, mode, size)
        return staged(self.process, path, mode, size)

    def start_transaction(self) -> Any:
        """Begins a transaction that end_transaction() ends."""
        if self._intrans:
            raise nested()
        return super().start_transaction()

    def _make_parent(self, path: str) -> None:
        above = path.rsplit("/", 1)[0]
        if above and not self.process.exists(above):
            self.process.makedirs(above, exist_ok=True)

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> str:
        """Not for a volume, which no URL reaches from elsewhere."""
        raise NotImplementedError("a volume has no signed URLs")


def _by_name(info: dict[str, Any]) -> str:
    return info["name"]


def _writes(mode: str) -> bool:
    return "r" not in mode or "+" in mode


def _has_magic(path: str) -> bool:
    return "*" in path or "?" in path or "[" in path

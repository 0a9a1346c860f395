"""File objects over the descriptors of a process of a volume."""

import errno
import io
import os
import stat as _stat
from typing import IO, TYPE_CHECKING, Any, NoReturn, SupportsIndex

from ._native import Process
from ._unwritten import remember

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrOrBytesPath, WriteableBuffer

_MODES = {
    "r": os.O_RDONLY,
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}

# Most bytes of one read of a descriptor.
_READ_MOST = 0x7FFF_F000


class File(io.RawIOBase):
    """An open file of a volume: unbuffered bytes, as io.FileIO is one of the system.

    mode is "r", "w", "a" or "x", with "+" for both directions; "b" may stand in it. The file has
    no fileno(), since the system does not know its descriptor.
    """

    name: "StrOrBytesPath"
    mode: str
    _fd = -1

    def __init__(self, process: Process, path: "StrOrBytesPath", mode: str = "rb") -> None:
        flags, self._reads, self._writes = _flags(mode)
        self._process = process
        self.name = path
        self.mode = mode if "b" in mode else mode + "b"
        self._fd = process.open(path, flags | os.O_CLOEXEC, 0o666)
        if not self._writes and _stat.S_ISDIR(process.fstat(self._fd).st_mode):
            # One for writing is refused by the open itself.
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._appends = bool(flags & os.O_APPEND)
        if self._appends:
            process.lseek(self._fd, 0, os.SEEK_END)

    @property
    def descriptor(self) -> int:
        """The descriptor of the process: for its calls, such as fstat() and flock()."""
        self._check()
        return self._fd

    @property
    def process(self) -> Process:
        """The process that has the file open."""
        return self._process

    def readable(self) -> bool:
        """Whether the file was opened for reading."""
        self._check()
        return self._reads

    def writable(self) -> bool:
        """Whether the file was opened for writing."""
        self._check()
        return self._writes

    def seekable(self) -> bool:
        """True."""
        self._check()
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """At most size bytes from the position on; all the rest if size is negative."""
        self._check_reads()
        if size is None or size < 0:
            return self.readall()
        return self._process.read(self._fd, size)

    def readall(self) -> bytes:
        """All bytes from the position on."""
        self._check_reads()
        parts = []
        while True:
            rest = self._process.fstat(self._fd).st_size - self.tell()
            if rest > _READ_MOST:
                # MemoryError now, and not when all that there is has been filled with zeros.
                bytes(rest)
            # One more, so that a file that has grown is read on.
            part = self._process.read(self._fd, max(rest + 1, io.DEFAULT_BUFFER_SIZE))
            if not part:
                break
            parts.append(part)
            if rest >= 0 and len(part) == rest:
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Reads into buffer; returns how many bytes came."""
        self._check_reads()
        return self._process.readinto(self._fd, buffer)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes at the position, or at the end; returns how many bytes were taken."""
        self._check()
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        return self._process.write(self._fd, data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position and returns it."""
        self._check()
        return self._process.lseek(self._fd, offset, whence)

    def tell(self) -> int:
        """The position."""
        self._check()
        return self._process.lseek(self._fd, 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None, /) -> int:
        """Cuts or extends the file; by default to the position."""
        self._check()
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        size = self.tell() if size is None else size
        self._process.ftruncate(self._fd, size)
        return size

    def close(self) -> None:
        """Closes the descriptor. Doing it again does nothing."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                self._process.close(fd)

    def __del__(self) -> None:
        # The process may be of a volume that was closed, or that a fork may not use.
        try:
            self.close()
        except OSError:
            pass

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        # A copy would have the same descriptor, and close it at its end.
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self.mode!r}"
        return f"<hearth_fs.File {self.name!r} {state}>"

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_reads(self) -> None:
        self._check()
        if not self._reads:
            raise io.UnsupportedOperation("not readable")


def open_file(
    process: Process,
    path: "StrOrBytesPath",
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """What Process.file() does: see there."""
    is_binary = "b" in mode
    if is_binary and (encoding is not None or errors is not None or newline is not None):
        raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
    if buffering == 0 and not is_binary:
        raise ValueError("can't have unbuffered text I/O")
    if is_binary and "t" in mode:
        raise ValueError("can't have text and binary mode at once")
    raw = File(process, path, mode.replace("t", "", 1))
    if buffering == 0:
        return raw  # type: ignore[return-value]
    try:
        binary = buffered(raw, buffering if buffering > 1 else 64 << 10)
        if is_binary:
            return binary
        text = io.TextIOWrapper(
            binary, encoding, errors, newline, line_buffering=buffering == 1
        )
        text.mode = mode  # type: ignore[misc]
        if raw.writable():
            remember(text, process)
        return text
    except BaseException:
        raw.close()
        raise


def buffered(raw: File, size: int) -> io.BufferedReader | io.BufferedWriter | io.BufferedRandom:
    """A buffer of size bytes over a raw file."""
    if not raw.writable():
        return io.BufferedReader(raw, size)
    file: io.BufferedWriter | io.BufferedRandom
    if raw.readable():
        file = io.BufferedRandom(raw, size)
    else:
        file = io.BufferedWriter(raw, size)
    remember(file, raw.process)
    return file


def _flags(mode: str) -> tuple[int, bool, bool]:
    """The flags of open(), and whether the file is read and written."""
    letters = mode.replace("b", "", 1)
    is_both = "+" in letters
    kind = letters.replace("+", "", 1)
    if kind not in _MODES:
        raise ValueError(f"invalid mode: {mode!r}")
    flags = _MODES[kind]
    if is_both:
        flags = flags & ~os.O_WRONLY | os.O_RDWR
    return flags, is_both or kind == "r", is_both or kind != "r"

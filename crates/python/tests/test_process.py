"""Calls do what those of os do."""

import errno
import os
import stat

import pytest


def both(process, tmp_path, steps):
    """The results of the same steps on a directory of the system and on the volume."""

    def outcome(step, calls, root):
        try:
            return step(calls, root)
        except OSError as error:
            return error.errno, type(error)

    process.mkdir("/here")
    ours = [outcome(step, process, "/here") for step in steps]
    theirs = [outcome(step, os, str(tmp_path)) for step in steps]
    return ours, theirs


def test_the_same_steps_have_the_same_results(process, tmp_path):
    steps = [
        lambda os, d: os.mkdir(f"{d}/a"),
        lambda os, d: os.mkdir(f"{d}/a"),
        lambda os, d: os.mkdir(f"{d}/none/b"),
        lambda os, d: os.makedirs(f"{d}/x/y/z"),
        lambda os, d: os.makedirs(f"{d}/x/y/z"),
        lambda os, d: os.makedirs(f"{d}/x/y/z", exist_ok=True),
        lambda os, d: os.symlink("a", f"{d}/link"),
        lambda os, d: os.readlink(f"{d}/link"),
        lambda os, d: os.readlink(f"{d}/a"),
        lambda os, d: os.rename(f"{d}/a", f"{d}/b"),
        lambda os, d: os.rename(f"{d}/a", f"{d}/c"),
        lambda os, d: os.stat(f"{d}/link"),
        lambda os, d: stat.S_IFMT(os.lstat(f"{d}/link").st_mode),
        lambda os, d: os.rmdir(f"{d}/x"),
        lambda os, d: os.unlink(f"{d}/x"),
        lambda os, d: sorted(os.listdir(d)),
        lambda os, d: os.listdir(f"{d}/link"),
        lambda os, d: os.chmod(f"{d}/b", 0o700),
        lambda os, d: stat.S_IMODE(os.stat(f"{d}/b").st_mode),
        lambda os, d: os.utime(f"{d}/b", ns=(-5, 1_000_000_007)),
        lambda os, d: (os.stat(f"{d}/b").st_atime_ns, os.stat(f"{d}/b").st_mtime_ns),
        lambda os, d: os.utime(f"{d}/b", (1.5, 2.25)),
        lambda os, d: (os.stat(f"{d}/b").st_atime, os.stat(f"{d}/b").st_mtime),
        lambda os, d: os.access(f"{d}/b", 0),
        lambda os, d: os.access(f"{d}/none", 0),
        lambda os, d: os.truncate(f"{d}/none", 5),
        lambda os, d: os.stat(f"{d}/" + "n" * 256),
        lambda os, d: os.listdir(f"{d}".encode()).sort(),
    ]
    ours, theirs = both(process, tmp_path, steps)
    for number, (our, their) in enumerate(zip(ours, theirs)):
        assert our == their, f"step {number}"


def test_descriptors(anywhere):
    process = anywhere
    fd = process.open("/f", os.O_CREAT | os.O_RDWR, 0o640)
    assert stat.S_IMODE(process.fstat(fd).st_mode) == 0o640
    assert process.write(fd, b"hello world") == 11
    assert process.lseek(fd, 6) == 6
    assert process.read(fd, 100) == b"world"
    assert process.read(fd, 100) == b""
    assert process.pread(fd, 5, 0) == b"hello"
    assert process.pwrite(fd, bytearray(b"HE"), 0) == 2
    assert process.pwrite(fd, memoryview(b"xxLLxx")[2:4], 2) == 2
    into = bytearray(8)
    assert process.readinto(fd, into, 0) == 8 and into == b"HELLo wo"
    part = memoryview(into)[2:4]
    assert process.readinto(fd, part, 9) == 2 and into == b"HEldo wo"
    assert process.readinto(fd, into, 9) == 2 and into == b"lddo wo"[:0] + b"ldldo wo"
    other = process.dup(fd)
    assert process.open_fds() == [fd, other]
    process.ftruncate(other, 3)
    assert process.fstat(fd).st_size == 3
    process.fsync(fd)
    process.fdatasync(fd)
    process.close(fd)
    process.close(other)
    with pytest.raises(OSError) as failed:
        process.read(fd, 1)
    assert failed.value.errno == errno.EBADF


def test_what_is_read_is_cut_to_what_is_there(process):
    process.write_bytes("/f", b"abc")
    fd = process.open("/f", os.O_RDONLY)
    assert process.read(fd, 1 << 62) == b"abc"
    assert process.pread(fd, 1 << 40, 1) == b"bc"


def test_buffers_of_any_shape_and_none_that_is_read_only(process):
    from array import array

    process.write_bytes("/f", array("i", [1, 2, 3]))
    assert process.read_bytes("/f") == array("i", [1, 2, 3]).tobytes()
    fd = process.open("/f", os.O_RDONLY)
    numbers = array("i", [0, 0, 0])
    assert process.readinto(fd, numbers) == 12
    assert numbers == array("i", [1, 2, 3])
    with pytest.raises((TypeError, BufferError)):
        process.readinto(fd, b"bytes do not change", 0)
    with pytest.raises(TypeError):
        process.write_bytes("/f", "text")


def test_whole_files(anywhere):
    process = anywhere
    data = os.urandom(300_000)
    assert process.write_bytes("/f", data) == len(data)
    assert process.read_bytes("/f") == data
    for start, end in [(0, 10), (10, None), (-10, None), (None, -10), (5, 2), (299_990, 1 << 40)]:
        assert process.read_bytes("/f", start, end) == data[slice(start, end)], (start, end)
    assert process.write_bytes("/f", b"short") == 5
    assert process.read_bytes("/f") == b"short"
    assert process.copy("/f", "/g") == 5
    assert process.copy("/f", "/f") == 5, "a copy to itself changes nothing"
    assert process.read_bytes("/g") == process.read_bytes("/f") == b"short"
    process.touch("/empty")
    assert process.read_bytes("/empty") == b""
    process.utime("/empty", (1, 1))
    process.touch("/empty")
    assert process.stat("/empty").st_mtime > 1
    with pytest.raises(FileExistsError):
        process.touch("/empty", exist_ok=False)
    assert process.open_fds() == []


def test_a_failed_call_on_whole_files_leaves_no_descriptor(process):
    process.mkdir("/d")
    for call in [
        lambda: process.read_bytes("/d"),
        lambda: process.read_bytes("/none"),
        lambda: process.write_bytes("/d", b""),
        lambda: process.copy("/d", "/x"),
        lambda: process.copy("/none", "/x"),
    ]:
        with pytest.raises(OSError):
            call()
    assert process.open_fds() == [] and not process.exists("/x")


def test_paths_of_every_kind(process):
    import pathlib

    process.write_bytes(pathlib.PurePosixPath("/a"), b"1")
    assert process.read_bytes(b"/a") == b"1"
    process.write_bytes(b"/\xff", b"2")
    assert sorted(process.listdir("/")) == ["\udcff", "a"][::-1]
    assert process.read_bytes("/\udcff") == b"2"
    assert process.listdir(b"/") and all(isinstance(n, bytes) for n in process.listdir(b"/"))
    entry = process.scandir(b"/")[0]
    assert isinstance(entry.name, bytes) and entry.path == b"/" + entry.name
    with pytest.raises(ValueError):
        process.stat("/a\0b")
    with pytest.raises(TypeError):
        process.stat(5)


def test_errors_have_number_subclass_and_paths_as_given(process):
    import pathlib

    given = pathlib.PurePosixPath("/none")
    with pytest.raises(FileNotFoundError) as failed:
        process.stat(given)
    assert failed.value.filename is given
    assert failed.value.errno == errno.ENOENT
    assert failed.value.strerror == os.strerror(errno.ENOENT)
    with pytest.raises(FileNotFoundError) as failed:
        process.rename("/none", b"/other")
    assert (failed.value.filename, failed.value.filename2) == ("/none", b"/other")


def test_scandir_has_the_attributes(anywhere):
    process = anywhere
    process.mkdir("/d")
    process.write_bytes("/f", b"123")
    process.symlink("d", "/to-d")
    process.symlink("none", "/to-none")
    found = {entry.name: entry for entry in process.scandir("/")}
    assert set(found) == {"d", "f", "to-d", "to-none"}
    assert found["d"].is_dir() and not found["d"].is_file()
    assert found["f"].is_file() and found["f"].stat().st_size == 3
    assert found["f"].stat() == process.stat("/f")
    assert found["f"].inode() == process.stat("/f").st_ino
    assert found["to-d"].is_symlink() and found["to-d"].is_dir()
    assert not found["to-d"].is_dir(follow_symlinks=False)
    assert found["to-d"].stat() == process.stat("/d")
    assert found["to-d"].stat(follow_symlinks=False) == process.lstat("/to-d")
    with pytest.raises(FileNotFoundError):
        found["to-none"].stat()
    assert os.fspath(found["f"]) == "/f"
    with pytest.raises(NotADirectoryError):
        process.scandir("/f")
    process.chdir("/d")
    assert process.getcwd() == "/d" and process.scandir() == []


def test_permissions_are_those_of_the_user(volume):
    root = volume.process()
    root.mkdir("/private", 0o700)
    root.write_bytes("/private/f", b"")
    user = volume.process(uid=1000, gid=1000)
    assert (user.uid, user.gid) == (1000, 1000)
    with pytest.raises(PermissionError):
        user.stat("/private/f")
    with pytest.raises(PermissionError):
        user.chown("/private", 1000, -1)
    root.chown("/private", 1000, -1)
    assert user.stat("/private/f").st_uid == root.uid


def test_extended_attributes(process):
    process.touch("/f")
    process.setxattr("/f", "user.a", b"1")
    process.setxattr("/f", b"user.b", bytearray(b"2"))
    assert process.listxattr("/f") == ["user.a", "user.b"]
    assert process.getxattr("/f", "user.b") == b"2"
    process.removexattr("/f", "user.a")
    assert process.listxattr("/f") == ["user.b"]
    with pytest.raises(OSError) as failed:
        process.getxattr("/f", "user.a")
    assert failed.value.errno == errno.ENODATA


def test_room(process):
    room = process.statvfs("/")
    assert room.f_blocks * room.f_frsize == 256 << 20
    assert room.f_namemax == 255


def test_umask(process):
    assert process.umask(0o077) == 0o022
    process.touch("/f", 0o666)
    assert stat.S_IMODE(process.stat("/f").st_mode) == 0o600


def test_numbers_out_of_range_are_refused_as_by_os(process, tmp_path):
    """Each call on a file of the volume and on one of the system."""

    def outcome(module, path, fd, call):
        try:
            return call(module, path, fd)
        except (OSError, ValueError, OverflowError) as error:
            return type(error), getattr(error, "errno", None)

    local = tmp_path / "f"
    for number in [-1, -(1 << 63), 1 << 63, 1 << 64]:
        calls = [
            lambda m, path, fd: m.read(fd, number),
            lambda m, path, fd: m.pread(fd, number, 0),
            lambda m, path, fd: m.pread(fd, 4, number),
            lambda m, path, fd: m.pwrite(fd, b"x", number),
            lambda m, path, fd: m.ftruncate(fd, number),
            lambda m, path, fd: m.truncate(path, number),
            lambda m, path, fd: m.posix_fallocate(fd, number, 1),
            lambda m, path, fd: m.posix_fallocate(fd, 0, number),
            lambda m, path, fd: m.copy_file_range(fd, fd, number),
        ]
        for at, call in enumerate(calls):
            local.write_bytes(b"hello")
            process.write_bytes("/f", b"hello")
            ours, theirs = process.open("/f", os.O_RDWR), os.open(local, os.O_RDWR)
            said = outcome(process, "/f", ours, call), outcome(os, local, theirs, call)
            process.close(ours)
            os.close(theirs)
            assert said[0] == said[1], (number, at)
            assert process.read_bytes("/f") == local.read_bytes() == b"hello", (number, at)


def test_a_time_that_is_none_is_refused_as_by_os(process, tmp_path):
    local = tmp_path / "f"
    local.touch()
    process.touch("/f")
    process.utime("/f", ns=(5, 5))
    wrong = [
        {"times": (float("nan"), 1.0)},
        {"times": (1.0, float("inf"))},
        {"times": (-1e300, 1.0)},
        {"ns": (1, 10**28)},
        {"ns": (-(1 << 100), 1)},
        {"times": (1, 2), "ns": (1, 2)},
    ]
    for arguments in wrong:
        said = []
        for call, path in [(process.utime, "/f"), (os.utime, local)]:
            with pytest.raises((ValueError, OverflowError)) as failed:
                call(path, **arguments)
            said.append((type(failed.value)))
        assert said[0] == said[1], arguments
    assert process.stat("/f").st_mtime_ns == 5


def test_the_number_that_keeps_an_owner_is_no_owner(volume):
    process, nobody = volume.process(), (1 << 32) - 1
    process.touch("/f")
    for uid, gid in [(nobody, -1), (-1, nobody)]:
        with pytest.raises(OSError) as failed:
            process.chown("/f", uid, gid)
        assert failed.value.errno == errno.EINVAL
    found = process.stat("/f")
    assert nobody not in (found.st_uid, found.st_gid)
    for arguments in [{"uid": nobody}, {"gid": nobody}, {"uid": 1, "groups": [nobody]}]:
        with pytest.raises(OSError) as failed:
            volume.process(**arguments)
        assert failed.value.errno == errno.EINVAL

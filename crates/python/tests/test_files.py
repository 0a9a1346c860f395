"""File objects are those of io."""

import contextlib
import copy
import gc
import io
import os
import pickle

import pytest

import hearth_fs


def test_the_raw_file_is_a_raw_file_of_io(process):
    with process.file("/f", "w+b", buffering=0) as file:
        assert isinstance(file, io.RawIOBase) and isinstance(file, hearth_fs.File)
        assert file.readable() and file.writable() and file.seekable()
        assert file.write(b"hello") == 5
        assert file.seek(-2, os.SEEK_END) == 3
        assert file.read() == b"lo" and file.read() == b"" and file.read(5) == b""
        assert file.seek(0) == 0
        into = bytearray(10)
        assert file.readinto(into) == 5 and into[:5] == b"hello"
        assert file.truncate(2) == 2 and file.tell() == 5
        file.seek(0)
        assert file.readall() == b"he"
        assert process.fstat(file.descriptor).st_size == 2
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
    assert file.closed and process.open_fds() == []
    for call in [file.read, file.tell, lambda: file.write(b""), lambda: file.descriptor]:
        with pytest.raises(ValueError):
            call()


def test_modes_do_what_those_of_open_do(process, tmp_path):
    """Each mode on a file that is there, and on one that is not, against builtins.open."""

    def outcome(open_, path):
        def act(mode):
            try:
                with open_(path, mode) as file:
                    done = [file.tell()]
                    if file.writable():
                        done.append(file.write(b"xy" if "b" in mode else "xy"))
                    if file.readable():
                        file.seek(0)
                        done.append(file.read())
                    return done
            except (OSError, ValueError) as error:
                return type(error)

        return act

    for mode in ["r", "w", "a", "x", "r+", "w+", "a+", "x+", "rb", "wb", "ab", "xb", "r+b", "rb+"] + [
        "a+b", "rt", "", "rw", "z", "bb", "r++", "+",
    ]:
        for is_there in (True, False):
            local = tmp_path / "f"
            local.unlink(missing_ok=True)
            if process.exists("/f"):
                process.unlink("/f")
            if is_there:
                local.write_bytes(b"hello")
                process.write_bytes("/f", b"hello")
            theirs = outcome(open, local)(mode)
            ours = outcome(process.file, "/f")(mode)
            assert ours == theirs, (mode, is_there)
            if local.exists():
                assert process.read_bytes("/f") == local.read_bytes(), (mode, is_there)
            else:
                assert not process.exists("/f")
    assert process.open_fds() == []


def test_text_has_encoding_and_newlines(process):
    with process.file("/t", "w", encoding="latin-1", newline="\r\n") as file:
        file.write("ä\nö\n")
    assert process.read_bytes("/t") == b"\xe4\r\n\xf6\r\n"
    with process.file("/t", encoding="latin-1") as file:
        assert file.mode == "r" and list(file) == ["ä\n", "ö\n"]
    with pytest.raises(ValueError):
        process.file("/t", "rb", encoding="utf-8")
    with pytest.raises(ValueError):
        process.file("/t", "r", buffering=0)
    assert process.open_fds() == []


def test_appends_go_to_the_end_wherever_the_position_is(process):
    with process.file("/f", "ab", buffering=0) as one, process.file("/f", "ab", buffering=0) as two:
        one.write(b"1")
        two.write(b"2")
        one.write(b"3")
    assert process.read_bytes("/f") == b"123"


def test_buffers_are_written_at_the_close_and_a_full_volume_is_told():
    with hearth_fs.open("memory:?size=1MiB") as volume:
        process = volume.process()
        file = process.file("/f", "wb")
        file.write(b"abc")
        assert process.stat("/f").st_size == 0
        file.flush()
        assert process.stat("/f").st_size == 3
        with pytest.raises(OSError) as failed:
            file.write(b"x" * (2 << 20))
            file.flush()
        assert failed.value.strerror == "No space left on device"
        with contextlib.suppress(OSError):
            file.close()
        assert process.open_fds() == []


def test_a_file_that_is_collected_is_closed(process):
    process.file("/f", "wb", buffering=0)
    gc.collect()
    assert process.open_fds() == []


def test_a_large_file_is_read_whole(anywhere):
    data = os.urandom(3 << 20)
    with anywhere.file("/f", "wb") as file:
        file.write(data)
    with anywhere.file("/f", "rb") as file:
        assert file.read() == data
    with anywhere.file("/f", "rb") as file:
        assert b"".join(iter(lambda: file.read(100_001), b"")) == data


def test_modules_of_the_library_take_the_files(process):
    import json
    import zipfile

    with process.file("/z.zip", "w+b") as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a/b", b"contents")
    with process.file("/z.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a/b") == b"contents"
    with process.file("/j", "w") as file:
        json.dump({"a": [1, 2]}, file)
    with process.file("/j") as file:
        assert json.load(file) == {"a": [1, 2]}


def test_a_directory_is_no_file(process, tmp_path):
    process.mkdir("/d")
    for mode in ["r", "rb", "w", "r+", "a", "x", "rbt", "rtb"]:
        said = []
        for open_, path in [(open, tmp_path), (process.file, "/d")]:
            with pytest.raises((OSError, ValueError)) as failed:
                open_(path, mode)
            said.append((type(failed.value), str(failed.value).replace(str(path), "")))
        assert said[0] == said[1], mode
    assert process.open_fds() == []


def test_a_raw_file_is_not_copied_since_the_copy_would_close_it(process):
    process.write_bytes("/f", b"hello")
    with process.file("/f", "rb", buffering=0) as file:
        for copied in [copy.copy, copy.deepcopy, pickle.dumps]:
            with pytest.raises(TypeError, match="cannot pickle 'File' object"):
                copied(file)
        gc.collect()
        assert file.read() == b"hello"

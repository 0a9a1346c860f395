"""A transaction of the filesystem for fsspec loses nothing and leaves nothing behind."""

import errno
import gzip
import threading

import fsspec
import pytest

import hearth_fs


@pytest.fixture
def fs(volume):
    return fsspec.filesystem("hearth", volume=volume)


class Aborted(Exception):
    pass


def names(fs):
    return [name.rsplit("/", 1)[-1] for name in fs.find("/", withdirs=True) if name != "/"]


def test_every_mode_that_writes_is_staged_and_committed(fs):
    fs.pipe({"/log": b"one\n", "/table": b"abcdef", "/old": b"old"})
    with fs.transaction:
        with fs.open("/log", "ab") as file:
            file.write(b"two\n")
        with fs.open("/table", "r+b") as file:
            file.seek(2)
            file.write(b"XY")
            file.seek(0)
            assert file.read() == b"abXYef"
        for path, mode in [("/old", "wb"), ("/new", "xb"), ("/made", "ab"), ("/both", "w+b")]:
            with fs.open(path, mode) as file:
                file.write(mode.encode())
        assert fs.cat("/log") == b"one\n" and fs.cat("/table") == b"abcdef"
        assert fs.cat("/old") == b"old" and not fs.exists("/new")
    assert fs.cat("/log") == b"one\ntwo\n" and fs.cat("/table") == b"abXYef"
    assert [fs.cat(path) for path in ["/old", "/new", "/made", "/both"]] == [
        b"wb", b"xb", b"ab", b"w+b",
    ]
    assert names(fs) == ["both", "log", "made", "new", "old", "table"]


def test_an_aborted_transaction_has_changed_nothing(fs):
    fs.pipe({"/log": b"one\n", "/table": b"abcdef", "/old": b"old", "/full": b"full"})
    with pytest.raises(Aborted), fs.transaction:
        with fs.open("/log", "ab") as file:
            file.write(b"two\n")
        with fs.open("/table", "r+b") as file:
            file.write(b"XY")
        fs.pipe_file("/old", b"new")
        fs.pipe("/new", b"new")
        fs.pipe({"/old": b"of many", "/d/new": b"new"})
        fs.pipe_file("/made", b"new", mode="create")
        fs.touch("/full")
        fs.touch("/touched", truncate=False)
        fs.write_text("/old", "text")
        raise Aborted
    assert fs.cat(["/log", "/table", "/old", "/full"]) == {
        "/log": b"one\n", "/table": b"abcdef", "/old": b"old", "/full": b"full",
    }
    assert names(fs) == ["d", "full", "log", "old", "table"], "directories are not taken back"
    fs.pipe("/after", b"1")
    with fs.open("/later", "wb") as file:
        file.write(b"2")
    assert fs.cat("/after") == b"1" and fs.cat("/later") == b"2"


def test_whole_files_that_a_transaction_writes_are_there_at_its_end(fs):
    fs.pipe({"/full": b"full", "/kept": b"kept"})
    with fs.transaction:
        fs.pipe_file("/a", b"1")
        fs.pipe({"/b": b"2", "/d/c": b"3"})
        fs.touch("/full")
        fs.touch("/kept", truncate=False)
        assert not fs.exists("/a") and fs.cat("/full") == b"full"
    found = fs.cat(["/a", "/b", "/d/c", "/full", "/kept"])
    assert list(found.values()) == [b"1", b"2", b"3", b"", b"kept"]


def test_a_commit_that_fails_is_raised_after_the_others_and_the_next_transaction_works(fs):
    with pytest.raises(FileExistsError) as failed, fs.transaction:
        for path, mode in [("/a", "wb"), ("/x", "xb"), ("/d", "wb"), ("/z", "wb")]:
            with fs.open(path, mode) as file:
                file.write(path.encode())
        # Meanwhile somebody else takes two of the names.
        fs.process.write_bytes("/x", b"theirs")
        fs.process.mkdir("/d")
    assert failed.value.filename2 == "/x"
    assert ["/d: " in note and "directory" in note for note in failed.value.__notes__] == [True]
    assert fs.cat(["/a", "/x", "/z"]) == {"/a": b"/a", "/x": b"theirs", "/z": b"/z"}
    assert names(fs) == ["a", "d", "x", "z"], "no part is left"
    with fs.open("/now", "wb") as file:
        file.write(b"1")
    assert fs.cat("/now") == b"1", "the transaction has ended"
    with fs.transaction:
        fs.pipe("/later", b"2")
    assert fs.cat("/later") == b"2"


def test_what_an_open_refuses_is_refused_at_the_open_in_a_transaction(fs):
    fs.pipe({"/x": b"1", "/d/f": b"2"})
    user = fsspec.filesystem("hearth", volume=fs.volume, uid=1000, gid=1000)
    for mine, path, mode, refusal in [
        (fs, "/x", "xb", FileExistsError),
        (fs, "/d", "wb", IsADirectoryError),
        (fs, "/d", "ab", IsADirectoryError),
        (fs, "/none", "r+b", FileNotFoundError),
        (user, "/x", "wb", PermissionError),
        (fs, "/x", "zb", ValueError),
    ]:
        with mine.transaction:
            with pytest.raises(refusal):
                mine.open(path, mode)
    assert names(fs) == ["d", "f", "x"] and fs.cat("/x") == b"1"
    assert fs.process.open_fds() == []


def test_what_cannot_be_written_is_removed_all_the_same():
    with hearth_fs.open("memory:?size=1MiB") as volume:
        fs = fsspec.filesystem("hearth", volume=volume)
        with pytest.raises(Aborted), fs.transaction:
            small = fs.open("/small", "wb")
            small.write(b"1")
            large = fs.open("/large", "wb", block_size=4 << 20)
            large.write(bytes(2 << 20))
            raise Aborted
        assert names(fs) == [] and fs.process.open_fds() == []
        with pytest.raises(OSError) as failed, fs.transaction:
            fs.open("/large", "wb", block_size=4 << 20).write(bytes(2 << 20))
            fs.pipe("/small", b"1")
        assert failed.value.errno == errno.ENOSPC
        assert names(fs) == ["small"] and fs.process.open_fds() == []


def test_half_a_file_is_not_committed_though_its_writer_says_nothing():
    with hearth_fs.open("memory:?size=1MiB") as volume:
        fs = fsspec.filesystem("hearth", volume=volume)
        fs.pipe("/f", b"whole")
        with pytest.raises(OSError) as failed, fs.transaction:
            file = fs.open("/f", "wb")
            try:
                file.write(b"half")
                file.write(bytes(2 << 20))
                file.close()
            except OSError:
                pass
        assert failed.value.errno == errno.ENOSPC
        assert fs.cat("/f") == b"whole" and names(fs) == ["f"]


def test_all_that_is_opened_at_one_path_is_one_file(fs):
    fs.pipe("/log", b"0")
    fs.symlink("log", "/link")
    with fs.transaction:
        for path, mode, data in [
            ("/f", "wb", b"1"), ("/f", "ab", b"2"), ("/log", "ab", b"1"), ("/link", "ab", b"2"),
        ]:
            with fs.open(path, mode) as file:
                file.write(data)
        with pytest.raises(FileExistsError):
            fs.open("/f", "xb")
        fs.pipe("/g", b"longer")
        fs.pipe("/g", b"g")
    assert fs.cat(["/f", "/log", "/g"]) == {"/f": b"12", "/log": b"012", "/g": b"g"}
    assert fs.islink("/link") and fs.cat("/link") == b"012"


def test_files_that_are_open_at_the_end_are_written_whole(fs):
    with fs.transaction:
        files = [
            fs.open("/binary", "wb"),
            fs.open("/text", "w", encoding="utf-8"),
            fs.open("/a.gz", "wb", compression="gzip"),
            fs.open("/b.gz", "wt", compression="infer"),
        ]
        for file, data in zip(files, [b"bytes", "text", b"packed", "packed text"]):
            file.write(data)
    assert fs.cat("/binary") == b"bytes" and fs.cat("/text") == b"text"
    assert gzip.decompress(fs.cat("/a.gz")) == b"packed"
    assert gzip.decompress(fs.cat("/b.gz")) == b"packed text"
    with pytest.raises(Aborted), fs.transaction:
        packed = fs.open("/c.gz", "wt", compression="infer")
        packed.write("packed text")
        raise Aborted
    assert names(fs) == ["a.gz", "b.gz", "binary", "text"] and fs.process.open_fds() == []


def test_a_file_that_is_replaced_gives_its_owner_and_its_mode(fs):
    for path, mode in [("/a", "ab"), ("/w", "wb")]:
        fs.pipe(path, b"secret")
        fs.process.chown(path, 1000, 1001)
        fs.chmod(path, 0o600)
        with fs.transaction, fs.open(path, mode) as file:
            file.write(b"1")
        found = fs.process.stat(path)
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1000, 1001, 0o600)


def test_a_transaction_inside_another_is_refused(fs):
    with pytest.raises(RuntimeError), fs.transaction:
        fs.pipe("/a", b"1")
        with fs.transaction:
            pass
    assert names(fs) == []
    fs.start_transaction()
    fs.pipe("/a", b"1")
    with pytest.raises(RuntimeError):
        fs.start_transaction()
    fs.end_transaction()
    assert fs.cat("/a") == b"1"
    with fs.start_transaction():
        fs.pipe("/b", b"2")
    assert fs.cat("/b") == b"2"


def test_what_is_written_at_once_in_a_transaction_stays(fs):
    with pytest.raises(Aborted), fs.transaction:
        with fs.open("/now", "wb", autocommit=True) as file:
            file.write(b"1")
        raise Aborted
    assert fs.cat("/now") == b"1"


def test_a_file_without_autocommit_can_be_committed_and_discarded_in_every_mode(fs):
    for mode in ["wb", "ab", "xb", "r+b", "w+b", "a+b", "x+b"]:
        for is_wanted in (True, False):
            if fs.exists("/f"):
                fs.rm("/f")
            if "x" not in mode:
                fs.pipe("/f", b"old")
            file = fs.open("/f", mode, autocommit=False)
            file.write(b"new")
            if is_wanted:
                file.commit()
                assert fs.cat("/f").endswith(b"new"), mode
            else:
                file.discard()
                assert not fs.exists("/f") if "x" in mode else fs.cat("/f") == b"old", mode
            assert len(names(fs)) <= 1 and fs.process.open_fds() == []


def test_instances_of_other_threads_are_in_no_transaction(volume):
    fs = fsspec.filesystem("hearth", volume=volume)
    with pytest.raises(Aborted), fs.transaction:
        thread = threading.Thread(
            target=lambda: fsspec.filesystem("hearth", volume=volume).pipe("/theirs", b"1")
        )
        thread.start()
        thread.join()
        raise Aborted
    assert fs.cat("/theirs") == b"1"

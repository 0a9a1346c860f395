"""Many files in one call."""

import errno
import os
import threading

import pytest


def test_results_stand_in_the_order_of_the_paths_and_errors_in_their_place(anywhere):
    process = anywhere
    names = [f"/f{n}" for n in range(300)]
    assert process.write_many((name, name.encode()) for name in names) == [
        len(name) for name in names
    ]
    process.mkdir("/d")
    found = process.read_many([*names, "/none", "/d"])
    assert found[:300] == [name.encode() for name in names]
    assert isinstance(found[300], FileNotFoundError) and found[300].filename == "/none"
    assert isinstance(found[301], IsADirectoryError)
    stats = process.stat_many(names + ["/none"])
    assert [s.st_size for s in stats[:-1]] == [len(name) for name in names]
    assert isinstance(stats[-1], FileNotFoundError)
    process.symlink("none", "/link")
    assert isinstance(process.stat_many(["/link"])[0], FileNotFoundError)
    assert process.stat_many(["/link"], follow_symlinks=False)[0] == process.lstat("/link")
    assert process.unlink_many(names) == [None] * 300
    assert isinstance(process.unlink_many(["/d"])[0], IsADirectoryError)
    written = process.write_many([("/no/f", b""), ("/g", bytearray(b"12"))])
    assert isinstance(written[0], FileNotFoundError) and written[1] == 2


def test_a_file_that_no_memory_can_hold_is_an_error_of_its_own(anywhere):
    """A sparse file is as large as its owner says: an allocation that fails ended the program."""
    process = anywhere
    process.write_many([("/a", b"1"), ("/sparse", b""), ("/b", b"2")])
    process.truncate("/sparse", 1 << 50)
    one, sparse, two = process.read_many(["/a", "/sparse", "/b"])
    assert (one, two) == (b"1", b"2")
    assert isinstance(sparse, OSError) and sparse.errno == errno.ENOMEM
    assert sparse.filename == "/sparse"
    with pytest.raises(MemoryError):
        process.read_bytes("/sparse")
    for buffering in (0, -1):
        with process.file("/sparse", "rb", buffering) as file, pytest.raises(MemoryError):
            file.read()
    assert process.open_fds() == []


def test_large_files_are_read_whole(process):
    large = [os.urandom(size) for size in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_000]]
    names = [f"/{n}" for n in range(len(large))]
    process.write_many(zip(names, map(bytearray, large)))
    assert process.read_many(names) == large


def test_empty_batches(process):
    assert process.stat_many([]) == process.read_many([]) == process.write_many([]) == []


def test_bad_arguments_are_refused_before_anything_is_done(process):
    with pytest.raises(TypeError):
        process.write_many([("/a", b""), ("/b", "text")])
    with pytest.raises(TypeError):
        process.stat_many(["/a", 5])
    with pytest.raises(ValueError):
        process.unlink_many(["/a\0"])
    assert process.listdir("/") == []


def test_threads_share_a_process(process):
    def work(mine):
        for turn in range(50):
            process.write_many([(f"/{mine}-{n}", b"x" * 4096) for n in range(20)])
            assert process.unlink_many([f"/{mine}-{n}" for n in range(20)]) == [None] * 20

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.listdir("/") == []

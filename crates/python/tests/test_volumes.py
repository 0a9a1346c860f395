"""Who owns a volume, and when it ends."""

import errno
import gc
import gzip
import os
import threading

import pytest
from programs import run

import hearth_fs


@pytest.fixture
def store(tmp_path):
    return f"store:{tmp_path / 'volume'}"


# Opens a store and prints what the file /f holds, or the errno of the refusal.
READ = """
import sys, hearth_fs
try:
    with hearth_fs.open(sys.argv[1]) as volume:
        print(volume.process().read_bytes("/f").decode())
except OSError as error:
    print(error.errno)
"""


def test_a_store_is_open_once_in_a_process(store):
    one = hearth_fs.open(store, create=True)
    two = hearth_fs.open(store)
    one.process().write_bytes("/f", b"of both")
    assert two.process().read_bytes("/f") == b"of both"
    one.close()
    assert one.closed and not two.closed
    assert two.process().read_bytes("/f") == b"of both", "the other goes on"
    assert run(READ, store) == f"{errno.EBUSY}\n", "and nobody else has it"
    two.close()
    assert run(READ, store) == "of both\n"


def test_another_name_of_the_directory_is_the_same_store(store, tmp_path):
    with hearth_fs.open(store, create=True) as one:
        os.symlink(tmp_path / "volume", tmp_path / "link")
        one.process().touch("/f")
        with hearth_fs.open(f"store:{tmp_path}/./link") as two:
            assert two.process().exists("/f")


def test_other_options_are_refused_while_it_is_open(store):
    with hearth_fs.open(store, create=True):
        with pytest.raises(OSError) as failed:
            hearth_fs.open(store, read_only=True)
        assert failed.value.errno == errno.EBUSY and failed.value.filename == store
        assert "other options" in failed.value.strerror
        with hearth_fs.open(store, create=True):
            pass
    with hearth_fs.open(store, read_only=True) as volume:
        assert volume.read_only
        with pytest.raises(OSError) as failed:
            volume.process().touch("/f")
        assert failed.value.errno == errno.EROFS


def test_each_volume_in_memory_is_another():
    with hearth_fs.open("memory:") as one, hearth_fs.open("memory:") as two:
        one.process().touch("/f")
        assert not two.process().exists("/f")


def test_a_process_keeps_its_volume_and_the_last_use_that_is_collected_closes_it(store):
    process = hearth_fs.open(store, create=True).process()
    gc.collect()
    process.write_bytes("/f", b"kept")
    file = process.file("/f", "rb")
    del process
    gc.collect()
    assert file.read() == b"kept"
    file.close()
    del file
    gc.collect()
    assert run(READ, store) == "kept\n"


def test_after_the_close_every_call_says_so(store):
    volume = hearth_fs.open(store, create=True)
    process = volume.process()
    fd = process.open("/f", os.O_CREAT | os.O_RDWR)
    file = process.file("/f", "wb")
    volume.close()
    volume.close()
    file.write(b"not written")
    calls = [
        lambda: process.stat("/f"),
        lambda: process.read(fd, 1),
        lambda: process.stat_many(["/f"]),
        lambda: process.scandir("/"),
        lambda: process.flock(fd, 2),
        lambda: volume.process(),
        lambda: volume.sync(),
        lambda: volume.stats(),
        lambda: volume.quota.report(),
        lambda: volume.heat.top_files(),
        lambda: volume.mount("/mnt"),
        lambda: file.flush(),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(OSError) as failed:
            call()
        assert failed.value.errno == errno.EBADF, number
        assert "closed" in failed.value.strerror
    with pytest.raises(OSError):
        file.close()


def test_what_was_written_is_there_after_an_exit_without_a_close(store):
    write = """
import sys, hearth_fs
process = hearth_fs.open(sys.argv[1], create=True).process()
process.write_bytes("/f", b"at the exit")
"""
    run(write, store)
    assert run(READ, store) == "at the exit\n"


# File objects of each kind that nobody closes.
UNCLOSED = """
import sys, fsspec, hearth_fs
volume = hearth_fs.open(sys.argv[1], create=True)
process = volume.process()
text = process.file("/text", "w", encoding="utf-8")
text.write("text")
binary = process.file("/binary", "wb")
binary.write(b"binary")
both = process.file("/both", "w+b")
both.write(b"both")
fs = fsspec.filesystem("hearth", volume=volume)
by_url = fs.open("/fs/text", "w")
by_url.write("text")
packed = fs.open("/fs/packed", "wt", compression="gzip")
packed.write("packed")
"""


@pytest.mark.parametrize("end", ["", "volume.close()", "with volume: pass", "raise SystemExit"])
def test_what_file_objects_hold_is_written_before_the_volume_ends(store, end):
    run(UNCLOSED + end, store)
    with hearth_fs.open(store) as volume:
        found = volume.process().read_many(["/text", "/binary", "/both", "/fs/text"])
        assert found == [b"text", b"binary", b"both", b"text"]
        assert gzip.decompress(volume.process().read_bytes("/fs/packed")) == b"packed"


def test_the_end_of_one_use_leaves_the_file_objects_of_the_other_alone(store):
    with hearth_fs.open(store, create=True) as one, hearth_fs.open(store) as two:
        ours, theirs = one.process().file("/ours", "w"), two.process().file("/theirs", "w")
        ours.write("1")
        theirs.write("2")
        one.close()
        assert [stat.st_size for stat in two.process().stat_many(["/ours", "/theirs"])] == [1, 0]
        theirs.close()
        assert two.process().read_bytes("/theirs") == b"2"
    with pytest.raises(OSError):
        ours.close()


def test_what_cannot_be_written_is_told_and_the_volume_ends_all_the_same():
    volume = hearth_fs.open("memory:?size=1MiB")
    large = volume.process().file("/large", "w", buffering=4 << 20)
    large.write("x" * (2 << 20))
    small = volume.process().file("/small", "w")
    small.write("x")
    with pytest.raises(OSError) as failed:
        volume.close()
    assert failed.value.errno == errno.ENOSPC and volume.closed
    assert ["'/large'" in note for note in failed.value.__notes__] == [True]
    for file in (large, small):
        with pytest.raises(OSError):
            file.close()


def test_what_cannot_be_written_at_the_exit_is_reported(tmp_path):
    program = """
import sys, hearth_fs
sys.unraisablehook = lambda failed: print(failed.object.name, failed.exc_value.strerror)
process = hearth_fs.open("memory:?size=1MiB").process()
large = process.file("/large", "w", buffering=4 << 20)
large.write("x" * (2 << 20))
"""
    assert run(program) == "/large No space left on device\n"


def test_what_was_synced_is_there_after_a_kill(store):
    write = """
import os, signal, sys, hearth_fs
process = hearth_fs.open(sys.argv[1], create=True).process()
fd = process.open("/f", os.O_CREAT | os.O_WRONLY)
process.write(fd, b"synced")
process.fsync(fd)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run(write, store, code=-9)
    assert run(READ, store) == "synced\n"


def test_threads_open_and_close_one_store(store):
    hearth_fs.open(store, create=True).close()
    failed = []

    def work(mine):
        try:
            for turn in range(15):
                with hearth_fs.open(store) as volume:
                    volume.process().write_bytes(f"/{mine}", str(turn).encode())
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with hearth_fs.open(store) as volume:
        assert volume.process().read_many(["/0", "/1", "/2"]) == [b"14"] * 3


@pytest.mark.parametrize(
    ("source", "number", "said"),
    [
        ("nonsense", errno.EINVAL, "unknown"),
        ("store:", errno.EINVAL, "names no directory"),
        ("store:/none/such", errno.EINVAL, "does not exist"),
        ("memory:?size=oops", errno.EINVAL, "size=oops"),
        ("memory:?colour=red", errno.EINVAL, "unknown option 'colour'"),
        ("memory:?compress=zstd", errno.EINVAL, "store:DIR"),
        ("host:/tmp", errno.EOPNOTSUPP, "mounted"),
        ("s3://bucket", errno.EINVAL, "object storage"),
    ],
)
def test_a_source_that_cannot_be_opened_is_named_with_the_reason(source, number, said):
    with pytest.raises(OSError) as failed:
        hearth_fs.open(source)
    assert failed.value.errno == number and failed.value.filename == source
    assert said in failed.value.strerror


def test_a_directory_with_other_things_does_not_become_a_store(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(OSError):
        hearth_fs.open(f"store:{tmp_path}", create=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_statistics_count_calls(volume):
    process = volume.process()
    process.mkdir("/d")
    with pytest.raises(FileExistsError):
        process.mkdir("/d")
    stats = volume.stats()
    assert stats["calls"]["mkdirat"] == {"count": 2, "errors": 1}
    assert stats["gauges"]["inodes"] >= 2
    assert "rename" not in stats["operations"]


# Opens a store by a path from the working directory, leaves that, and writes.
MOVED = """
import os, sys, hearth_fs
os.chdir(sys.argv[1])
with hearth_fs.open("store:volume", create=True) as volume:
    os.chdir(sys.argv[2])
    volume.process().write_bytes("/f", b"x" * 300_000)
    volume.sync()
with hearth_fs.open(f"store:{sys.argv[1]}/volume") as volume:
    print(len(volume.process().read_bytes("/f")))
"""


def test_a_store_stays_where_it_was_opened_when_the_program_goes_elsewhere(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run(MOVED, tmp_path, elsewhere) == "300000\n"
    assert list(elsewhere.iterdir()) == []


# A thread waits for a lock whose holder is gone with the volume.
WAITS = """
import errno, fcntl, os, threading, hearth_fs
said = []
with hearth_fs.open("memory:") as volume:
    holder, other = volume.process(), volume.process()
    flags = os.O_CREAT | os.O_RDWR
    holder.flock(holder.open("/lock", flags), fcntl.LOCK_EX)
    fd = other.open("/lock", flags)
    begun = threading.Event()
    def wait():
        begun.set()
        try:
            other.flock(fd, fcntl.LOCK_EX)
        except OSError as error:
            said.append(error.errno)
    waiter = threading.Thread(target=wait)
    waiter.start()
    begun.wait()
waiter.join()
print(said == [errno.EBADF])
"""


def test_the_close_of_a_volume_ends_the_wait_for_a_lock():
    assert run(WAITS) == "True\n"


# A second interpreter in the process uses the package and ends, beside a store that is open.
SECOND = """
import sys, hearth_fs
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    second = interpreters.create("legacy")
else:
    import _xxsubinterpreters as interpreters
    second = interpreters.create(isolated=False)
source, own = sys.argv[1:]
with hearth_fs.open(source, create=True) as volume:
    interpreters.run_string(second, f'''
import hearth_fs
shared = hearth_fs.open({source!r})
own = hearth_fs.open({own!r}, create=True)
file = own.process().file("/f", "w")
file.write("of the second")
''')
    interpreters.destroy(second)
    volume.process().write_bytes("/f", b"x" * 300_000)
    volume.sync()
    with hearth_fs.open(own) as volume:
        print(volume.process().read_bytes("/f").decode())
with hearth_fs.open(source) as volume:
    print(len(volume.process().read_bytes("/f")))
"""


def test_the_end_of_a_second_interpreter_closes_what_it_has_opened_alone(store):
    assert run(SECOND, store, store + "-own") == "of the second\n300000\n"

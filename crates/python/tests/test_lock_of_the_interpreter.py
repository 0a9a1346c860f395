"""Calls that wait or move much let other threads of Python run."""

import fcntl
import os
import signal
import sys
import threading
import time

import pytest

import hearth_fs


def test_a_wait_for_a_file_lock_lets_others_run(process):
    process.touch("/f")
    one = process.open("/f", os.O_RDWR)
    two = process.open("/f", os.O_RDWR)
    process.flock(one, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        process.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
    locked = threading.Event()

    def wait():
        process.flock(two, fcntl.LOCK_EX)
        locked.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not locked.wait(0.2)
    process.flock(one, fcntl.LOCK_UN)
    assert locked.wait(30)
    thread.join()


def test_a_signal_ends_a_wait_for_a_file_lock(process):
    process.touch("/f")
    one = process.open("/f", os.O_RDWR)
    two = process.open("/f", os.O_RDWR)
    process.flock(one, fcntl.LOCK_EX)
    # It is ignored in what a shell runs in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        process.flock(two, fcntl.LOCK_EX)
    timer.join()
    signal.signal(signal.SIGINT, before)
    process.flock(one, fcntl.LOCK_UN)
    # Nothing was left waiting.
    process.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)


def progress(call):
    """How often another thread ran in Python while `call` did."""
    count, end = 0, threading.Event()

    def work():
        call()
        end.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not end.is_set():
        count += 1
        time.sleep(0)
    thread.join()
    return count


def test_large_moves_and_batches_let_others_run(process):
    data = bytes(64 << 20)
    names = [f"/{n}" for n in range(20_000)]
    fd = process.open("/large", os.O_CREAT | os.O_RDWR)
    target = bytearray(16 << 20)
    # One switch would be the interpreter's own, each 5 ms: these run many times in one call.
    for call in [
        lambda: process.write_bytes("/large", data),
        lambda: process.read_bytes("/large"),
        lambda: process.pread(fd, 64 << 20, 0),
        lambda: process.readinto(fd, target, 0),
        lambda: process.write_many([(name, b"x") for name in names]),
        lambda: process.stat_many(names),
        lambda: process.copy("/large", "/copy"),
    ]:
        # On a busy machine the other thread may be without a core for as long as one call takes.
        assert max(progress(call) for _ in range(3)) > 3


@pytest.mark.parametrize("count", [40, 100])
def test_short_batches_let_others_run_where_the_interpreter_would_not(process, count):
    names = [f"/{n}" for n in range(count)]
    process.write_many([(name, b"x") for name in names])
    before = sys.getswitchinterval()
    # Longer than the test takes: the interpreter itself makes nobody wait.
    sys.setswitchinterval(60)
    try:
        assert progress(lambda: [process.stat_many(names) for _ in range(10_000)]) > 3
    finally:
        sys.setswitchinterval(before)


def test_a_thread_that_has_the_lock_and_computes_does_not_stop_batches(process):
    names = [f"/{n}" for n in range(100)]
    process.write_many([(name, b"x") for name in names])
    end, done = threading.Event(), threading.Event()

    def compute():
        while not end.is_set():
            # It takes the lock again while the other is in its call, and keeps it for long.
            process.stat_many(names)
            sum(range(300_000))

    def batches():
        for _ in range(50):
            assert len(process.stat_many(names)) == 100
        done.set()

    threads = [threading.Thread(target=work, daemon=True) for work in (compute, batches)]
    for thread in threads:
        thread.start()
    assert done.wait(60)
    end.set()
    for thread in threads:
        thread.join()


def test_a_commit_lets_others_run(tmp_path):
    with hearth_fs.open(f"store:{tmp_path / 'v'}", create=True) as volume:
        process = volume.process()
        process.write_bytes("/f", os.urandom(16 << 20))
        assert progress(volume.sync) > 3


def test_two_threads_read_one_file_while_a_third_writes_it(process):
    old, new = b"a" * 100_000, b"b" * 100_000
    process.write_bytes("/f", old)
    fd = process.open("/f", os.O_RDWR)
    end, seen = threading.Event(), set()

    def read():
        while not end.is_set():
            seen.update(process.pread(fd, 4096, 4096))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(50):
        process.pwrite(fd, new if turn % 2 else old, 0)
    end.set()
    for thread in threads:
        thread.join()
    assert seen <= {ord("a"), ord("b")}

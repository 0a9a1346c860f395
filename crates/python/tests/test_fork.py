"""What a fork may not do is refused with the reason, and hurts nobody."""

from programs import run

FORK = """
import errno, os, sys, hearth_fs
volume = hearth_fs.open(sys.argv[1], create=True)
process = volume.process()
fd = process.open("/f", os.O_CREAT | os.O_RDWR)
process.write(fd, b"of the parent")
def refused(call):
    try:
        call()
    except OSError as error:
        return error.errno == errno.ESTALE and "spawn" in error.strerror
    return False
"""


def test_every_call_in_the_child_is_refused_and_the_parent_goes_on(tmp_path):
    program = FORK + """
child = os.fork()
if child == 0:
    calls = [
        lambda: process.stat("/f"),
        lambda: process.read(fd, 1),
        lambda: process.stat_many(["/f"]),
        lambda: process.file("/f"),
        lambda: process.flock(fd, 2),
        lambda: volume.close(),
        lambda: volume.sync(),
        lambda: volume.mount("/mnt"),
        lambda: volume.process(),
        lambda: volume.quota.report(),
        lambda: hearth_fs.open("memory:"),
        lambda: hearth_fs.open(sys.argv[1]),
    ]
    # Its end is a usual one, with collections and handlers.
    del volume
    sys.exit(sum(not refused(call) for call in calls[:5]) + sum(not refused(c) for c in calls[10:]))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
process.write(fd, b", still")
volume.close()
with hearth_fs.open(sys.argv[1]) as volume:
    print(volume.process().read_bytes("/f").decode())
"""
    assert run(program, f"store:{tmp_path / 'v'}") == "of the parent, still\n"


def test_objects_that_a_child_collects_end_nothing(tmp_path):
    program = FORK + """
import gc
child = os.fork()
if child == 0:
    del volume, process
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
process.write(fd, b", still")
process.fsync(fd)
print(process.read_bytes("/f").decode())
"""
    assert run(program, f"store:{tmp_path / 'v'}") == "of the parent, still\n"


def test_a_fork_that_runs_no_handlers_of_python_ends_nothing_either(tmp_path):
    program = FORK + """
import ctypes, gc
libc = ctypes.CDLL(None)
child = libc.fork()
if child == 0:
    del volume, process
    gc.collect()
    os._exit(0 if refused(lambda: hearth_fs.open("memory:")) else 1)
assert os.waitpid(child, 0)[1] == 0
process.write(fd, b", still")
volume.close()
with hearth_fs.open(sys.argv[1]) as volume:
    print(volume.process().read_bytes("/f").decode())
"""
    assert run(program, f"store:{tmp_path / 'v'}") == "of the parent, still\n"


def test_the_parent_can_open_its_store_again_while_the_child_lives(tmp_path):
    program = FORK + """
import signal
child = os.fork()
if child == 0:
    signal.pause()
try:
    volume.close()
    with hearth_fs.open(sys.argv[1]) as volume:
        print(volume.process().read_bytes("/f").decode())
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
    assert run(program, f"store:{tmp_path / 'v'}") == "of the parent\n"


def test_a_fork_before_the_first_volume_may_open_its_own():
    program = """
import os, hearth_fs
child = os.fork()
with hearth_fs.open("memory:") as volume:
    volume.process().touch("/f")
    assert volume.process().listdir("/") == ["f"]
if child:
    print(os.waitpid(child, 0)[1])
"""
    assert run(program) == "0\n"


def test_a_pool_of_spawned_processes_works_beside_an_open_volume(tmp_path):
    program = """
import sys, hearth_fs, multiprocessing
if __name__ == "__main__":
    volume = hearth_fs.open("memory:")
    pool = multiprocessing.get_context("spawn").Pool(1)
    print(pool.apply(abs, (-1,)))
    pool.close()
    pool.join()
"""
    assert run(program) == "1\n"

"""A mount of the same volume, served by threads of this process."""

import errno
import os
import subprocess
import threading
import time

import pytest
from programs import run

import hearth_fs


def umount(place):
    """Ends a mount from outside. Others look at all mounts, as `hearth list` and the metrics of all
    mounts do: umount(8) finds one busy while they read its control files."""
    for _ in range(100):
        done = subprocess.run(["umount", place], stderr=subprocess.PIPE, text=True)
        if "busy" not in done.stderr:
            break
        time.sleep(0.1)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "mnt"
    place.mkdir()
    yield place
    assert not os.path.ismount(place)


def test_the_volume_and_its_mount_show_each_other_what_changes(volume, place):
    process = volume.process()
    process.write_bytes("/ours", b"1")
    with volume.mount(place) as mount:
        assert mount.path == str(place) and mount.transport in ("dev", "uring")
        assert (place / "ours").read_bytes() == b"1"
        (place / "theirs").write_text("by the kernel")
        assert process.read_bytes("/theirs") == b"by the kernel"
        process.write_bytes("/ours", b"changed")
        assert subprocess.check_output(["cat", place / "ours"]) == b"changed"
        process.unlink("/ours")
        assert os.listdir(place) == ["theirs"]
        version = process.read_bytes("/.hearth/version")
        assert (place / ".hearth/version").read_bytes() == version
        assert version.startswith(b"hearth ") and process.stat("/.hearth/version").st_size == 0
        assert process.read_bytes("/.hearth/version", 1, 4) == version[1:4]
        with process.file("/.hearth/version") as file:
            assert file.read().encode() == version
        assert volume.stats()["operations"]["lookup"]["count"] > 0
    assert os.listdir(place) == []
    assert process.read_bytes("/theirs") == b"by the kernel"


def test_threads_change_both_sides_and_nobody_waits_for_ever(volume, place):
    """Calls that keep the interpreter's lock and wait for the kernel would stop here."""
    process = volume.process()
    with volume.mount(place):

        def ours(mine):
            for turn in range(100):
                process.write_bytes(f"/{mine}", b"x")
                process.rename(f"/{mine}", f"/{mine}-moved")
                process.unlink(f"/{mine}-moved")

        def theirs(mine):
            for turn in range(100):
                (place / f"{mine}").write_bytes(b"x")
                os.listdir(place)
                (place / f"{mine}").unlink()

        threads = [threading.Thread(target=ours, args=(f"o{n}",)) for n in range(2)]
        threads += [threading.Thread(target=theirs, args=(f"t{n}",)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert process.listdir("/") == []


def test_the_close_of_the_volume_unmounts(place):
    volume = hearth_fs.open("memory:")
    mount = volume.mount(place)
    assert os.path.ismount(place)
    volume.close()
    assert not os.path.ismount(place)
    mount.unmount()


def test_the_exit_of_the_program_unmounts(place):
    run("import sys, hearth_fs; hearth_fs.open('memory:').mount(sys.argv[1])", place)


def test_a_mount_that_somebody_else_took_away(volume, place):
    mount = volume.mount(place)
    umount(place)
    mount.unmount()
    volume.process().touch("/f")


def test_a_volume_is_mounted_once_at_a_time(tmp_path):
    """Two mounts of one volume would not see each other's changes."""
    places = [tmp_path / name for name in "ab"]
    for each in places:
        each.mkdir()
    a, b = places
    store = f"store:{tmp_path / 'volume'}"
    with hearth_fs.open(store, create=True) as volume, hearth_fs.open(store) as same:
        with volume.mount(a):
            for mine in (volume, same):
                with pytest.raises(OSError) as failed:
                    mine.mount(b)
                assert failed.value.errno == errno.EBUSY and failed.value.filename == str(b)
                assert f"mounted on {a}" in failed.value.strerror
                assert f"mount --bind {a} {b}" in failed.value.strerror
            assert not os.path.ismount(b)
            subprocess.check_call(["mount", "--bind", a, b])
            try:
                subprocess.check_call(["sh", "-c", f"echo x > {a}/f && grep -q x {b}/f"])
            finally:
                umount(b)
        with volume.mount(b):
            subprocess.check_call(["grep", "-q", "x", b / "f"])
            umount(b)
            with same.mount(a):
                subprocess.check_call(["grep", "-q", "x", a / "f"])
    assert not any(map(os.path.ismount, places))


def test_what_cannot_be_mounted_is_refused_with_the_remedy(volume, place, tmp_path):
    with pytest.raises(FileNotFoundError) as failed:
        volume.mount(tmp_path / "none")
    assert "mkdir" in failed.value.strerror
    with pytest.raises(NotADirectoryError):
        (tmp_path / "file").touch()
        volume.mount(tmp_path / "file")
    with pytest.raises(OSError) as failed:
        volume.mount(tmp_path)
    assert failed.value.errno == errno.ENOTEMPTY
    with pytest.raises(OSError) as failed:
        volume.mount(place, "colour=red")
    assert "colour" in failed.value.strerror
    with volume.mount(place), pytest.raises(OSError) as failed:
        volume.mount(place)
    assert failed.value.errno == errno.EBUSY

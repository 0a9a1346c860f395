"""Quotas refuse at the byte, and heat says what was used."""

import errno

import pytest

import hearth_fs


def test_a_project_is_refused_at_its_limit(volume):
    process = volume.process()
    process.mkdir("/p")
    process.write_bytes("/p/old", b"x" * 4096)
    assert volume.quota.set_project("/p", 7) == 2
    volume.quota.set("project:7", bytes_hard="64KiB", inodes_hard=10)
    fd = process.open("/p/f", 0o102)
    assert process.write(fd, b"x" * 100_000) == 61440, "as far as it fits"
    with pytest.raises(OSError) as failed:
        process.write(fd, b"x")
    assert failed.value.errno == errno.ENOSPC
    record = volume.quota.get("project:7")
    assert (record.who, record.enforced) == ("project:7", True)
    assert (record.bytes.used, record.bytes.hard, record.bytes.soft) == (65536, 65536, None)
    assert (record.inodes.used, record.inodes.hard) == (3, 10)
    assert process.stat("/p/f").project == 7
    room = process.statvfs("/p")
    assert (room.f_blocks * room.f_frsize, room.f_bfree) == (65536, 0)
    [event] = [event for event in volume.quota.events() if event.who == "project:7"]
    assert event.resource == "bytes" and event.limit == 65536 and "refused" in event.text
    assert volume.quota.events(event.sequence) == []
    assert volume.quota.check() == []
    volume.quota.set("project:7", bytes_hard=None)
    assert process.write(fd, b"x") == 1
    assert volume.quota.get("project:7").inodes.hard == 10, "what is not named is kept"
    volume.quota.clear("project:7")
    assert volume.quota.get("project:7").inodes.hard is None


def test_a_user_is_refused_with_edquot(volume):
    process = volume.process()
    process.chmod("/", 0o777)
    volume.quota.set("user:1000", inodes_hard=1)
    user = volume.process(uid=1000, gid=1000)
    user.touch("/one")
    with pytest.raises(OSError) as failed:
        user.touch("/two")
    assert failed.value.errno == errno.EDQUOT
    assert "user:1000" in [record.who for record in volume.quota.report()]


@pytest.mark.parametrize(
    ("who", "limits", "said"),
    [
        ("nobody", {}, "expected user:N"),
        ("user:x", {}, "expected user:N"),
        ("user:0", {"bytes_hard": 1}, "0"),
        ("user:1", {"bytes_hard": "much"}, "much"),
        ("user:1", {"bytes_hard": 1 << 20, "bytes_soft": 2 << 20}, "soft"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(volume, who, limits, said):
    with pytest.raises(OSError) as failed:
        volume.quota.set(who, **limits)
    assert failed.value.errno == errno.EINVAL and said in failed.value.strerror


def test_heat_names_the_hot_file_and_its_ranges():
    with hearth_fs.open("memory:?hot_track") as volume:
        process = volume.process()
        process.mkdir("/d")
        process.write_bytes("/d/hot", b"x" * (3 << 20))
        process.write_bytes("/cold", b"x")
        for _ in range(100):
            process.read_bytes("/d/hot", 2 << 20, (2 << 20) + 10)
        heat = volume.heat
        assert heat.enabled
        first = heat.top_files(1, rank="reads")[0]
        second = heat.file("/cold")
        assert (first.path, first.reads, first.read_bytes) == ("/d/hot", 100, 1000)
        assert first.ino == process.stat("/d/hot").st_ino
        assert first.temperature > second.temperature and second.path == "/cold"
        assert first.last_read is not None and second.last_read is None
        hottest = heat.top_ranges(1, rank="reads")[0]
        assert (hottest.ino, hottest.start, hottest.length) == (first.ino, 2 << 20, 1 << 20)
        assert [row.start for row in heat.ranges("/d/hot")] == [0, 1 << 20, 2 << 20]
        assert heat.top_directories(1, rank="reads")[0].path == "/d"
        assert f"user:{process.uid}" in [row.tenant for row in heat.tenants()]
        assert heat.file("/d/hot").reads == 100
        assert heat.what_if([8 << 20]) == {8 << 20: (1.0, 1.0)}
        heat.switch(False)
        process.write_bytes("/later", b"")
        assert not heat.enabled and heat.file("/later") is None
        with pytest.raises(FileNotFoundError):
            heat.file("/none")
        with pytest.raises(OSError):
            heat.top_files(rank="colour")

"""The filesystem for fsspec beyond fsspec's own suite, and the libraries that use it."""

import errno
import threading

import fsspec
import pytest
from programs import run

import hearth_fs
import hearth_fs.fsspec


@pytest.fixture
def fs(volume):
    return fsspec.filesystem("hearth", volume=volume)


@pytest.fixture
def source(tmp_path):
    """A store that instances open by its name."""
    source = f"store:{tmp_path / 'volume'}"
    hearth_fs.open(source, create=True).close()
    yield source
    hearth_fs.fsspec.close(source)


def test_the_entry_point_is_found_without_an_import():
    program = "import fsspec; print(fsspec.get_filesystem_class('hearth').__module__)"
    assert run(program) == "hearth_fs.fsspec\n"


def test_urls_are_paths(fs):
    for url in ["hearth://a/b", "hearth:///a/b", "/a/b", "a/b", "hearth://a/b/", "hearth:/a/b"]:
        assert fs._strip_protocol(url) == "/a/b", url
    for url in ["hearth://", "hearth:///", "/", ""]:
        assert fs._strip_protocol(url) == "/", url
    assert fs._strip_protocol(["hearth://a", "b"]) == ["/a", "/b"]
    assert fs.unstrip_protocol("/a/b") == "hearth:///a/b"
    assert fs._strip_protocol(fs.unstrip_protocol("/a b%20?*")) == "/a b%20?*"
    with fsspec.open("hearth:///x/y", "wb", volume=fs.volume) as file:
        file.write(b"1")
    assert fs.cat("hearth://x/y") == b"1"


# The cache itself leaves the file open that it has mapped.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cache_of_blocks_is_put_over_a_volume(fs, tmp_path):
    data = bytes(range(256)) * 1000
    fs.pipe("/d/f", data)
    storage = {"cache_storage": str(tmp_path), "check_files": False}
    for _ in range(2):
        url = "blockcache::hearth://d/f"
        with fsspec.open(url, "rb", hearth={"volume": fs.volume}, blockcache=storage) as file:
            assert file.read(10) == data[:10]
            assert file.cache._fetch(70_000, 200_000) == data[70_000:200_000]
            assert file._fetch_range(255_990, 300_000) == data[255_990:]
            assert file.read() == data[10:]
        assert file.closed


def test_instances_of_all_threads_use_one_volume(source):
    fsspec.filesystem("hearth", volume=source).pipe("/f", b"shared")
    found = []

    def look():
        found.append(fsspec.filesystem("hearth", volume=source))

    for _ in range(3):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert [fs.cat("/f") for fs in found] == [b"shared"] * 3
    assert len({id(fs.volume) for fs in found}) == 1
    with hearth_fs.open(source) as volume:
        assert volume.process().read_bytes("/f") == b"shared"


def test_a_volume_that_was_closed_is_opened_again(source):
    fs = fsspec.filesystem("hearth", volume=source)
    fs.pipe("/f", b"kept")
    hearth_fs.fsspec.close(source)
    with pytest.raises(OSError) as failed:
        fs.cat("/f")
    assert failed.value.errno == errno.EBADF
    assert run("import sys, fsspec; print(fsspec.filesystem('hearth', volume=sys.argv[1]).cat('/f'))",
        source) == "b'kept'\n"
    assert fsspec.filesystem("hearth", volume=source).cat("/f") == b"kept"


def test_info_and_ls_say_what_is_there(fs):
    fs.pipe({"/d/b": b"12", "/d/a": b"1"})
    fs.mkdir("/d/sub")
    fs.symlink("a", "/d/link")
    fs.symlink("none", "/d/dangling")
    info = fs.info("/d/b")
    assert (info["name"], info["size"], info["type"]) == ("/d/b", 2, "file")
    assert info["mtime"] == fs.process.stat("/d/b").st_mtime
    assert fs.info("/d") | {"type": 0} == fs.info("/d/") | {"type": 0}
    assert fs.info("/d")["type"] == "directory" and fs.info("/d")["size"] == 0
    listed = fs.ls("/d")
    assert [entry["name"] for entry in listed] == [f"/d/{n}" for n in ["a", "b", "dangling", "link", "sub"]]
    assert listed == [fs.info(entry["name"]) for entry in listed]
    link, dangling = listed[3], listed[2]
    assert (link["type"], link["size"], link["islink"], link["destination"]) == ("file", 1, True, "a")
    assert dangling["type"] == "link" and dangling["destination"] == "none"
    assert fs.ls("/d", detail=False) == [entry["name"] for entry in listed]
    assert fs.ls("/d/a", detail=False) == ["/d/a"] and fs.ls("/d/a")[0]["size"] == 1
    with pytest.raises(FileNotFoundError):
        fs.ls("/none")
    # The size of a link that leads nowhere is that of its text, as in fsspec's local one.
    assert fs.du("/d") == 2 + 1 + 1 + len("none") and fs.glob("/d/*b*") == ["/d/b", "/d/sub"]
    assert sorted(fs.find("/")) == ["/d/a", "/d/b", "/d/dangling", "/d/link"]
    assert fs.exists("/d/a") and not fs.exists("/d/c")
    assert fs.isfile("/d/link") and fs.isdir("/d/sub") and fs.islink("/d/link")
    assert fs.created("/d/a") <= fs.modified("/d/a")


def test_cat_of_one_of_many_and_of_what_fails(fs):
    fs.pipe({"/a": b"1", "/b": b"2", "/d/c": b"3"})
    assert fs.cat("/a") == b"1"
    assert fs.cat(["/a", "/b"]) == {"/a": b"1", "/b": b"2"}
    assert fs.cat("/[ab]") == {"/a": b"1", "/b": b"2"}
    assert fs.cat("/d", recursive=True) == {"/d/c": b"3"}
    with pytest.raises(FileNotFoundError):
        fs.cat("/none")
    with pytest.raises(FileNotFoundError):
        fs.cat(["/a", "/none"])
    assert fs.cat(["/a", "/none"], on_error="omit") == {"/a": b"1"}
    both = fs.cat(["/a", "/none"], on_error="return")
    assert both["/a"] == b"1" and isinstance(both["/none"], FileNotFoundError)
    assert isinstance(fs.cat("/none", on_error="return"), FileNotFoundError)
    fs.process.truncate("/a", 1 << 50)
    with pytest.raises(OSError) as failed:
        fs.cat(["/a", "/b"])
    assert failed.value.errno == errno.ENOMEM
    assert fs.cat(["/a", "/b"], on_error="omit") == {"/b": b"2"}
    fs.process.truncate("/a", 1)
    assert fs.cat_file("/d/c", 0, 0) == b"" and fs.cat_ranges(["/a", "/b"], 0, 1) == [b"1", b"2"]
    assert fs.head("/d/c", 10) == b"3" and fs.tail("/d/c", 10) == b"3"


def test_what_is_removed_and_moved(fs):
    fs.pipe({"/d/a": b"1", "/d/e/b": b"2", "/f": b"3"})
    with pytest.raises(OSError):
        fs.rm("/d")
    assert fs.exists("/d/e/b")
    fs.mv("/d/e", "/d/g")
    assert fs.cat("/d/g/b") == b"2" and not fs.exists("/d/e")
    fs.mv("/f", "/new/place")
    assert fs.cat("/new/place") == b"3"
    fs.rm(["/d", "/new"], recursive=True)
    assert fs.ls("/", detail=False) == []
    with pytest.raises(FileNotFoundError):
        fs.rm("/d", recursive=True)


def test_a_link_to_a_directory_is_removed_and_what_it_leads_to_stays(fs):
    def tree():
        fs.pipe({"/kept/a": b"1", "/kept/e/b": b"2", "/d/c": b"3", "/d/e/f": b"4"})
        fs.symlink("/kept", "/d/out")
        fs.symlink("/kept/a", "/d/file")
        fs.symlink("..", "/d/e/up")
        fs.symlink(".", "/d/e/here")
        fs.symlink("none", "/d/e/none")

    for path, options in [
        ("/d", {"recursive": True}),
        ("hearth:///d/", {"recursive": True}),
        (["/d", "/d/e"], {"recursive": True}),
        ("/d*", {"recursive": True}),
        ("/d/**", {"recursive": True}),
    ]:
        tree()
        fs.rm(path, **options)
        if fs.exists("/d"):
            assert fs.ls("/d", detail=False) == [], path
            fs.rmdir("/d")
        assert fs.find("/") == ["/kept/a", "/kept/e/b"], path
    tree()
    fs.rm("/d/out", recursive=True)
    assert not fs.islink("/d/out") and fs.cat("/kept/a") == b"1"
    with pytest.raises(OSError):
        fs.rm("/d", recursive=True, maxdepth=1)
    assert fs.exists("/d/e/f") and not fs.exists("/d/c")
    fs.rm("/", recursive=True)
    assert fs.ls("/", detail=False) == []
    with pytest.raises(FileNotFoundError):
        fs.rm(["/none"], recursive=True)


def test_a_link_to_a_directory_above_it_does_not_make_walks_endless(fs):
    fs.pipe({"/d/a": b"1", "/d/e/b": b"2", "/other/c": b"3"})
    for target, path in [
        ("..", "/d/e/up"), (".", "/d/e/here"), ("/", "/d/e/top"), ("/other", "/d/out"),
        ("/d", "/other/back"),
    ]:
        fs.symlink(target, path)
    assert fs.find("/d") == ["/d/a", "/d/e/b", "/d/out/c"]
    back = ["/other/back/a", "/other/back/e/b", "/other/c"]
    assert fs.find("/") == fs.find("/d") + back and fs.find("/other") == back
    assert fs.du("/d") == 3 and "/d/out/c" in fs.glob("/d/**")
    assert fs.cat("/d", recursive=True) == {"/d/a": b"1", "/d/e/b": b"2", "/d/out/c": b"3"}
    assert [path for path, _, _ in fs.walk("/d/e/up", topdown=False)] == [
        "/d/e/up/e", "/d/e/up/out", "/d/e/up",
    ], "the link that was asked for"


def test_a_transaction_shows_all_or_nothing(fs):
    with fs.transaction:
        with fs.open("/a", "wb") as file:
            file.write(b"1")
        assert not fs.exists("/a")
    assert fs.cat("/a") == b"1"
    with pytest.raises(RuntimeError), fs.transaction:
        with fs.open("/b", "wb") as file:
            file.write(b"2")
        raise RuntimeError
    assert fs.ls("/", detail=False) == ["/a"]


def test_without_auto_mkdir_nothing_is_made_above(volume):
    fs = fsspec.filesystem("hearth", volume=volume, auto_mkdir=False)
    for call in [
        lambda: fs.pipe("/d/f", b""),
        lambda: fs.open("/d/f", "wb"),
        lambda: fs.touch("/d/f"),
        lambda: fs.pipe({"/d/f": b""}),
    ]:
        with pytest.raises(FileNotFoundError):
            call()
    assert fs.ls("/") == []


def test_another_user(volume):
    root = fsspec.filesystem("hearth", volume=volume)
    root.pipe("/f", b"1")
    root.chmod("/f", 0o600)
    user = fsspec.filesystem("hearth", volume=volume, uid=1000, gid=1000)
    with pytest.raises(PermissionError):
        user.cat("/f")


def test_instances_go_to_spawned_processes_by_name(source, tmp_path):
    import pickle

    fs = fsspec.filesystem("hearth", volume=source)
    fs.pipe("/f", b"1")
    text = pickle.dumps(fs)
    assert pickle.loads(text) is fs
    hearth_fs.fsspec.close(source)
    (tmp_path / "fs.pickle").write_bytes(text)
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).cat('/f'))"
    assert run(program, tmp_path / "fs.pickle") == "b'1'\n"


def test_pandas_writes_and_reads_csv_and_parquet_by_url(source):
    import pandas

    table = pandas.DataFrame({"a": range(1000), "b": [f"row {n}" for n in range(1000)]})
    options = {"volume": source}
    for kind in ["csv", "parquet"]:
        url = f"hearth:///tables/one.{kind}"
        write, read = getattr(table, f"to_{kind}"), getattr(pandas, f"read_{kind}")
        write(url, index=False, storage_options=options)
        pandas.testing.assert_frame_equal(read(url, storage_options=options), table)
    table.to_csv("hearth:///tables/one.csv.gz", index=False, storage_options=options)
    found = pandas.read_csv("hearth:///tables/one.csv.gz", storage_options=options)
    pandas.testing.assert_frame_equal(found, table)
    with pytest.raises(FileNotFoundError):
        pandas.read_csv("hearth:///none.csv", storage_options=options)


def test_pyarrow_writes_and_reads_a_dataset(fs):
    import pyarrow
    import pyarrow.dataset
    import pyarrow.parquet

    table = pyarrow.table({"part": [1, 1, 2], "x": [1.0, 2.0, 3.0]})
    pyarrow.parquet.write_to_dataset(table, "/set", partition_cols=["part"], filesystem=fs)
    assert sorted(fs.ls("/set", detail=False)) == ["/set/part=1", "/set/part=2"]
    found = pyarrow.dataset.dataset("/set", filesystem=fs, partitioning="hive").to_table()
    assert sorted(found["x"].to_pylist()) == [1.0, 2.0, 3.0]


def test_zarr_keeps_arrays_by_url(source):
    import numpy
    import zarr

    options = {"volume": source}
    numbers = numpy.arange(10_000, dtype="i4").reshape(100, 100)
    array = zarr.open_array(
        "hearth:///cube.zarr", mode="w", shape=(100, 100), chunks=(10, 10), dtype="i4",
        storage_options=options,
    )
    array[:] = numbers
    again = zarr.open_array("hearth:///cube.zarr", mode="r", storage_options=options)
    assert (again[:] == numbers).all() and (again[5, 5:9] == numbers[5, 5:9]).all()
    array[0, 0] = 7
    assert zarr.open_array("hearth:///cube.zarr", mode="r", storage_options=options)[0, 0] == 7
    fs = fsspec.filesystem("hearth", volume=source)
    assert len(fs.find("/cube.zarr")) == 101
    group = zarr.open_group("hearth:///group.zarr", mode="w", storage_options=options)
    group.create_array("x", shape=(4,), dtype="f8")[:] = 1.5
    found = zarr.open_group("hearth:///group.zarr", mode="r", storage_options=options)
    assert list(found["x"][:]) == [1.5] * 4


def test_a_file_is_read_by_blocks_and_a_directory_is_not(fs):
    fs.pipe("/lines", b"one\ntwo\nthree\n")
    assert fs.read_block("/lines", 1, 4, delimiter=b"\n") == b"two\n"
    assert fs.read_block("/lines", 4, None) == b"two\nthree\n"
    assert fs.read_block("/lines", 10, 100) == b"ree\n"
    with fs.open("/lines") as file:
        assert file.size == 14
    with pytest.raises(IsADirectoryError):
        fs.open("/")

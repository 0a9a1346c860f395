import pytest

import hearth_fs


@pytest.fixture
def volume():
    with hearth_fs.open("memory:?size=256MiB") as volume:
        yield volume


@pytest.fixture
def process(volume):
    return volume.process()


@pytest.fixture(params=["memory", "store"])
def anywhere(request, tmp_path):
    """A process of a volume in memory, and of one in a store."""
    source = "memory:" if request.param == "memory" else f"store:{tmp_path / 'volume'}"
    with hearth_fs.open(source, create=request.param == "store") as volume:
        yield volume.process()

"""fsspec's own suite for filesystems, whole."""

import fsspec
import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

import hearth_fs


class HearthFixtures(AbstractFixtures):
    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls):
        with hearth_fs.open("memory:") as volume:
            yield fsspec.filesystem("hearth", volume=volume)

    @pytest.fixture
    def fs_path(self):
        return "/suite"


class TestCopy(AbstractCopyTests, HearthFixtures):
    pass


class TestGet(AbstractGetTests, HearthFixtures):
    pass


class TestPut(AbstractPutTests, HearthFixtures):
    pass


class TestOpen(AbstractOpenTests, HearthFixtures):
    pass


class TestPipe(AbstractPipeTests, HearthFixtures):
    pass

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


def pytest_addoption(parser):
    parser.addoption("--cargo", action="store_true", help="end as `cargo test` does")


def pytest_terminal_summary(terminalreporter, config):
    """The failures and the sum as `cargo test` prints them, for `cargo xtask test`."""
    if not config.getoption("--cargo"):
        return
    reports = terminalreporter.stats
    failed = reports.get("failed", []) + reports.get("error", [])
    for report in failed:
        terminalreporter.write_line(f"---- {report.nodeid} stdout ----")
        terminalreporter.write_line(report.longreprtext)
    word = "FAILED" if failed else "ok"
    passed = len(reports.get("passed", []))
    terminalreporter.write_line(
        f"test result: {word}. {passed} passed; {len(failed)} failed; 0 ignored"
    )

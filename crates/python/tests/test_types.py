"""The stubs say what the module has, and the package checks by them."""

import os
import subprocess
import sys

HERE = os.path.dirname(__file__)
SETTINGS = os.path.join(HERE, "..", "pyproject.toml")


def run(*command):
    # From elsewhere, so that the installed package is looked at.
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_agree_with_the_module(tmp_path):
    allowed = os.path.join(HERE, "stubtest.allow")
    run("mypy.stubtest", "--mypy-config-file", SETTINGS, "--allowlist", allowed, "hearth_fs")


def test_the_package_checks_by_its_types(tmp_path):
    cache = ["--cache-dir", str(tmp_path)]
    run("mypy", "--config-file", SETTINGS, *cache, "-p", "hearth_fs")


def test_everything_public_has_a_docstring():
    import hearth_fs
    import hearth_fs.fsspec

    bare = []
    for name in hearth_fs.__all__:
        thing = getattr(hearth_fs, name)
        if name.startswith("_"):
            continue
        if not thing.__doc__:
            bare.append(name)
        for inner, value in vars(thing).items() if isinstance(thing, type) else ():
            if not inner.startswith("_") and not getattr(value, "__doc__", None):
                bare.append(f"{name}.{inner}")
    assert bare == []

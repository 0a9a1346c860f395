"""The examples of the pages run."""

import doctest
import os
import re

import pytest

import hearth_fs
import hearth_fs.fsspec

ROOT = os.path.join(os.path.dirname(__file__), "..")
PAGES = ["README.md", "../../README.md", "../../docs/python.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    examples = list(re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert examples
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    try:
        for example in examples:
            # Lines have the numbers that they have in the page.
            above = "\n" * text[: example.start(1)].count("\n")
            exec(compile(above + example[1], page, "exec"), names)
    finally:
        hearth_fs.fsspec.close("store:volume?compress=zstd")
        for value in list(names.values()):
            if isinstance(value, hearth_fs.Volume):
                value.close()


@pytest.mark.parametrize("module", [hearth_fs, hearth_fs.fsspec])
def test_the_examples_of_a_module_run(module):
    done = doctest.testmod(module)
    assert done.attempted > 0 and done.failed == 0
    hearth_fs.fsspec.close("memory:")

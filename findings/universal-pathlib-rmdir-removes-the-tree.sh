#!/usr/bin/env bash
# universal_pathlib 0.3.10 with fsspec 2026.9.0 (PyPI), Python 3.11.
#
# Guess: UPath is pathlib for fsspec's filesystems, so rmdir() of a directory that holds something
# raises OSError, as it does for pathlib and for rmdir(2).
# Seen: it depends on how the path was spelled. UPath("/dir") is a real pathlib object and raises.
# UPath("file:///dir"), the same directory, removes all that is below it and returns, and so does
# the path of the memory filesystem: rmdir() of UPath has a parameter recursive of its own, and it
# is True.
# So code that relies on rmdir() to refuse ("remove it if it is empty", the end of a clean-up from
# the leaves up) passes its tests on plain paths and deletes data behind a URL. It has to say
# recursive=False, which pathlib in turn does not take.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install universal_pathlib==0.3.10 fsspec==2026.9.0
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import sys

from upath import UPath


def remove(url, **options):
    """What is left of a directory with a file two levels down after rmdir() of it."""
    directory = UPath(url)
    (directory / "sub").mkdir(parents=True, exist_ok=True)
    (directory / "sub" / "file").write_text("data")
    try:
        directory.rmdir(**options)
        said = "returned"
    except OSError:
        said = "raised OSError"
    seen = f"{said}, the file is {'there' if (directory / 'sub' / 'file').exists() else 'gone'}"
    print(f"{type(directory).__name__} {options}: {seen}")
    return seen


plain = f"{sys.argv[1]}/tree"
assert remove(plain) == "raised OSError, the file is there"
assert remove(f"file://{plain}") == "returned, the file is gone"
assert remove("memory:///tree") == "returned, the file is gone"
assert remove(f"file://{plain}", recursive=False) == "raised OSError, the file is there"
PYTHON

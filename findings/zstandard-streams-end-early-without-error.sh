#!/usr/bin/env bash
# zstandard 0.25.0, fsspec 2026.9.0, lz4 4.4.5, pyarrow 26.0.1 (PyPI), Python 3.11.
#
# Guess: a reader of compressed data raises when the data stop in the middle of a frame, as gzip,
# bz2, lzma of Python and the zstd program do.
# Seen: each streaming call of zstandard (open, stream_reader, copy_stream, read_to_iter) returns
# what there is and then an ordinary end of file. Only the one call for data in memory raises. fsspec
# uses the stream, so fsspec.open(..., compression="zstd") of a file whose upload or copy broke off
# is a shorter file. lz4.frame and pyarrow's reader of zstd raise for the same kind of cut.
# So the reader cannot tell half a backup from a whole one: whoever reads zstd from Python compares
# the length with one written down elsewhere, or takes a library that looks at the frame's end.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install zstandard==0.25.0 fsspec==2026.9.0 \
    lz4==4.4.5 pyarrow==26.0.1
"$dir/venv/bin/python" - "$dir" <<'PYTHON'
import gzip
import io
import os
import sys

import fsspec
import lz4.frame
import pyarrow
import zstandard

data = os.urandom(300_000)
cut = zstandard.compress(data)[:-100_000]
path = f"{sys.argv[1]}/cut.zst"
with open(path, "wb") as file:
    file.write(cut)


def copy():
    out = io.BytesIO()
    zstandard.ZstdDecompressor().copy_stream(io.BytesIO(cut), out)
    return out.getvalue()


def fsspec_read():
    with fsspec.open(path, "rb", compression="zstd") as file:
        return file.read()


silent = {
    "zstandard.open": lambda: zstandard.open(io.BytesIO(cut)).read(),
    "stream_reader": lambda: zstandard.ZstdDecompressor().stream_reader(io.BytesIO(cut)).read(),
    "copy_stream": copy,
    "read_to_iter": lambda: b"".join(zstandard.ZstdDecompressor().read_to_iter(io.BytesIO(cut))),
    "fsspec.open": fsspec_read,
}
zstd = pyarrow.BufferReader(cut)
loud = {
    "zstandard.decompress": lambda: zstandard.decompress(cut),
    "pyarrow, zstd": lambda: pyarrow.CompressedInputStream(zstd, "zstd").read(),
    "lz4.frame.open": lambda: lz4.frame.open(io.BytesIO(lz4.frame.compress(data)[:-100_000])).read(),
    "gzip.open": lambda: gzip.open(io.BytesIO(gzip.compress(data)[:-100_000])).read(),
}
for name, read in silent.items():
    got = read()
    print(f"{name}: {len(got)} of {len(data)} bytes, no error")
    assert 0 < len(got) < len(data) and data.startswith(got)
for name, read in loud.items():
    try:
        read()
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
    else:
        raise SystemExit(f"{name} no longer raises")
PYTHON

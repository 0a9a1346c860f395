#!/usr/bin/env bash
# fsspec and s3fs 2026.9.0 (PyPI), s3fs against moto 5.2.5, Python 3.11.
#
# Guess: rm, mv, copy, get and cat of fsspec are given a path and work on the file of that name.
# Where a name has brackets in it, as browsers and cameras make them ("data[1].csv"), it is still a
# name; or it is looked up as a name first and as a pattern only if there is no such file.
# Seen: every path is a pattern. rm("data[1].csv") removes data1.csv and leaves data[1].csv, in
# memory and in a bucket; mv moves data1.csv, copy copies it, cat gives its contents. Where
# data1.csv is not there, "file not found" comes for a file that ls shows. The local filesystem
# removes and moves the right one and cats the wrong one. open, cat_file, rm_file and pipe_file take
# names everywhere.
# So names that come from ls or from a user are never given to the calls that expand; a loop over
# rm_file, cp_file and cat_file is safe, or brackets are refused when a file is taken in. An
# interface has patterns in calls of their own.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install \
    fsspec==2026.9.0 s3fs==2026.9.0 'moto[s3,server]==5.2.5'
cat > "$dir/try.py" <<'PYTHON'
import sys

import fsspec
from moto.server import ThreadedMotoServer

NAMES = ["data[1].csv", "data1.csv"]


def see(kind, fs, base):
    """Each call is given the same name, in a directory of its own."""
    calls = {
        "rm": lambda where: fs.rm(f"{where}/{NAMES[0]}"),
        "mv": lambda where: fs.mv(f"{where}/{NAMES[0]}", f"{where}/sub/"),
        "cat": lambda where: fs.cat(f"{where}/{NAMES[0]}"),
        "rm_file": lambda where: fs.rm_file(f"{where}/{NAMES[0]}"),
    }
    for call, run in calls.items():
        where = f"{base}/{call}"
        fs.makedirs(f"{where}/sub", exist_ok=True)
        for name in NAMES:
            fs.pipe_file(f"{where}/{name}", name.encode())
        given = run(where)
        if call == "cat":
            given = list(given.values())[0] if isinstance(given, dict) else given
            print(f"{kind}, cat: gives {given.decode()}")
            continue
        fs.invalidate_cache()
        left = [path.rsplit("/", 1)[1] for path in fs.ls(where, detail=False)]
        print(f"{kind}, {call}: left {' '.join(name for name in left if name in NAMES)}")


def main():
    see("memory", fsspec.filesystem("memory"), "/base")
    see("local", fsspec.filesystem("file"), sys.argv[1])
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://%s:%s" % server.get_host_and_port()
    bucket = fsspec.filesystem("s3", endpoint_url=url, key="key", secret="key")
    bucket.mkdir("bucket")
    see("bucket", bucket, "bucket/base")
    server.stop()


main()
PYTHON
mkdir "$dir/files"
seen=$("$dir/venv/bin/python" "$dir/try.py" "$dir/files" 2> "$dir/messages") \
    || { cat "$dir/messages" >&2; exit 1; }
printf '%s\n' "$seen"
expected="memory, rm: left data[1].csv
memory, mv: left data[1].csv
memory, cat: gives data1.csv
memory, rm_file: left data1.csv
local, rm: left data1.csv
local, mv: left data1.csv
local, cat: gives data1.csv
local, rm_file: left data1.csv
bucket, rm: left data[1].csv
bucket, mv: left data[1].csv
bucket, cat: gives data1.csv
bucket, rm_file: left data1.csv"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

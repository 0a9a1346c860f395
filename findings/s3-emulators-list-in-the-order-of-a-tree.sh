#!/usr/bin/env bash
# s3rver 3.7.1 (npm), github.com/johannesboyne/gofakes3 1.2.0 (Go) with its backend for directories
# (s3afero, MultiBucket) and beside it the one in memory; boto3 1.44.8 (PyPI), Linux.
#
# Guess: an emulator of S3 that keeps objects as files sorts what it lists by key, as S3 does, since
# pages, start-after and programs that compare two listings rest on that. A key that it cannot keep
# as a file of its own is refused.
# Seen: both walk the tree, and what is in a directory comes where the directory's name is: a/b
# before a!b and a-b, which S3 has in front. s3rver gives the next page by "greater than the last
# one", so a listing in pages (version 1) of two loses a!b, a-b and a.b, with no error; pages of
# version 2 fail. s3afero gives everything at once, however small the pages, lists all names from
# before start-after as well, and knows no delimiter but "/". A key with "//" and the same one with
# "/" are one object there: the second put replaces the first, with status 200, and only a client
# that has stored a checksum with the first one notices.
# So a sync, a clean-up or a count by pages is not tested with these, unless no name of a directory
# is the beginning of another name.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
servers=()
finish() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2> /dev/null || true
    wait
    rm -rf "$dir"
}
trap finish EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install boto3==1.44.8
npm install --silent --no-audit --no-fund s3rver@3.7.1 > messages 2>&1 || { cat messages; exit 1; }
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
cat > go.mod <<'MOD'
module probe
go 1.24
require (
	github.com/johannesboyne/gofakes3 v1.2.0
	github.com/spf13/afero v1.15.0
)
MOD
cat > main.go <<'GO'
package main

import (
	"net/http"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3afero"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/spf13/afero"
)

func main() {
	var backend gofakes3.Backend = s3mem.New()
	if len(os.Args) > 2 {
		files, err := s3afero.MultiBucket(afero.NewBasePathFs(afero.NewOsFs(), os.Args[2]))
		if err != nil {
			panic(err)
		}
		backend = files
	}
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], gofakes3.New(backend).Server()))
}
GO
go build -o gofakes3 . 2> messages || { cat messages >&2; exit 1; }
cat > probe.py <<'PYTHON'
import sys
import time

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError

client = boto3.client(
    "s3", endpoint_url="http://127.0.0.1:" + sys.argv[1], region_name="us-east-1",
    aws_access_key_id="S3RVER", aws_secret_access_key="S3RVER",
    config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0},
                  request_checksum_calculation="when_required"))


def names(**options):
    answer = client.list_objects_v2(Bucket="bucket", **options)
    return " ".join(entry["Key"][2:] for entry in answer.get("Contents", []))


for _ in range(100):
    try:
        client.create_bucket(Bucket="bucket")
        break
    except EndpointConnectionError:
        time.sleep(0.2)
for name in ["a!b", "a-b", "a.b", "a/b", "a/z", "ab"]:
    client.put_object(Bucket="bucket", Key="p/" + name, Body=b"x")
print("  all:", names(Prefix="p/"))
print("  after a.b:", names(Prefix="p/", StartAfter="p/a.b"))
pages, marker = [], ""
while True:
    answer = client.list_objects(Bucket="bucket", Prefix="p/", MaxKeys=2, Marker=marker)
    pages.append(" ".join(entry["Key"][2:] for entry in answer["Contents"]))
    if not answer["IsTruncated"]:
        break
    marker = answer.get("NextMarker") or answer["Contents"][-1]["Key"]
print("  pages of two:", " | ".join(pages))
try:
    client.put_object(Bucket="bucket", Key="q//b", Body=b"two slashes")
    client.put_object(Bucket="bucket", Key="q/b", Body=b"one slash")
    answer = client.get_object(Bucket="bucket", Key="q//b")
    print("  q//b is", answer["Body"].read().decode())
except ClientError as error:
    print("  q//b is refused:", error.response["ResponseMetadata"]["HTTPStatusCode"])
PYTHON
free_port() {
    python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
}
told() { # NAME COMMAND...: PORT is replaced
    local port
    port=$(free_port)
    "${@:2}" "$port" ${files[@]+"${files[@]}"} > messages 2>&1 &
    servers+=($!)
    seen+="$1"$'\n'$(venv/bin/python probe.py "$port")$'\n'
}
mkdir s3rver-files gofakes3-files
seen=
files=()
told "gofakes3 in memory" ./gofakes3
files=(gofakes3-files)
told "gofakes3 in files" ./gofakes3
files=()
told s3rver node node_modules/s3rver/bin/s3rver.js -d s3rver-files -a 127.0.0.1 -s -p
printf '%s' "$seen"
expected="gofakes3 in memory
  all: a!b a-b a.b a/b a/z ab
  after a.b: a/b a/z ab
  pages of two: a!b a-b | a.b a/b | a/z ab
  q//b is two slashes
gofakes3 in files
  all: a/b a/z a!b a-b a.b ab
  after a.b: a/b a/z a!b a-b a.b ab
  pages of two: a/b a/z a!b a-b a.b ab
  q//b is one slash
s3rver
  all: a/b a/z a!b a-b a.b ab
  after a.b: a/b a/z ab
  pages of two: a/b a/z | ab
  q//b is refused: 404
"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# moto 5.2.5 with boto3 1.44.8 (PyPI), Python 3.11; github.com/johannesboyne/gofakes3 1.2.0 (Go).
#
# Guess: an emulator of S3 that knows preconditions knows them for each call that has them, or says
# that it does not (501, as S3 does for a header that is not implemented).
# Seen: a put with If-None-Match: * or a wrong If-Match is refused by both. A copy is made whatever
# its preconditions are: gofakes3 looks at none; moto looks at x-amz-copy-source-if-none-match and
# passes over if-match and if-unmodified-since of the source, and over If-None-Match and If-Match of
# the target. The answer is 200 and the target is overwritten. gofakes3 also answers a get whose
# If-Match is wrong with the object.
# So code that publishes by a conditional copy (a rename that must not overwrite, a copy of the
# version that was read) has no test in these: the case that must fail succeeds. Such tests count
# the calls with their headers, or put instead of copying.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOPATH=$dir/go GOFLAGS="-mod=mod -modcacherw"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install 'moto[s3,server]==5.2.5' boto3==1.44.8
cat > go.mod <<'MOD'
module probe
go 1.24
require github.com/johannesboyne/gofakes3 v1.2.0
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"net/http/httptest"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	fmt.Println(server.URL)
	io.Copy(io.Discard, os.Stdin) // serves until its input ends
}
GO
go build -o emulator . 2> messages || { cat messages >&2; exit 1; }
cat > probe.py <<'PYTHON'
import datetime
import os
import subprocess

import boto3
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="key")
WRONG = '"00000000000000000000000000000000"'
LONG_AGO = datetime.datetime(2001, 1, 1)


def try_all(name, url):
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    client.put_object(Bucket="bucket", Key="source", Body=b"source")
    right = client.head_object(Bucket="bucket", Key="source")["ETag"]

    def see(what, call, **more):
        client.put_object(Bucket="bucket", Key="target", Body=b"before")
        try:
            call(Bucket="bucket", Key="target", **more)
            said = "done"
        except ClientError as error:
            said = "refused" if error.response["Error"]["Code"] in (
                "PreconditionFailed", "412") else str(error)
        after = client.get_object(Bucket="bucket", Key="target")["Body"].read().decode()
        print(f"{name}, {what}: {said}, target {after}")

    put = dict(call=client.put_object, Body=b"after")
    see("put if there is none", **put, IfNoneMatch="*")
    see("put if it is another", **put, IfMatch=WRONG)
    copy = dict(call=client.copy_object, CopySource="bucket/source")
    see("copy if the source is another", **copy, CopySourceIfMatch=WRONG)
    see("copy if the source is not this", **copy, CopySourceIfNoneMatch=right)
    see("copy if the source is older", **copy, CopySourceIfUnmodifiedSince=LONG_AGO)
    see("copy if there is none", **copy, IfNoneMatch="*")
    see("copy if it is another", **copy, IfMatch=WRONG)
    see("get if it is another", call=client.get_object, IfMatch=WRONG)


server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
try_all("moto", "http://%s:%s" % server.get_host_and_port())
server.stop()
with subprocess.Popen("./emulator", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as emulator:
    try_all("gofakes3", emulator.stdout.readline().decode().strip())
    emulator.stdin.close()
PYTHON
seen=$(venv/bin/python probe.py 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected="moto, put if there is none: refused, target before
moto, put if it is another: refused, target before
moto, copy if the source is another: done, target source
moto, copy if the source is not this: refused, target before
moto, copy if the source is older: done, target source
moto, copy if there is none: done, target source
moto, copy if it is another: done, target source
moto, get if it is another: refused, target before
gofakes3, put if there is none: refused, target before
gofakes3, put if it is another: refused, target before
gofakes3, copy if the source is another: done, target source
gofakes3, copy if the source is not this: done, target source
gofakes3, copy if the source is older: done, target source
gofakes3, copy if there is none: done, target source
gofakes3, copy if it is another: done, target source
gofakes3, get if it is another: done, target before"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

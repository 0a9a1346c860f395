#!/usr/bin/env bash
# moto 5.2.5 with boto3 1.44.8 (PyPI), Python 3.11; github.com/johannesboyne/gofakes3 1.2.0 (Go).
#
# Guess: an emulator of S3 checks what an upload carries for that: a checksum that is not that of
# the bytes is refused (BadDigest), and so is a list of parts that is out of order
# (InvalidPartOrder). An emulator that looks at the tag of each part knows that list well.
# Seen: both store an object with a wrong x-amz-checksum-sha256 and answer 200; moto passes over a
# wrong Content-MD5 too, which gofakes3 refuses. Both refuse a list with a wrong tag, and take one
# whose parts go backwards: the object is put together in the order of the list. A copy that says
# REPLACE has the old metadata beside the new in gofakes3, and one that says nothing takes what it
# was sent, which S3 would leave out.
# So the code that computes the sums, that sorts the parts that came from many threads, and that
# handles the refusal, passes there and fails in a bucket. Such tests compare the header with a sum
# of their own, and the list with its sorted self.
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
import base64
import os
import subprocess

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="key")
SIZE = 5 << 20


def wrong(length):
    return base64.b64encode(bytes(length)).decode()


def try_all(name, url):
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1",
                          config=Config(retries={"total_max_attempts": 1},
                                        response_checksum_validation="when_required"))
    client.create_bucket(Bucket="bucket")

    def see(what, call, **more):
        try:
            call(Bucket="bucket", Key="key", **more)
            body = client.get_object(Bucket="bucket", Key="key")["Body"].read()
            said = f"done, {body[:1].decode()} to {body[-1:].decode()}"
        except ClientError as error:
            said = error.response["Error"]["Code"]
        print(f"{name}, {what}: {said}")

    put = dict(call=client.put_object, Body=b"a body")
    see("wrong SHA-256", **put, ChecksumSHA256=wrong(32))
    see("wrong MD5", **put, ContentMD5=wrong(16))
    for what in ["wrong tag", "parts backwards"]:
        where = dict(Bucket="bucket", Key="key")
        where["UploadId"] = client.create_multipart_upload(**where)["UploadId"]
        parts = [{"PartNumber": number, "ETag": client.upload_part(
            **where, PartNumber=number, Body=text * SIZE)["ETag"]}
            for number, text in [(1, b"a"), (2, b"b")]]
        if what == "wrong tag":
            parts[0]["ETag"] = f'"{"0" * 32}"'
        else:
            parts.reverse()
        see(what, client.complete_multipart_upload, UploadId=where["UploadId"],
            MultipartUpload={"Parts": parts})
    client.put_object(Bucket="bucket", Key="source", Body=b"", Metadata={"old": "1"})
    for what, more in [("replace", {"MetadataDirective": "REPLACE"}), ("keep", {})]:
        client.copy_object(Bucket="bucket", Key="copy", CopySource="bucket/source",
                           Metadata={"new": "2"}, **more)
        metadata = client.head_object(Bucket="bucket", Key="copy")["Metadata"]
        print(f"{name}, {what}: {' '.join(sorted(metadata)).lower()}")


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
expected="moto, wrong SHA-256: done, a to y
moto, wrong MD5: done, a to y
moto, wrong tag: InvalidPart
moto, parts backwards: done, b to a
moto, replace: new
moto, keep: old
gofakes3, wrong SHA-256: done, a to y
gofakes3, wrong MD5: BadDigest
gofakes3, wrong tag: InvalidPart
gofakes3, parts backwards: done, b to a
gofakes3, replace: new old
gofakes3, keep: new old"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# s3fs 2026.9.0, cloudpathlib 0.26.0, smart_open 9.0.2, against moto 5.2.5 (PyPI), Python 3.11.
#
# Guess: an object appears when it is complete. A "with" block that raises while it writes one has
# not finished it, so there is none, or the one from before stays; that is what an upload in parts
# is for.
# Seen: s3fs and cloudpathlib close the file whatever the block did, and closing uploads: half of an
# object is there, with a right checksum, in the place of the one from before, and the exception
# comes after that. smart_open throws the upload away, and the object from before stays.
# So a job that fails in the middle leaves an object that the next one takes for whole; a look
# whether it exists is no sign of success. With these two the bytes are written to a local file, or
# to a working key, and uploaded or copied when the block has come to its end.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" -q --disable-pip-version-check install 'moto[s3,server]==5.2.5' \
    s3fs==2026.9.0 'cloudpathlib[s3]==0.26.0' 'smart_open[s3]==9.0.2'
cat > "$dir/try.py" <<'PYTHON'
import os

os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="key",
                  AWS_DEFAULT_REGION="us-east-1")

import boto3
import cloudpathlib
import s3fs
import smart_open
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://%s:%s" % server.get_host_and_port()
client = boto3.client("s3", endpoint_url=url)
client.create_bucket(Bucket="bucket")
bucket = s3fs.S3FileSystem(endpoint_url=url, key="key", secret="key")
clouds = cloudpathlib.S3Client(endpoint_url=url)
WAYS = {
    "s3fs": lambda key: bucket.open(f"bucket/{key}", "w"),
    "cloudpathlib": lambda key: clouds.CloudPath(f"s3://bucket/{key}").open("w"),
    "smart_open": lambda key: smart_open.open(
        f"s3://bucket/{key}", "w", transport_params={"client": client}),
}


def holds(key):
    try:
        return client.get_object(Bucket="bucket", Key=key)["Body"].read().decode()
    except client.exceptions.NoSuchKey:
        return "nothing"


def fails(way, key):
    """Runs a block that writes a half and raises, and sees that it raises to its caller."""
    try:
        with WAYS[way](key) as file:
            file.write("half")
            raise RuntimeError
    except RuntimeError:
        return
    raise AssertionError("the block did not raise")


for way in WAYS:
    client.put_object(Bucket="bucket", Key=f"{way}/old", Body=b"whole")
    fails(way, f"{way}/old")
    fails(way, f"{way}/new")
    print(f"{way}: old object holds {holds(f'{way}/old')}, new one {holds(f'{way}/new')}")
server.stop()
PYTHON
seen=$(timeout 100 "$dir/venv/bin/python" "$dir/try.py" 2> "$dir/messages") \
    || { cat "$dir/messages" >&2; exit 1; }
printf '%s\n' "$seen"
expected="s3fs: old object holds half, new one half
cloudpathlib: old object holds half, new one half
smart_open: old object holds whole, new one nothing"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# unzipper 0.12.5 (npm), bsdtar 3.6.2 of libarchive and busybox 1.35.0 (packages of Debian 12),
# zipfile of Python 3.11, Linux.
#
# Guess: a zip archive that was written to a pipe is read from a pipe as from a file, also where a
# file in it is a zip archive itself and both are stored without compression (the default of
# zipfile): sizes and checksums stand behind each file, and a reader that cannot do that refuses.
# Seen: unzipper.Parse takes the first end mark that it finds for the file's own, and that is one of
# the inner archive. The inner archive is cut to less than half, a file of it is given out as one of
# the outer archive, and the file behind it never comes; neither does an error, nor the end of the
# stream. "bsdtar -t" of a pipe lists the same wrong names, with status 0; "bsdtar -x" of the same
# pipe takes out what is there: it looks at the checksum when it reads. From a file all are right.
# So a stream of zips is written to a file before it is read, or the inner ones are compressed.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download libarchive-tools=3.6.2-1+deb12u5 libarchive13=3.6.2-1+deb12u5 \
    busybox-static=1:1.35.0-4+deb12u1+b1
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
npm install --silent --no-audit --no-fund unzipper@0.12.5 > messages 2>&1 ||
    { cat messages; exit 1; }
cat > pack.py <<'PYTHON'
import sys
import zipfile

with zipfile.ZipFile(sys.stdout.buffer, "w") as archive:
    for path in sys.argv[1:]:
        archive.write(path)
PYTHON
head -c 1000 /dev/zero | tr '\0' a > a
head -c 1000 /dev/zero | tr '\0' b > b
echo first > first
echo last > last
python3 pack.py a b | cat > inner.zip
python3 pack.py first inner.zip last | cat > outer.zip
cat > parse.js <<'JAVASCRIPT'
const { Parse } = require('unzipper');
const seen = [];
process.stdin.pipe(Parse()).on('entry', (entry) => {
  let length = 0;
  entry.on('data', (bytes) => { length += bytes.length; });
  entry.on('end', () => seen.push(`${entry.path} (${length})`));
}).on('error', (error) => seen.push(`error ${error.message}`))
  .on('close', () => seen.push('closed'));
process.on('exit', () => console.log(seen.join(' ')));
JAVASCRIPT
sizes() { stat -c '%n (%s)' first inner.zip last | paste -sd ' '; }
seen=$(
    echo "packed: $(sizes)"
    echo "unzipper: $(cat outer.zip | node parse.js)"
    echo "bsdtar -t of a pipe: $(cat outer.zip | packages/usr/bin/bsdtar -tf - | paste -sd ' ')"
    mkdir taken
    cat outer.zip | packages/usr/bin/bsdtar -xf - -C taken
    echo "bsdtar -x of a pipe: $(cd taken && sizes)"
    echo "bsdtar -t of a file: $(packages/usr/bin/bsdtar -tf outer.zip | paste -sd ' ')"
    rm -r taken
    mkdir taken
    packages/bin/busybox unzip -q outer.zip -d taken
    echo "busybox: $(cd taken && sizes)"
)
printf '%s\n' "$seen"
expected="packed: first (6) inner.zip (2210) last (5)
unzipper: first (6) inner.zip (1031) b (1000)
bsdtar -t of a pipe: first inner.zip b
bsdtar -x of a pipe: first (6) inner.zip (2210) last (5)
bsdtar -t of a file: first inner.zip last
busybox: first (6) inner.zip (2210) last (5)"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

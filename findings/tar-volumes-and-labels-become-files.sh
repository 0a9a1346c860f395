#!/usr/bin/env bash
# GNU tar 1.34, bsdtar 3.6.2 of libarchive, 7z 26.02 (p7zip-full; packages of Debian 12), tarfile of
# Python 3.11, tar 0.4.46 (crates.io), tar 7.5.23 (npm), Linux.
#
# Guess: the second volume of an archive in several volumes (tar -M) begins within a file. GNU tar
# refuses that file when the volume is taken out by itself; others refuse it too, or leave it out.
# The label of an archive (tar -V) is a note that no reader takes for a file.
# Seen: bsdtar, 7z, Python and the crate write the rest of the file under the file's name, as all of
# it, with no error: over the whole file, where it was there. Only tar of npm leaves it out. Python
# and 7z make an empty file of the label, which empties the file that had this name; where the
# archive has a directory of the same name, "tar -V home home", they fail. The crate reads no
# archive with a label at all: the header has no size, and that is an error.
# So a backup in volumes or with a label is taken out with GNU tar alone.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download p7zip-full=16.02+really26.02+dfsg-0+deb12u1 libarchive-tools=3.6.2-1+deb12u5 \
    libarchive13=3.6.2-1+deb12u5
for package in *.deb; do dpkg -x "$package" packages; done
export LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu
npm install --silent --no-audit --no-fund tar@7.5.23 > messages 2>&1 || { cat messages; exit 1; }
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
tar = "=0.4.46"
[profile.dev]
debug = 0
[workspace]
TOML
cat > src/main.rs <<'RUST'
fn main() -> std::io::Result<()> {
    let names: Vec<_> = std::env::args().skip(1).collect();
    tar::Archive::new(std::fs::File::open(&names[0])?).unpack(&names[1])
}
RUST
cargo build --quiet
mkdir source
head -c 3M /dev/urandom > source/large
echo text > source/small
tar -C source -cML 2000 -f first.tar -f second.tar large small
tar -C source -cV small -f label.tar large
tar -C source -cV source -f twice.tar ../source 2> messages
cat > take.py <<'PYTHON'
import sys
import tarfile

try:
    with tarfile.open(sys.argv[1]) as archive:
        archive.extractall(sys.argv[2])
except OSError as error:
    sys.exit(type(error).__name__)
PYTHON
taken() { # ARCHIVE NAME COMMAND...: what an archive leaves of a directory with the right files
    local status=0 name
    rm -rf "$2"
    cp -r source "$2"
    "${@:3}" > messages 2>&1 || status=$?
    echo -n "$1 by $2: status $status"
    for name in large small; do
        cmp -s "source/$name" "$2/$name" && echo -n ", $name is whole" ||
            echo -n ", $name has $(stat -c %s "$2/$name") bytes"
    done
    echo
}
all() { # ARCHIVE
    taken "$1" tar tar -xf "$1.tar" -C tar
    taken "$1" bsdtar packages/usr/bin/bsdtar -xf "$1.tar" -C bsdtar
    taken "$1" 7z packages/usr/lib/p7zip/7z x -y -o7z "$1.tar"
    taken "$1" python python3 take.py "$1.tar" python
    taken "$1" crate target/debug/probe "$1.tar" crate
    taken "$1" npm node -e "require('tar').x({file: '$1.tar', cwd: 'npm', sync: true})"
}
seen=$(all second; all label; taken twice 7z packages/usr/lib/p7zip/7z x -y -o7z twice.tar
    taken twice python python3 take.py twice.tar python)
printf '%s\n' "$seen"
whole="large is whole, small is whole"
rest="large has 1098240 bytes, small is whole"
emptied="large is whole, small has 0 bytes"
expected="second by tar: status 2, $whole
second by bsdtar: status 0, $rest
second by 7z: status 0, $rest
second by python: status 0, $rest
second by crate: status 0, $rest
second by npm: status 0, $whole
label by tar: status 0, $whole
label by bsdtar: status 0, $whole
label by 7z: status 0, $emptied
label by python: status 0, $emptied
label by crate: status 1, $whole
label by npm: status 0, $whole
twice by 7z: status 2, $whole
twice by python: status 1, $whole"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# tar 0.4.46 (crates.io), GNU tar 1.34 (Debian 12), tarfile of Python 3.11, Linux.
#
# Guess: a file from before 1970 goes into an archive with a negative time, as GNU tar writes it, or
# with 0; and a negative time in an archive comes out as it is.
# Seen: the crate writes the time as an unsigned number of 64 bits, so 1960 is 584 billion years
# ahead. Its own reader turns that back, and all looks well between programs in Rust. GNU tar sets
# the end of 1969 and exits with status 2; tarfile raises OverflowError there and does not take out
# what comes behind. The other way round the crate reads the negative times of --format=gnu, and
# of those of --format=posix (mtime=-1, the default there) it makes the second after 1970 began.
# So one old photo, or a file whose time was lost and set to -1, spoils an archive for the others.
# Whoever packs with the crate sets mtime by Header::set_mtime to 0 at least; whoever stores times
# in a format of his own tests one below zero with another program's reader.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export TZ=UTC
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
use std::fs::File;

fn main() -> std::io::Result<()> {
    let [_, what, archive] = &std::env::args().collect::<Vec<_>>()[..] else { panic!() };
    if what == "pack" {
        let mut builder = tar::Builder::new(File::create(archive)?);
        for name in ["first", "old", "last"] {
            builder.append_path(name)?;
        }
        builder.finish()
    } else {
        tar::Archive::new(File::open(archive)?).unpack("out")
    }
}
RUST
cargo build --quiet
echo data | tee first last > old
touch -d 2020-01-01T00:00:00 first last
touch -d 1960-01-01T00:00:00 old
target/debug/probe pack crate.tar
tar --format=gnu -cf gnu.tar first old last
tar --format=posix -cf posix.tar first old last
try() { # ARCHIVE READER COMMAND...: what the reader makes of the archive
    local what="$1 by $2" status=0
    shift 2
    rm -rf out
    mkdir out
    "$@" > messages 2>&1 || status=$?
    echo "$what: status $status, old of $(stat -c %y out/old | cut -c 1-19)," \
        "last $([ -e out/last ] && echo there || echo missing)"
}
seen=$(
    for archive in crate gnu posix; do
        try $archive "the crate" target/debug/probe unpack $archive.tar
        try $archive "GNU tar" tar -xf $archive.tar -C out
    done
    try crate tarfile python3 -m tarfile -e crate.tar out | sed 's/of 20.*, last/of today, last/'
    try gnu tarfile python3 -m tarfile -e gnu.tar out
)
printf '%s\n' "$seen"
expected="crate by the crate: status 0, old of 1960-01-01 00:00:00, last there
crate by GNU tar: status 2, old of 1969-12-31 23:59:59, last there
gnu by the crate: status 0, old of 1960-01-01 00:00:00, last there
gnu by GNU tar: status 0, old of 1960-01-01 00:00:00, last there
posix by the crate: status 0, old of 1970-01-01 00:00:01, last there
posix by GNU tar: status 0, old of 1960-01-01 00:00:00, last there
crate by tarfile: status 1, old of today, last missing
gnu by tarfile: status 0, old of 1960-01-01 00:00:00, last there"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

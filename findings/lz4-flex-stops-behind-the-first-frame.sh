#!/usr/bin/env bash
# lz4_flex 0.13.2 (crates.io), lz4 1.9.4 (package of Debian 12).
#
# Guess: its reader goes on to the next frame, as the lz4 program does and as the format allows for
# files put one behind the other; what it cannot read is an error.
# Seen: read gives 0 at the end of each frame, which is "end of file" to read_to_end, to io::copy
# and to lines(). A log that was compressed in two runs into one file is read as its first part,
# without an error. The next read after that "end" goes on with the second frame.
# So a caller reads until two ends in a row, or looks whether the reader underneath has bytes left.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
chmod 755 .
apt-get -qq download lz4=1.9.4-1 liblz4-1=1.9.4-1
for package in *.deb; do dpkg -x "$package" packages; done
lz4() { LD_LIBRARY_PATH=$dir/packages/usr/lib/x86_64-linux-gnu packages/usr/bin/lz4 -q "$@"; }
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
lz4_flex = "=0.13.2"
[profile.dev]
debug = 0
[workspace]
TOML
cat > src/main.rs <<'RUST'
use std::io::Read;

fn main() -> std::io::Result<()> {
    let file = std::fs::File::open("log.lz4")?;
    let mut reader = lz4_flex::frame::FrameDecoder::new(file);
    for round in ["lz4_flex", "lz4_flex, after the end"] {
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        println!("{round}: {}", text.trim_end());
    }
    Ok(())
}
RUST
for run in first second; do echo "$run run" | lz4 -c >> log.lz4; done
cargo build --quiet
seen=$(echo "lz4: $(lz4 -dc log.lz4 | paste -sd ' ')"; target/debug/probe)
printf '%s\n' "$seen"
expected="lz4: first run second run
lz4_flex: first run
lz4_flex, after the end: second run"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

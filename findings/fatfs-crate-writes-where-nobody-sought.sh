#!/usr/bin/env bash
# fatfs 0.3.6 (crates.io).
#
# Guess: its File, which has the Seek of the standard library, can be sought behind its end and
# written there, with zeros between as FAT needs them; or seek or write are refused.
# Seen: seek goes to the end instead and says so by what it returns, not by an error. The next write
# lands there: three bytes "at 1000" of a file of five are bytes 5 to 7, and the file has size 8.
# A writer that leaves room for a header which it fills in at the end, on an empty file, gets its
# header over the start of its data. std::fs::File and Cursor make zeros.
# Code that is generic over Write + Seek does not look at what seek returns; over this crate it has
# to compare, or write the zeros itself first.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
fatfs = "=0.3.6"
[profile.dev]
debug = 0
[workspace]
TOML
cat > src/main.rs <<'RUST'
use std::io::{Cursor, Read, Result, Seek, SeekFrom, Write};

/// Writes behind the end, then the same with room for a header; tells what is in the files.
fn probe<F: Read + Write + Seek>(what: &str, mut gap: F, mut record: F) -> Result<()> {
    gap.write_all(b"start")?;
    let place = gap.seek(SeekFrom::Start(1000))?;
    gap.write_all(b"end")?;
    let size = gap.seek(SeekFrom::End(0))?;
    println!("{what}: seek to 1000 gave {place}, size {size}");
    record.seek(SeekFrom::Start(4))?;
    record.write_all(b"data of the record")?;
    record.seek(SeekFrom::Start(0))?;
    record.write_all(b"HEAD")?;
    record.seek(SeekFrom::Start(0))?;
    let mut text = String::new();
    record.read_to_string(&mut text)?;
    println!("{what}: record {text:?}");
    Ok(())
}

fn main() -> Result<()> {
    let open = |name| {
        std::fs::File::options().read(true).write(true).create_new(true).open(name)
    };
    probe("std", open("gap")?, open("record")?)?;
    probe("Cursor", Cursor::new(Vec::new()), Cursor::new(Vec::new()))?;
    let mut disk = Cursor::new(vec![0; 4 << 20]);
    fatfs::format_volume(&mut disk, fatfs::FormatVolumeOptions::new())?;
    let volume = fatfs::FileSystem::new(disk, fatfs::FsOptions::new())?;
    let root = volume.root_dir();
    let (gap, record) = (root.create_file("gap")?, root.create_file("record")?);
    probe("fatfs", gap, record)
}
RUST
seen=$(cargo run -q 2> messages) || { cat messages >&2; exit 1; }
printf '%s\n' "$seen"
expected='std: seek to 1000 gave 1000, size 1003
std: record "HEADdata of the record"
Cursor: seek to 1000 gave 1000, size 1003
Cursor: record "HEADdata of the record"
fatfs: seek to 1000 gave 5, size 8
fatfs: record "HEAD of the record"'
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

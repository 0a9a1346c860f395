#!/usr/bin/env bash
# fjall 3.1.13 with lsm-tree 3.1.10 (crates.io), Linux, a local filesystem.
#
# Guess: after every key of a keyspace was removed and a major compaction has returned, either the
# files are gone or disk_space() counts them.
# Seen: 500,000 keys of 104 bytes take 55 MB. With all of them removed, flushed and compacted,
# disk_space() says 0 bytes and table_count() 0, and 60 MB of table files still lie in the
# directory, also seconds later. One more record that is flushed makes them go.
# So who frees room writes one record behind the compaction and flushes it, and nobody judges a
# disk's room by disk_space().
# Beside it: a Database that was dropped stays locked while a handle of a keyspace of it lives; the
# next open waits 200 ms and says Locked, in the same process.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src"
cat > "$dir/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
fjall = "=3.1.13"
lsm-tree = "=3.1.10"
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use fjall::{Database, KeyspaceCreateOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of all files below `dir` on the disk.
fn used(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let size = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => used(&entry.path()),
        false => entry.metadata().unwrap().blocks() * 512,
    };
    entries.map(size).sum()
}

/// Bytes that hardly compress.
fn noise(seed: u64) -> [u8; 100] {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

fn main() -> fjall::Result<()> {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let db = Database::builder(&dir).open()?;
    let keyspace = db.keyspace("a", KeyspaceCreateOptions::default)?;
    let files = dir.join("keyspaces");
    let show = |what: &str, keyspace: &fjall::Keyspace| {
        let mb = 1_000_000;
        println!("{what}: says {} MB, files over 40 MB: {}", keyspace.disk_space() / mb, used(&files) > 40 * mb);
    };
    for key in 0..500_000u32 {
        keyspace.insert(key.to_be_bytes(), noise(key.into()))?;
    }
    keyspace.rotate_memtable_and_wait()?;
    println!("full: files over 40 MB: {}", used(&files) > 40_000_000);
    for key in 0..500_000u32 {
        keyspace.remove(key.to_be_bytes())?;
    }
    keyspace.rotate_memtable_and_wait()?;
    keyspace.major_compact()?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    show("removed and compacted", &keyspace);
    keyspace.insert("one", "more")?;
    keyspace.rotate_memtable_and_wait()?;
    show("one more record", &keyspace);
    drop(db);
    let locked = matches!(Database::builder(&dir).open(), Err(fjall::Error::Locked));
    println!("locked beside a keyspace handle: {locked}");
    drop(keyspace);
    println!("opens without it: {}", Database::builder(&dir).open().is_ok());
    Ok(())
}
RUST
(cd "$dir" && cargo build --quiet --release)
seen=$("$dir/target/release/probe" "$dir/db")
expected="full: files over 40 MB: true
removed and compacted: says 0 MB, files over 40 MB: true
one more record: says 0 MB, files over 40 MB: false
locked beside a keyspace handle: true
opens without it: true"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

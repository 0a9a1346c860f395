#!/usr/bin/env bash
# fs_extra 1.3.0 (crates.io), Linux.
#
# Guess: to move or copy something to where it is already, with overwrite set, does nothing, as
# rename(2) does, or fails, as cp and mv do.
# Seen: it opens the target for writing, which empties it, copies nothing from it and returns Ok.
# After a copy the file is there and empty; after a move it is removed as the source, and so is a
# whole tree of directories. One hard link moved onto another is left empty. A tree that is moved
# below itself, which rename(2) refuses, is gone as well, and the call returns Ok with the bytes
# that it had copied into what it removed.
# So an "import these into the folder" that is given what lies in that folder already loses it all;
# the caller compares device and inode number of source and target first (of each item, and of each
# directory above the target).
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
fs_extra = "=1.3.0"
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use fs_extra::error::Result;
use fs_extra::{dir, file};
use std::fs;
use std::path::Path;

/// Counts the files of a tree and the bytes in them.
fn count(place: &Path) -> (usize, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir(place).into_iter().flatten() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            let below = count(&entry.path());
            sum = (sum.0 + below.0, sum.1 + below.1);
        } else {
            sum = (sum.0 + 1, sum.1 + metadata.len());
        }
    }
    sum
}

/// Makes `top/tree/{one,two}`, runs the change and tells what is left of the 8 bytes.
fn see(root: &Path, what: &str, change: impl Fn(&Path) -> Result<u64>) {
    let top = root.join(what);
    fs::create_dir_all(top.join("tree")).unwrap();
    for name in ["one", "two"] {
        fs::write(top.join("tree").join(name), "text").unwrap();
    }
    let returned = match change(&top) {
        Ok(bytes) => format!("Ok({bytes})"),
        Err(error) => format!("error, {:?}", error.kind),
    };
    let (files, bytes) = count(&top);
    println!("{what}: {returned}, left {files} files of {bytes} bytes");
}

fn main() {
    let root = std::env::args().nth(1).unwrap();
    let root = Path::new(&root);
    let one = file::CopyOptions::new().overwrite(true);
    let all = dir::CopyOptions::new().overwrite(true);
    see(root, "copy of a file", |top| file::copy(top.join("tree/one"), top.join("tree/one"), &one));
    see(root, "move of a file", |top| {
        file::move_file(top.join("tree/one"), top.join("tree/one"), &one)
    });
    see(root, "move onto a hard link", |top| {
        fs::remove_file(top.join("tree/two"))?;
        fs::hard_link(top.join("tree/one"), top.join("tree/two"))?;
        file::move_file(top.join("tree/one"), top.join("tree/two"), &one)
    });
    see(root, "copy of a tree", |top| dir::copy(top.join("tree"), top, &all));
    see(root, "move of a tree", |top| dir::move_dir(top.join("tree"), top, &all));
    see(root, "move of items", |top| fs_extra::move_items(&[top.join("tree")], top, &all));
    see(root, "move below itself", |top| {
        let inside = dir::CopyOptions::new().copy_inside(true);
        dir::move_dir(top.join("tree"), top.join("tree/below"), &inside)
    });
    see(root, "without overwrite", |top| {
        dir::move_dir(top.join("tree"), top, &dir::CopyOptions::new())
    });
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe" "$dir/tries")
printf '%s\n' "$seen"
expected="copy of a file: Ok(0), left 2 files of 4 bytes
move of a file: Ok(0), left 1 files of 4 bytes
move onto a hard link: Ok(0), left 1 files of 0 bytes
copy of a tree: Ok(0), left 2 files of 0 bytes
move of a tree: Ok(0), left 0 files of 0 bytes
move of items: Ok(0), left 0 files of 0 bytes
move below itself: Ok(8), left 0 files of 0 bytes
without overwrite: error, AlreadyExists, left 2 files of 8 bytes"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

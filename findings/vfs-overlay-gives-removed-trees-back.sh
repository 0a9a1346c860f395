#!/usr/bin/env bash
# vfs 0.13.0 (crates.io), OverlayFS and MemoryFS.
#
# Guess: the overlay refuses to remove a directory that has files in it, as the same call does over
# PhysicalFS, and a directory that is made again after its removal is empty. A file in MemoryFS that
# is removed or moved while it is being written stays away; a directory cannot become a file.
# Seen: the overlay's remove_dir takes a full directory away and returns Ok; create_dir then makes
# it again with all that the lower layer had in it. remove_dir_all of the same tree is right.
# MemoryFS writes the name anew whenever an open file is flushed or dropped: a removed file is back,
# a log that was moved away is at both names, and what is written after the move is in the old one.
# create_file on a directory makes it a file with its tree gone, and remove_file takes a directory
# off with its tree; neither fails, in memory or in an overlay above it.
# So code that relies on "remove it if it is empty" passes its tests on a disk and removes trees
# over an overlay, and data that a user has removed appears again. The caller lists a directory
# before remove_dir, and closes files before it removes or moves their names.
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
vfs = "=0.13.0"
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use std::path::Path;
use vfs::{MemoryFS, OverlayFS, PhysicalFS, VfsPath, VfsResult};

/// A directory "tree" with one file in it.
fn fill(root: &VfsPath) -> VfsResult<()> {
    root.join("tree")?.create_dir()?;
    root.join("tree/file")?.create_file()?.write_all(b"text")?;
    Ok(())
}

fn start(kind: &str, disk: &Path) -> VfsResult<VfsPath> {
    let memory: VfsPath = MemoryFS::new().into();
    let root = match kind {
        "disk" => {
            let _ = std::fs::remove_dir_all(disk);
            std::fs::create_dir(disk)?;
            PhysicalFS::new(disk).into()
        }
        "overlay" => {
            fill(&memory)?;
            return Ok(OverlayFS::new(&[MemoryFS::new().into(), memory]).into());
        }
        _ => memory,
    };
    fill(&root)?;
    Ok(root)
}

fn told<T>(result: VfsResult<T>) -> &'static str {
    if result.is_ok() { "ok" } else { "refused" }
}

/// All names, without the overlay's own.
fn names(root: &VfsPath) -> VfsResult<String> {
    let mut names = Vec::new();
    for path in root.walk_dir()? {
        let path = path?;
        if !path.as_str().contains(".whiteout") {
            let sign = if path.is_dir()? { "/" } else { "" };
            names.push(format!("{}{sign}", path.as_str().trim_start_matches('/')));
        }
    }
    names.sort();
    Ok(if names.is_empty() { "nothing".into() } else { names.join(" ") })
}

fn main() -> VfsResult<()> {
    let disk = Path::new(env!("CARGO_MANIFEST_DIR")).join("disk");
    for kind in ["disk", "memory", "overlay"] {
        let root = start(kind, &disk)?;
        let tree = root.join("tree")?;
        print!("{kind}, remove_dir of a full one: {}", told(tree.remove_dir()));
        println!(", there is {}", names(&root)?);
        print!("{kind}, made again: {}", told(tree.create_dir()));
        println!(", there is {}", names(&root)?);

        let root = start(kind, &disk)?;
        let tree = root.join("tree")?;
        println!("{kind}, remove_dir_all: {}", told(tree.remove_dir_all()));
        print!("{kind}, made again: {}", told(tree.create_dir()));
        println!(", there is {}", names(&root)?);

        let root = start(kind, &disk)?;
        let mut file = root.join("log")?.create_file()?;
        file.write_all(b"text")?;
        root.join("log")?.remove_file()?;
        drop(file);
        println!("{kind}, removed while written: there is {}", names(&root)?);

        let root = start(kind, &disk)?;
        let mut file = root.join("log")?.create_file()?;
        file.write_all(b"one")?;
        file.flush()?;
        root.join("log")?.move_file(&root.join("log.1")?)?;
        file.write_all(b"two")?;
        drop(file);
        print!("{kind}, moved while written: there is {}", names(&root)?);
        println!(", log.1 has {}", root.join("log.1")?.read_to_string()?);

        let root = start(kind, &disk)?;
        print!("{kind}, create_file on a directory: {}", told(root.join("tree")?.create_file()));
        println!(", there is {}", names(&root)?);

        let root = start(kind, &disk)?;
        print!("{kind}, remove_file of a directory: {}", told(root.join("tree")?.remove_file()));
        println!(", there is {}", names(&root)?);
    }
    Ok(())
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe")
printf '%s\n' "$seen"
expected="disk, remove_dir of a full one: refused, there is tree/ tree/file
disk, made again: refused, there is tree/ tree/file
disk, remove_dir_all: ok
disk, made again: ok, there is tree/
disk, removed while written: there is tree/ tree/file
disk, moved while written: there is log.1 tree/ tree/file, log.1 has onetwo
disk, create_file on a directory: refused, there is tree/ tree/file
disk, remove_file of a directory: refused, there is tree/ tree/file
memory, remove_dir of a full one: refused, there is tree/ tree/file
memory, made again: refused, there is tree/ tree/file
memory, remove_dir_all: ok
memory, made again: ok, there is tree/
memory, removed while written: there is log tree/ tree/file
memory, moved while written: there is log log.1 tree/ tree/file, log.1 has one
memory, create_file on a directory: ok, there is tree
memory, remove_file of a directory: ok, there is nothing
overlay, remove_dir of a full one: ok, there is nothing
overlay, made again: ok, there is tree/ tree/file
overlay, remove_dir_all: ok
overlay, made again: ok, there is tree/
overlay, removed while written: there is tree/ tree/file
overlay, moved while written: there is log.1 tree/ tree/file, log.1 has one
overlay, create_file on a directory: ok, there is tree
overlay, remove_file of a directory: ok, there is nothing"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

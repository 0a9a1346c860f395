#!/usr/bin/env bash
# object_store 0.14.2 (crates.io), local filesystem store.
#
# Guess: copy and rename of the local store end as in a bucket: after a copy there are two objects,
# however often it is repeated, and after a rename the old name is gone.
# Seen: a copy is a hard link under a working name (#0), renamed to the target. Where the target is
# such a link already, rename(2) does nothing and reports success. So a copy that is repeated leaves
# the working name behind, one more each time, and so does a copy of an object to itself; a rename
# onto an object that was copied from it returns Ok, and the old name is still there. list() hides
# working names: with both objects deleted the store is empty, and their bytes are still on the
# disk. The memory store of the same crate does what was guessed.
# So a job that copies the same objects again and again (a snapshot, "latest") fills the directory
# with names that only the operating system shows; remove a target before copying onto it, and clean
# up files that end in # and a number.
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
futures = "=0.3.34"
object_store = { version = "=0.14.2", default-features = false, features = ["fs"] }
tokio = { version = "1", features = ["rt", "macros"] }
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, Result};
use std::fs;

/// Prints the store's objects, and the files that are below its directory.
async fn show(store: &dyn ObjectStore, root: Option<&str>, what: &str) -> Result<()> {
    let mut objects: Vec<_> = store
        .list(None)
        .map_ok(|object| object.location.to_string())
        .try_collect()
        .await?;
    objects.sort();
    println!("{what}: objects {objects:?}");
    if let Some(root) = root {
        let mut files: Vec<_> = fs::read_dir(root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        println!("{what}: files {files:?}");
    }
    Ok(())
}

async fn run(store: &dyn ObjectStore, root: Option<&str>) -> Result<()> {
    let (one, two) = (Path::from("one"), Path::from("two"));
    store.put(&one, "text".into()).await?;
    for what in ["copied", "again", "once more"] {
        store.copy(&one, &two).await?;
        show(store, root, what).await?;
    }
    store.rename(&one, &two).await?;
    show(store, root, "renamed").await?;
    store.copy(&two, &two).await?;
    show(store, root, "to itself").await?;
    for name in [one, two] {
        if store.head(&name).await.is_ok() {
            store.delete(&name).await?;
        }
    }
    show(store, root, "deleted").await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    println!("memory store");
    run(&InMemory::new(), None).await?;
    println!("local store");
    let root = std::env::args().nth(1).unwrap();
    fs::create_dir(&root).unwrap();
    run(&LocalFileSystem::new_with_prefix(&root)?, Some(&root)).await
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe" "$dir/store")
printf '%s\n' "$seen"
expected="memory store
copied: objects [\"one\", \"two\"]
again: objects [\"one\", \"two\"]
once more: objects [\"one\", \"two\"]
renamed: objects [\"two\"]
to itself: objects [\"two\"]
deleted: objects []
local store
copied: objects [\"one\", \"two\"]
copied: files [\"one\", \"two\"]
again: objects [\"one\", \"two\"]
again: files [\"one\", \"two\", \"two#0\"]
once more: objects [\"one\", \"two\"]
once more: files [\"one\", \"two\", \"two#0\", \"two#1\"]
renamed: objects [\"one\", \"two\"]
renamed: files [\"one\", \"two\", \"two#0\", \"two#1\"]
to itself: objects [\"one\", \"two\"]
to itself: files [\"one\", \"two\", \"two#0\", \"two#1\", \"two#2\"]
deleted: objects []
deleted: files [\"two#0\", \"two#1\", \"two#2\"]"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

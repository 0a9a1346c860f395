#!/usr/bin/env bash
# object_store 0.14.2 (crates.io), local filesystem store.
#
# Guess: the plural call is the singular one for several ranges, so both treat a range that runs
# past the end of an object alike, and the memory store of the same crate treats it like the local
# one.
# Seen: of an object of 100 bytes, get_range(90..110) returns the 10 bytes that are there. The
# same range in get_ranges fails the whole call, also its good ranges, and the error says that 10
# bytes were expected and 10 came. In the memory store both calls return the 10 bytes. An empty
# range is the other way round: an error in get_range, fine in get_ranges of the local store, and
# an error in both calls of the memory store.
# So a caller clamps each range to the known length and leaves empty ones out, and a test on the
# memory store proves nothing of this for the local one.
set -eu
shopt -s inherit_errexit
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src" "$dir/store"
cat > "$dir/Cargo.toml" <<'TOML'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"
[dependencies]
object_store = { version = "=0.14.2", default-features = false, features = ["fs"] }
tokio = { version = "1", features = ["rt", "macros"] }
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use object_store::{local::LocalFileSystem, memory::InMemory, path::Path};
use object_store::{ObjectStore, ObjectStoreExt};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let root = std::env::args().nth(1).unwrap();
    let local = LocalFileSystem::new_with_prefix(root).unwrap();
    let stores: [(&str, Box<dyn ObjectStore>); 2] =
        [("local", Box::new(local)), ("memory", Box::new(InMemory::new()))];
    for (name, store) in stores {
        let path = Path::from("object");
        store.put(&path, vec![7u8; 100].into()).await.unwrap();
        let word = |ok: bool| if ok { "ok" } else { "error" };
        let one = store.get_range(&path, 90..110).await;
        println!("{name} past-end one {}", one.map_or("error".into(), |b| b.len().to_string()));
        match store.get_ranges(&path, &[0..10, 90..110]).await {
            Ok(all) => println!("{name} past-end many {:?}", all.iter().map(|b| b.len()).collect::<Vec<_>>()),
            Err(error) => println!("{name} past-end many error {}", format!("{error:?}").contains("expected: 10, actual: 10")),
        }
        println!("{name} empty one {}", word(store.get_range(&path, 5..5).await.is_ok()));
        println!("{name} empty many {}", word(store.get_ranges(&path, &[5..5]).await.is_ok()));
    }
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe" "$dir/store")
expected="local past-end one 10
local past-end many error true
local empty one error
local empty many ok
memory past-end one 10
memory past-end many [10, 10]
memory empty one error
memory empty many error"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

#!/usr/bin/env bash
# fjall 3.1.13 with lsm-tree 3.1.10 (crates.io), Linux.
#
# Guess: an optimistic transaction of fjall is serializable, so whatever it read through any of its
# calls makes its commit a conflict when somebody else has changed that meanwhile.
# Seen: get, contains_key, first_key_value, len, is_empty, iter, range and prefix all do that.
# size_of does not: it reads the value's length and leaves no mark, and both commits succeed. Two
# transactions that each look with size_of whether the other's key is there, and write their own
# when it is not, both write; with contains_key one of them is refused.
# So size_of is no cheap get in a transaction that decides by it; whoever needs the length reads the
# value, or calls contains_key of the same key beside it.
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
[profile.dev]
debug = 0
[workspace]
TOML
cat > "$dir/src/main.rs" <<'RUST'
use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, Readable};

/// Is the key there, asked in one of several ways?
type Ask = fn(&OptimisticWriteTx, &OptimisticTxKeyspace, &str) -> fjall::Result<bool>;

const WAYS: [(&str, Ask); 7] = [
    ("get", |tx, keyspace, key| Ok(tx.get(keyspace, key)?.is_some())),
    ("contains_key", |tx, keyspace, key| tx.contains_key(keyspace, key)),
    ("size_of", |tx, keyspace, key| Ok(tx.size_of(keyspace, key)?.is_some())),
    ("len", |tx, keyspace, _| Ok(tx.len(keyspace)? > 0)),
    ("is_empty", |tx, keyspace, _| Ok(!tx.is_empty(keyspace)?)),
    ("first", |tx, keyspace, _| Ok(tx.first_key_value(keyspace).is_some())),
    ("prefix", |tx, keyspace, key| Ok(tx.prefix(keyspace, key).next().is_some())),
];

fn main() -> fjall::Result<()> {
    let db = OptimisticTxDatabase::builder(std::env::args().nth(1).unwrap()).open()?;
    for (name, is_there) in WAYS {
        let keyspace = db.keyspace(name, KeyspaceCreateOptions::default)?;
        // Each takes the place if the other has not taken it.
        let mut one = db.write_tx()?;
        let mut two = db.write_tx()?;
        assert!(!is_there(&one, &keyspace, "two")? && !is_there(&two, &keyspace, "one")?);
        one.insert(&keyspace, "one", "taken");
        two.insert(&keyspace, "two", "taken");
        let committed = [one.commit()?.is_ok(), two.commit()?.is_ok()];
        println!("{name}: committed {committed:?}");
    }
    Ok(())
}
RUST
(cd "$dir" && cargo build --quiet)
seen=$("$dir/target/debug/probe" "$dir/db")
expected="get: committed [true, false]
contains_key: committed [true, false]
size_of: committed [true, true]
len: committed [true, false]
is_empty: committed [true, false]
first: committed [true, false]
prefix: committed [true, false]"
printf '%s\n' "$seen"
[ "$seen" = "$expected" ] || { echo "this is no longer what is described above" >&2; exit 1; }

//! The races of the filesystem, under schedules that shuttle chooses.
//!
//! `cargo test -p hearth --features shuttle --test shuttle`. A failing schedule is printed with
//! the string that replays it.
//!
//! Parts that the crate keeps private are compiled into this test from their source.
#![cfg(feature = "shuttle")]
// A test that panics has said what it has to say, in helpers too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../src/cache_padded.rs"]
mod cache_padded;
#[allow(dead_code, missing_docs)]
#[path = "../../backend/src/errno.rs"]
mod errno;
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../src/fdtable/mod.rs"]
mod fdtable;
#[allow(dead_code)]
#[path = "../src/superblock/handle.rs"]
mod handle;
#[allow(dead_code, missing_docs, unused_imports)]
#[path = "../src/locks/mod.rs"]
mod locks;

#[path = "shuttle/bursts.rs"]
mod bursts;
#[path = "shuttle/charge_races.rs"]
mod charge_races;
#[path = "shuttle/dup2_races.rs"]
mod dup2_races;
#[path = "shuttle/eviction_races.rs"]
mod eviction_races;
#[path = "shuttle/explore.rs"]
mod explore;
#[path = "shuttle/fd_races.rs"]
mod fd_races;
#[path = "shuttle/grow_races.rs"]
mod grow_races;
#[path = "shuttle/handle_races.rs"]
mod handle_races;
#[path = "shuttle/heat_races.rs"]
mod heat_races;
#[path = "shuttle/lock_races.rs"]
mod lock_races;
#[path = "shuttle/nameless_races.rs"]
mod nameless_races;
#[path = "shuttle/rename_races.rs"]
mod rename_races;
#[path = "shuttle/size_races.rs"]
mod size_races;
#[path = "shuttle/sync_races.rs"]
mod sync_races;
#[path = "shuttle/tree_races.rs"]
mod tree_races;
#[path = "shuttle/walk_races.rs"]
mod walk_races;

/// This program is the one that the tests build without stores.
#[cfg(not(feature = "store"))]
#[test]
fn a_store_is_refused_where_the_library_was_built_without() {
    let error = hearth::open("store:/srv/volume").expect_err("no stores");
    let error = error.to_string();
    assert!(error.contains("'store:/srv/volume'"), "{error}");
    assert!(error.contains("its feature 'store'"), "{error}");
}

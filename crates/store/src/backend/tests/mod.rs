mod audit;
mod bounds;
mod data;
mod full;
mod looks;
mod merges;
mod model;
mod on_disk;
mod reuse;
mod small;

use super::*;
use crate::schema::Random;
use hearth_backend::{Attrs, Edit, Kind};

pub const PAGE: usize = 4096;

pub fn attrs(generation: u32, kind: Kind) -> Attrs {
    Attrs::new(generation, kind, 0o644)
}

pub fn inode(ino: u64, attrs: Attrs) -> Inode {
    Inode {
        ino,
        attrs,
        size: 0,
        pages: 0,
        touched: 0,
        entries: (0, 0),
        parent: 0,
        target: Box::default(),
        xattrs: Vec::new(),
    }
}

pub fn new(ino: u64, attrs: Attrs) -> Record {
    Record::new(inode(ino, attrs))
}

pub fn root() -> Record {
    new(1, attrs(1, Kind::Directory))
}

pub fn contents(ino: u64, generation: u32, version: u32, size: u64, edit: Edit) -> Record {
    Record::Contents {
        ino,
        generation,
        version,
        size,
        touched: 0,
        order: 0,
        edit,
    }
}

/// A page whose bytes tell it from others.
pub fn page(seed: u64) -> Box<[u8]> {
    let mut bytes = vec![0; PAGE];
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk
            .copy_from_slice(&(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64).to_le_bytes());
    }
    bytes.into()
}

/// A store in memory, and its parts.
pub fn store() -> (StoreBackend, Arc<MemoryKv>, Arc<MemoryBlocks>) {
    let (kv, blocks) = (Arc::new(MemoryKv::new()), Arc::new(MemoryBlocks::new()));
    let store = StoreBackend::new(kv.clone(), blocks.clone()).unwrap();
    (store, kv, blocks)
}

/// All pages of a file in a range, zeros padded.
pub fn read(store: &StoreBackend, ino: u64, range: Range<u64>) -> Vec<(u64, Vec<u8>)> {
    let mut pages = Vec::new();
    store
        .load_pages(ino, range, &mut |index, bytes| {
            let mut bytes = bytes.to_vec();
            bytes.resize(PAGE, 0);
            pages.push((index, bytes));
        })
        .unwrap();
    pages
}

/// Limits with which idle work is always worth it.
pub fn eager() -> Limits {
    Limits {
        inline_bytes: 1,
        live_percent: 100,
        live_percent_low_room: 100,
        small_pages: 512,
        small_segments: 3,
        ..Limits::default()
    }
}

/// Idle work until there is none left; how many pieces it was.
pub fn tidy_all(store: &StoreBackend) -> usize {
    let pieces = (0..10_000).take_while(|_| store.tidy()).count();
    assert!(pieces < 10_000, "idle work comes to rest");
    pieces
}

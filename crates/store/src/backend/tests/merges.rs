//! Idle work that has the engine merge its tables.

use super::*;
use crate::engine::Compacted;
use crate::{KvOp, Read};
use hearth_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, thread};
use std::time::{Duration, Instant};

/// Keys and values whose tables cannot be merged.
struct Unmergeable {
    kv: MemoryKv,
    merges: AtomicU32,
}

impl Read for Unmergeable {
    fn get(&self, table: Table, key: &[u8]) -> crate::Result<Option<Vec<u8>>> {
        self.kv.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> crate::Result<()> {
        self.kv.scan(table, from, to, visit)
    }
}

impl KeyValues for Unmergeable {
    fn epoch(&self) -> u64 {
        self.kv.epoch()
    }

    fn opened(&self) -> u32 {
        self.kv.opened()
    }

    fn commit(&self, epoch: u64, ops: &[KvOp]) -> crate::Result<()> {
        self.kv.commit(epoch, ops)
    }

    fn checkpoint(&self) -> crate::Result<()> {
        self.kv.checkpoint()
    }

    fn compact(&self, _: u64) -> crate::Result<Option<Compacted>> {
        self.merges.fetch_add(1, Relaxed);
        Err(crate::Error::corrupt("engine", 0, "a bad block"))
    }

    fn close(&self) -> crate::Result<()> {
        self.kv.close()
    }

    fn room(&self) -> Option<(u64, u64)> {
        self.kv.room()
    }
}

/// Once, idle work read all tables up to a bad block every ten seconds, with the engine opened anew
/// behind each attempt.
#[test]
fn a_merge_that_failed_is_not_tried_again_at_once() {
    const QUIET: Duration = Duration::from_millis(20);
    let kv = Arc::new(Unmergeable {
        kv: MemoryKv::new(),
        merges: AtomicU32::new(0),
    });
    let blocks = Arc::new(MemoryBlocks::new());
    let store = StoreBackend::new(Arc::clone(&kv) as _, blocks).unwrap();
    let store = store.with_limits(Limits {
        quiet: QUIET,
        ..eager()
    });
    store.commit(1, vec![root()]).unwrap();
    let begun = Instant::now();
    // Most of the rest of sixty times as long.
    while begun.elapsed() < 40 * QUIET {
        store.tidy();
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(kv.merges.load(Relaxed), 1);
}

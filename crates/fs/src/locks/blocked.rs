//! Which of the requests that wait have to be looked at again when one of them is granted.
//!
//! A grant takes no lock away. It only may turn exclusive bytes of its owner into shared ones, and
//! so free the way for a request for a shared lock. Such a request is noted with one byte that is
//! exclusively another owner's: until that byte changes, it waits. Without this each grant would
//! have to look at the whole queue: 1,448 requests that freed the way for one another, from the
//! youngest to the oldest, took 40 s under the lock of the file.

use std::collections::BTreeMap;

use super::request::{LockKind, LockRequest};

/// Place of a request in the queue, and of the owner of the lock that it waits for.
type BlockedAt = (usize, usize);

/// The requests of one queue that wait for a shared lock, while others are granted.
#[derive(Default)]
pub(super) struct Blocked {
    /// By owner and byte of the lock that each waits for.
    by_byte: BTreeMap<(u64, u64), Vec<BlockedAt>>,
    /// Those that are to be looked at again: the byte is shared now.
    again: BTreeMap<usize, usize>,
    /// Place of the request that was looked at last.
    last: usize,
}

impl Blocked {
    /// A request waits for `lock`.
    pub(super) fn add(
        &mut self,
        (index, request): (usize, &LockRequest),
        (place, lock): (usize, &LockRequest),
    ) {
        if request.kind == LockKind::Read {
            let byte = lock.start.max(request.start);
            let waiting = self.by_byte.entry((lock.owner, byte)).or_default();
            waiting.push((index, place));
        }
    }

    /// A request was granted.
    pub(super) fn granted(&mut self, index: usize, request: &LockRequest) {
        self.last = index;
        if request.kind != LockKind::Read {
            return;
        }
        let bytes = (request.owner, request.start)..=(request.owner, request.end);
        while let Some((&byte, _)) = self.by_byte.range(bytes.clone()).next() {
            self.again
                .extend(self.by_byte.remove(&byte).unwrap_or_default());
        }
    }

    /// The next request that has to be looked at again, in the order of arrival from the last one
    /// on, then from the oldest; and the place from which owners have to be looked at.
    pub(super) fn next(&mut self) -> Option<BlockedAt> {
        let behind = self.again.range(self.last..).next();
        let (&index, _) = behind.or_else(|| self.again.first_key_value())?;
        self.last = index;
        self.again.remove_entry(&index)
    }
}

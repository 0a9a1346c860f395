//! Pages that the kernel writes back: it has acknowledged them, so nobody waits for an answer.
//!
//! The kernel takes a part that is stored for the whole. So a request is answered with an error
//! unless all of it is stored; the kernel keeps the error for `fsync`. One page that cannot be
//! stored is no reason to lose the others of its request, so then each is stored for itself.

use crate::dispatch::kernel_cache::suid_killer::SuidKiller;
use crate::dispatch::{Context, Dispatcher, OpResult, guarded};
use crate::wait::enospc_retry::is_enospc;
use crate::wait::outcome::{BlockingClass, InlineReply, Missing, Outcome, WaitFor};
use crate::wire::reply::Reply;
use crate::wire::{InHeader, WRITE_KILL_SUIDGID, WriteIn, WriteOut};
use hearth::{Caller, Errno, KernelCache, VfsError};
use std::ops::Range;

/// Bytes of a page.
const PAGE: u64 = 4096;

impl<V: KernelCache> Dispatcher<V> {
    /// A write from the page cache. The handle that the kernel sends is a guess that may be gone by
    /// now; the inode is certain.
    pub(super) fn write_back(
        &self,
        cx: &Context<'_>,
        args: &WriteIn,
        data: &[u8],
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let (caller, ino, done) = (cx.caller(0), cx.ino(), cx.attempt.written);
        let kill = args.write_flags & WRITE_KILL_SUIDGID != 0;
        let (offset, rest) = (args.offset + done as u64, &data[done..]);
        self.blocks_may_grow(ino);
        let store = || {
            if kill {
                self.strip_suidgid(&caller, ino)?;
            }
            self.vfs
                .write_back(&caller, ino, offset, rest, kill, self.pages_move_times())
        };
        // A panic costs what it would not store, which is told as lost.
        let stored = match cx.attempt.failed {
            Some(errno) => Err(errno.into()),
            None => guarded(&self.volume, store),
        };
        let (size, may_fit) = match stored {
            Ok(size) => (done + size, true),
            // It is attempted again, whether that can be fetched or not.
            Err(VfsError::Miss(miss)) => {
                return Ok(Outcome::Wait(WaitFor::Fetch(Missing { miss, op: None })));
            }
            Err(VfsError::Errno(errno)) => (done, is_enospc(errno)),
        };
        if size == data.len() {
            let size = size as u32;
            reply.push(&WriteOut { size, padding: 0 })?;
            return Ok(Outcome::Done(()));
        }
        if may_fit && cx.attempt.again && cx.attempt.failed.is_none() {
            return Ok(Outcome::Wait(WaitFor::Space(size)));
        }
        Ok(self.store_what_can_be(cx.header, args, size, data))
    }

    /// Whether pages that are written back move the times of their file. A kernel with a writeback
    /// cache says itself when they were written, and says it first if it writes pages back without
    /// waiting for them. It does not say it if its connection is about to be aborted.
    fn pages_move_times(&self) -> bool {
        !self.settings.writeback || self.notifier.ends_soon()
    }

    /// Stores what can be of a request that cannot be stored as one, from its byte `done` on, and
    /// reports what is lost.
    fn store_what_can_be(
        &self,
        header: InHeader,
        args: &WriteIn,
        done: usize,
        data: &[u8],
    ) -> Outcome<()> {
        let (vfs, data, touches) = (self.vfs.clone(), data.to_vec(), self.pages_move_times());
        let volume = self.volume.clone();
        let suid_killer = SuidKiller::of(self);
        let (begin, kill) = (args.offset, args.write_flags & WRITE_KILL_SUIDGID != 0);
        // Not of the class `Io`, some of which wait for the kernel to write back just this.
        let class = match self.vfs.may_block() {
            true => BlockingClass::Call,
            false => BlockingClass::Room,
        };
        Outcome::offload(class, move || {
            let context = Context::alone(header);
            let (mut lost, mut reason) = (Lost::default(), None);
            for part in pages(begin + done as u64..begin + data.len() as u64) {
                let bytes = &data[(part.start - begin) as usize..(part.end - begin) as usize];
                let store = |vfs: &V| {
                    let caller: Caller<'_> = context.caller(0);
                    // Perhaps that is what failed before.
                    if kill {
                        suid_killer.strip(&caller, header.nodeid)?;
                    }
                    vfs.write_back(&caller, header.nodeid, part.start, bytes, kill, touches)
                };
                let stored = guarded(&volume, || vfs.block_on(store));
                let errno = match stored {
                    Ok(size) if size == bytes.len() => continue,
                    Ok(_) => Errno::EIO,
                    Err(errno) => errno,
                };
                lost.add(part);
                reason.get_or_insert(errno);
            }
            match reason {
                None => Ok(InlineReply::new(&WriteOut {
                    size: data.len() as u32,
                    padding: 0,
                })),
                Some(errno) => {
                    vfs.lose(header.nodeid, &lost.0, errno);
                    Err(errno)
                }
            }
        })
    }
}

/// Parts of a file, in order and not touching.
#[derive(Default)]
struct Lost(Vec<Range<u64>>);

impl Lost {
    fn add(&mut self, part: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => self.0.push(part),
        }
    }
}

/// The parts of `bytes` in the pages of the file.
fn pages(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut next = bytes.start;
    std::iter::from_fn(move || {
        let start = next;
        next = (start / PAGE + 1).saturating_mul(PAGE).min(bytes.end);
        (start < bytes.end).then_some(start..next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_named_in_parts_that_do_not_touch() {
        let all: Vec<_> = pages(100..3 * PAGE + 1).collect();
        let expected = [100..PAGE, PAGE..2 * PAGE, 2 * PAGE..3 * PAGE];
        assert_eq!(all[..3], expected);
        assert_eq!((all.len(), &all[3]), (4, &(3 * PAGE..3 * PAGE + 1)));
        assert_eq!(pages(7..7).next(), None);
        let mut lost = Lost::default();
        for part in [0, 1, 3].map(|n| all[n].clone()) {
            lost.add(part);
        }
        assert_eq!(lost.0, [100..2 * PAGE, 3 * PAGE..3 * PAGE + 1]);
    }
}

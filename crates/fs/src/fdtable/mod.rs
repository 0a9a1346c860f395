//! Descriptor tables: from small numbers to open file descriptions.
//!
//! Lock order (each may be taken under those above it; nothing of a description is called under
//! any but its count of descriptors, and no description is dropped or retired under any):
//!
//! ```text
//! allocation (rank 900, one per table): lowest-first policy: every change beyond the first block
//!            except installing;
//!            per-core policy: only to give a core a block of 64 slots, for `dupfd`, and for
//!            `dup2` onto a number whose block does not exist yet
//!     word lock (a bit of the first block): lowest-first policy: changes of more than one write
//!     block (rank 910, one per 64 slots, never two at once): per-core policy: every change except
//!            installing
//! ```
//!
//! Lowest-first, the first 63 descriptors are handed out without a lock (`first_word.rs`);
//! `docs/design/fdtable.md` says why all changes have one order.
//!
//! A lookup takes none of them and writes nothing: it finds the block through pointers that are
//! published once and never change, and loads the slot under the caller's epoch guard. A
//! description stays in memory while any guard can see it. Its [`Handles`] count its descriptors,
//! so that the last close is known at once and not when the epoch ends.
//!
//! Opening has two steps: [`FdTable::reserve`] takes the number, [`Reserved::install`] makes it
//! work. In between the descriptor is busy: lookups return `EBADF`, `dup2` onto it `EBUSY`.

mod alloc;
mod block;
mod blocks;
mod claim;
mod first_word;
mod handles;
mod reserved;
mod snapshot;

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use hearth_sync::epoch::{self, Guard};
use hearth_sync::lock::{self, Lock};
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{AtomicU32, Ordering};
use hearth_sync::rcu::{Removed, Share, Shared};

use crate::errno::{Errno, Result};
use alloc::Alloc;
use block::{BLOCK_SLOTS, Block, Changing, descriptor, slot};
use blocks::Blocks;
use claim::CoreBlock;
use first_word::Busy;

pub use block::FDS_MAX;
pub use handles::{Closed, Described, Handles};
pub use reserved::Reserved;

const ALLOC_RANK: u32 = 900;
const BLOCK_RANK: u32 = 910;

/// Which free descriptor an open gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FdPolicy {
    /// The lowest, as POSIX requires. Threads that open and close contend for one word for the
    /// first 63, and for one lock beyond.
    #[default]
    Lowest,
    /// Any; each core takes from 64 of its own, so opens and closes on different cores share
    /// nothing.
    PerCore,
}

/// A table of descriptors.
pub struct FdTable<T: Described> {
    blocks: Blocks<T>,
    cores: Option<PerCpu<CoreBlock>>,
    /// Descriptors from here on are refused. Any thread may set it.
    limit: AtomicU32,
    alloc: PaddedLock<Lock<AllocClass, Alloc>>,
}

#[repr(align(64))]
struct PaddedLock<V>(V);

lock_class!(AllocClass = "fd-alloc", ALLOC_RANK);

type AllocGuard<'t> = lock::LockGuard<'t, AllocClass, Alloc>;

impl<T: Described> Default for FdTable<T> {
    fn default() -> FdTable<T> {
        FdTable::new(FdPolicy::Lowest)
    }
}

impl<T: Described> FdTable<T> {
    /// An empty table that allows [`FDS_MAX`] descriptors.
    pub fn new(policy: FdPolicy) -> FdTable<T> {
        let per_core = policy == FdPolicy::PerCore;
        let blocks = Blocks::new();
        if per_core {
            blocks.first().shut();
        }
        FdTable {
            blocks,
            cores: per_core.then(|| PerCpu::new(CoreBlock::new)),
            limit: AtomicU32::new(FDS_MAX),
            alloc: PaddedLock(Lock::new(Alloc::default())),
        }
    }

    /// Which free descriptor an open gets.
    pub fn policy(&self) -> FdPolicy {
        if self.cores.is_some() {
            FdPolicy::PerCore
        } else {
            FdPolicy::Lowest
        }
    }

    /// How many descriptors are allowed: all are below this number.
    pub fn limit(&self) -> u32 {
        // Relaxed: a setting by itself.
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the limit (`RLIMIT_NOFILE`); open descriptors above it stay open. `EPERM` above
    /// [`FDS_MAX`].
    pub fn set_limit(&self, limit: u32) -> Result<()> {
        if limit > FDS_MAX {
            return Err(Errno::EPERM);
        }
        // Relaxed: a setting by itself.
        self.limit.store(limit, Ordering::Relaxed);
        Ok(())
    }

    /// The description of `fd`. Takes no lock and writes nothing.
    pub fn get<'g>(&'g self, fd: i32, guard: &'g Guard) -> Option<Shared<'g, T>> {
        let (block, bit) = self.find(fd).ok()?;
        block.get(bit, guard)
    }

    /// Takes a free descriptor. `EMFILE` when there is none below the limit.
    // Always inlined, as the claim of the lowest is: mostly it is one exchange.
    #[inline(always)]
    pub fn reserve(&self, cloexec: bool) -> Result<Reserved<'_, T>> {
        let fd = match &self.cores {
            None => self.claim_lowest(0, cloexec),
            Some(cores) => self.claim_any(cores, cloexec),
        };
        Ok(Reserved {
            table: self,
            fd: fd.ok_or(Errno::EMFILE)?,
        })
    }

    /// Whether `fd` is closed when a program is executed.
    pub fn is_cloexec(&self, fd: i32) -> Result<bool> {
        let (block, bit) = self.find(fd)?;
        let is_open = !block.slot(bit).is_empty();
        if is_open {
            Ok(block.is_cloexec(bit))
        } else {
            Err(Errno::EBADF)
        }
    }

    /// Sets whether `fd` is closed when a program is executed.
    pub fn set_cloexec(&self, fd: i32, cloexec: bool) -> Result<()> {
        let (block, bit) = self.find(fd)?;
        let _frozen = self.freeze();
        let _still = self.change(block);
        if block.slot(bit).is_empty() {
            return Err(Errno::EBADF);
        }
        block.set_cloexec(bit, cloexec);
        Ok(())
    }

    /// Another descriptor for the description of `fd`.
    pub fn dup(&self, fd: i32) -> Result<i32> {
        let guard = epoch::pin();
        self.get(fd, &guard).ok_or(Errno::EBADF)?;
        self.reserve(false)?.install_dup(fd, &guard)
    }

    /// Another descriptor for the description of `fd`: the lowest free one from `min` on, under
    /// either policy. `EINVAL` for an impossible `min`.
    pub fn dupfd(&self, fd: i32, min: i32, cloexec: bool) -> Result<i32> {
        let guard = epoch::pin();
        self.get(fd, &guard).ok_or(Errno::EBADF)?;
        let min = u32::try_from(min).map_err(|_| Errno::EINVAL)?;
        if min >= self.limit() {
            return Err(Errno::EINVAL);
        }
        let fd_new = self.claim_lowest(min, cloexec).ok_or(Errno::EMFILE)?;
        Reserved {
            table: self,
            fd: fd_new,
        }
        .install_dup(fd, &guard)
    }

    /// Makes `new` name the description of `old`, and returns the one that it named before. Does
    /// nothing when they are equal.
    pub fn dup2<'g>(&self, old: i32, new: i32, g: &'g Guard) -> Result<Option<Closed<'g, T>>> {
        if old == new {
            return self.get(old, g).map(|_| None).ok_or(Errno::EBADF);
        }
        self.replace(old, new, false, g)
    }

    /// [`FdTable::dup2`] with a choice of close-on-exec, and `EINVAL` when they are equal.
    pub fn dup3<'g>(
        &self,
        old: i32,
        new: i32,
        cloexec: bool,
        g: &'g Guard,
    ) -> Result<Option<Closed<'g, T>>> {
        if old == new {
            return Err(Errno::EINVAL);
        }
        self.replace(old, new, cloexec, g)
    }

    /// Frees `fd` and returns its description.
    pub fn close<'g>(&self, fd: i32, g: &'g Guard) -> Result<Closed<'g, T>> {
        self.close_if(fd, |_, _| true, g)
    }

    /// [`FdTable::close`] of a descriptor that is `wanted`, with what orders changes of it held.
    #[inline(always)]
    fn close_if<'g>(
        &self,
        fd: i32,
        wanted: impl Fn(&Block<T>, u32) -> bool,
        g: &'g Guard,
    ) -> Result<Closed<'g, T>> {
        let (block, bit) = self.find(fd)?;
        let close = |mut change: Changing<'_, T>| change.close(bit, |block| wanted(block, bit));
        let file = match self.cores {
            None if slot(fd as u32) < BLOCK_SLOTS => self.close_first(close),
            None => {
                let mut alloc = self.alloc.0.lock();
                let file = close(block.change(true));
                if file.is_some() {
                    alloc.mark_free(slot(fd as u32));
                }
                file
            }
            Some(_) => change_alone(block, close),
        };
        let file = file.ok_or(Errno::EBADF)?.retire(g);
        Ok(Closed { file })
    }

    /// Closes what was marked close-on-exec, as executing a program does.
    pub fn close_on_exec<'g>(&self, g: &'g Guard) -> Vec<Closed<'g, T>> {
        self.close_all(g, |block, bit| block.is_cloexec(bit))
    }

    /// Closes everything. Reservations stay.
    pub fn drain<'g>(&self, g: &'g Guard) -> Vec<Closed<'g, T>> {
        self.close_all(g, |_, _| true)
    }

    /// The open descriptors, ascending.
    pub fn open_fds(&self) -> Vec<i32> {
        let bits = || 0..BLOCK_SLOTS;
        let all = self
            .blocks
            .iter()
            .flat_map(|(n, block)| bits().map(move |b| (n, block, b)));
        let open = all.filter(|(_, block, bit)| !block.slot(*bit).is_empty());
        open.map(|(number, _, bit)| descriptor(number * BLOCK_SLOTS + bit) as i32)
            .collect()
    }

    fn find(&self, fd: i32) -> Result<(&Block<T>, u32)> {
        let slot = slot(u32::try_from(fd).map_err(|_| Errno::EBADF)?);
        let block = self.blocks.get(slot / BLOCK_SLOTS);
        Ok((block.ok_or(Errno::EBADF)?, slot % BLOCK_SLOTS))
    }

    /// From open to free in the first block, lowest-first.
    #[inline(always)]
    fn close_first(
        &self,
        close: impl Fn(Changing<'_, T>) -> Option<Removed<T>>,
    ) -> Option<Removed<T>> {
        let block = self.blocks.first();
        match block.try_lock_word() {
            Ok(_gate) => close(block.change(true)),
            Err(Busy) => {
                // A thread that waits for long sleeps for the lock; one at a time spins on the word
                // lock.
                let _frozen = self.freeze();
                close(block.change(true))
            }
        }
    }

    /// The right to change a block. Lowest-first, the caller holds the allocation lock, and the
    /// word lock if it is the first block.
    #[inline(always)]
    #[track_caller]
    fn change<'b>(&self, block: &'b Block<T>) -> Changing<'b, T> {
        block.change(self.cores.is_none())
    }

    fn replace<'g>(
        &self,
        old: i32,
        new: i32,
        cloexec: bool,
        g: &'g Guard,
    ) -> Result<Option<Closed<'g, T>>> {
        self.get(old, g).ok_or(Errno::EBADF)?;
        let new = u32::try_from(new).map_err(|_| Errno::EBADF)?;
        if new >= self.limit() {
            return Err(Errno::EBADF);
        }
        let before = {
            let (number, bit) = (slot(new) / BLOCK_SLOTS, slot(new) % BLOCK_SLOTS);
            let mut frozen = self.freeze();
            let block = match (self.blocks.get(number), &mut frozen) {
                (Some(block), _) => block,
                (None, Some(frozen)) => self.blocks.grow_to(&mut frozen.alloc, number),
                (None, None) => {
                    let mut alloc = self.alloc.0.lock();
                    self.blocks.grow_to(&mut alloc, number)
                }
            };
            let mut used = self.change(block);
            if block.slot(bit).is_empty() && used.contains(bit) {
                return Err(Errno::EBUSY);
            }
            // Under the locks, so that nobody can close `old` and then see `new` unchanged.
            let file = self.retained(old, g)?;
            used.take(bit, cloexec);
            let before = block.put(bit, file);
            if let Some(frozen) = &mut frozen
                && number > 0
            {
                frozen.alloc.mark_taken(slot(new), used.is_full());
            }
            before
        };
        Ok(before.map(|file| Closed {
            file: file.retire(g),
        }))
    }

    /// The description of `fd`, counted for one more descriptor.
    fn retained(&self, fd: i32, guard: &Guard) -> Result<Share<T>> {
        let file = self.get(fd, guard).filter(|file| file.handles().retain());
        file.map(Shared::to_share).ok_or(Errno::EBADF)
    }

    fn close_all<'g>(
        &self,
        g: &'g Guard,
        wanted: impl Fn(&Block<T>, u32) -> bool,
    ) -> Vec<Closed<'g, T>> {
        let is_wanted = |fd: &i32| self.find(*fd).is_ok_and(|(block, bit)| wanted(block, bit));
        let fds = self.open_fds().into_iter().filter(is_wanted);
        // Looked at once more under the lock: another description may be there by then.
        fds.filter_map(|fd| self.close_if(fd, &wanted, g).ok())
            .collect()
    }
}

/// Changes a block under its own lock.
#[inline(never)]
#[track_caller]
fn change_alone<T: Described, R>(block: &Block<T>, change: impl Fn(Changing<'_, T>) -> R) -> R {
    change(block.change(false))
}

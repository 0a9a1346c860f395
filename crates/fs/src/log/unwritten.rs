//! Contents that the backend has yet to get: which files have them, how many bytes they are, and
//! which tenants owe these.

use crate::owed::Owed;
use crate::tenant::TenantId;
use crate::write_streams::{WriteStreams, WrittenRange};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::percpu::PerCpu;
use hearth_sync::primitive::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

lock_class! {
    DirtyLock = "log.dirty", 981;
    pub(super) PressureLock = "log.pressure", 983;
}

/// All of it. What an operation notes goes to its core.
pub(crate) struct Unwritten {
    cores: PerCpu<Lock<DirtyLock, DirtyFiles>>,
    /// The files that were taken to be written back.
    taken: Lock<PressureLock, TakenFiles>,
    /// What tenants owe of the bytes that wait for an early write-back.
    early: Lock<PressureLock, Owed>,
    /// Bytes that were allocated, in files that are written back and may not be committed: nobody
    /// owes them any more, and the backend counts them from its commit on. Release when they are
    /// behind it, Acquire before the backend is asked for its room.
    uncommitted: AtomicU64,
}

/// What was taken to be written back, what that is of allocations, and what of earlier ones no
/// commit has.
#[derive(Default)]
struct TakenFiles {
    owed: Owed,
    allocated: u64,
    failed: u64,
}

/// Bytes that were allocated and are to be committed. They count as unwritten until this is
/// dropped, behind the commit.
pub(crate) struct Uncommitted<'a> {
    unwritten: &'a Unwritten,
    sum: u64,
}

impl Uncommitted<'_> {
    /// The commit has failed: they count until a later one.
    pub fn keep(mut self) {
        let sum = std::mem::take(&mut self.sum);
        self.unwritten.taken.lock().failed += sum;
    }
}

impl Drop for Uncommitted<'_> {
    fn drop(&mut self) {
        self.unwritten.uncommitted.fetch_sub(self.sum, Release);
    }
}

/// Files whose contents are to be written, by number.
#[derive(Default)]
struct DirtyFiles {
    /// All files with unwritten contents, each at least once.
    all: Vec<u64>,
    /// Those whose contents the next commit waits for: they replaced another file, or were cut to
    /// nothing, and a commit that holds that must not lose both.
    first: Vec<u64>,
    /// Bytes written since the lists were taken, without those of `early`, and whose they are.
    bytes: u64,
    owed: Owed,
    /// How many of the bytes were allocated and not written.
    allocated: u64,
    /// Files of which a lot is written.
    streams: WriteStreams,
    /// What is to be written back early, and for whom.
    early: Vec<(WrittenRange, TenantId)>,
}

/// What a write has done to the count.
pub(super) enum Counted {
    /// The bytes of the core grew.
    Grown { before: u64, after: u64 },
    /// An early write-back is to begin; the bytes that all of these have.
    Early(u64),
}

impl Unwritten {
    pub fn new() -> Unwritten {
        Unwritten {
            cores: PerCpu::new(|_| Lock::new(DirtyFiles::default())),
            taken: Lock::new(TakenFiles::default()),
            early: Lock::new(Owed::default()),
            uncommitted: AtomicU64::new(0),
        }
    }

    /// A file has unwritten contents.
    pub fn note(&self, ino: u64) {
        self.cores.get().lock().all.push(ino);
    }

    /// The next commit must not come without the contents of this file.
    pub fn note_first(&self, ino: u64) {
        self.cores.get().lock().first.push(ino);
    }

    /// Counts bytes that were written to a file of `tenant`.
    pub(super) fn add_written(&self, written: WrittenRange, tenant: TenantId) -> Counted {
        let mut dirty = self.cores.get().lock();
        let counted = dirty.add(written.sum, tenant);
        let Some(file) = dirty.streams.note(written) else {
            return counted;
        };
        dirty.bytes -= file.sum;
        dirty.owed.take(tenant.number(), file.sum);
        let mut early = self.early.lock();
        early.add(tenant.number(), file.sum);
        let waiting = early.sum();
        drop(early);
        dirty.early.push((file, tenant));
        Counted::Early(waiting)
    }

    /// Counts bytes that a write-back has left.
    pub(super) fn add(&self, bytes: u64, tenant: TenantId) -> Counted {
        self.cores.get().lock().add(bytes, tenant)
    }

    /// Counts bytes that were allocated.
    pub(super) fn add_allocated(&self, bytes: u64, tenant: TenantId) -> Counted {
        let mut dirty = self.cores.get().lock();
        dirty.allocated += bytes;
        dirty.add(bytes, tenant)
    }

    /// Takes what is to be written back early, each file once.
    pub fn take_early(&self) -> Vec<(WrittenRange, TenantId)> {
        let mut all: Vec<(WrittenRange, TenantId)> = Vec::new();
        for core in self.cores.iter() {
            for (file, tenant) in core.lock().early.drain(..) {
                let is_it = |(known, of): &&mut (WrittenRange, TenantId)| {
                    known.ino == file.ino && *of == tenant
                };
                match all.iter_mut().find(is_it) {
                    Some((known, _)) => known.add(&file),
                    None => all.push((file, tenant)),
                }
            }
        }
        all
    }

    /// See [`super::ChangeLog::end_early`].
    pub(super) fn end_early(&self, sum: u64, tenant: TenantId, is_done: bool) {
        if !is_done {
            self.cores.get().lock().add(sum, tenant);
        }
        self.early.lock().take(tenant.number(), sum);
    }

    /// Bytes that were written or allocated and may not have reached the backend. Its room is asked
    /// for behind this: what is committed in between counts twice, and not never.
    pub fn bytes(&self) -> u64 {
        // In the order in which bytes go from one to the next, for that reason too. An early
        // write-back that fails gives some back: so before and behind.
        let early = self.early.lock().sum();
        let waiting: u64 = self.cores.iter().map(|core| core.lock().bytes).sum();
        // One lock after the other: both are of one class.
        let early = early.max(self.early.lock().sum());
        let taken = self.taken.lock().owed.sum();
        waiting + early + taken + self.uncommitted.load(Acquire)
    }

    /// Adds what tenants owe.
    pub(super) fn add_owed(&self, all: &mut Owed) {
        self.cores
            .iter()
            .for_each(|core| all.add_all(&core.lock().owed));
        all.add_all(&self.taken.lock().owed);
        all.add_all(&self.early.lock());
    }

    /// Takes the files that the next commit waits for.
    pub fn take_first(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for core in self.cores.iter() {
            all.append(&mut core.lock().first);
        }
        each_once(all)
    }

    /// Takes the files with unwritten contents.
    pub fn take(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for core in self.cores.iter() {
            let mut dirty = core.lock();
            all.append(&mut dirty.all);
            dirty.streams.clear();
            dirty.bytes = 0;
            let early = std::mem::take(&mut dirty.early);
            let mut taken = self.taken.lock();
            taken.owed.add_all(&std::mem::take(&mut dirty.owed));
            taken.allocated += std::mem::take(&mut dirty.allocated);
            for (file, tenant) in &early {
                taken.owed.add(tenant.number(), file.sum);
            }
            drop(taken);
            let mut waiting = self.early.lock();
            for (file, tenant) in &early {
                waiting.take(tenant.number(), file.sum);
            }
        }
        each_once(all)
    }

    /// The files that were taken last are written back.
    pub(super) fn end_taken(&self) -> Uncommitted<'_> {
        let mut taken = self.taken.lock();
        // Freed after the lock is released.
        let TakenFiles {
            owed,
            allocated,
            failed,
        } = std::mem::take(&mut *taken);
        // Relaxed: whoever finds nothing taken has the lock behind this.
        self.uncommitted.fetch_add(allocated, Relaxed);
        drop(taken);
        drop(owed);
        Uncommitted {
            unwritten: self,
            sum: allocated + failed,
        }
    }
}

impl DirtyFiles {
    fn add(&mut self, bytes: u64, tenant: TenantId) -> Counted {
        let before = self.bytes;
        self.bytes += bytes;
        self.owed.add(tenant.number(), bytes);
        let after = self.bytes;
        Counted::Grown { before, after }
    }
}

fn each_once(mut files: Vec<u64>) -> Vec<u64> {
    files.sort_unstable();
    files.dedup();
    files
}

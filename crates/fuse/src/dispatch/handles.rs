//! File handles: the numbers by which the kernel names open files.

use crate::dispatch::closing_locks::ClosingLocks;
use crate::dispatch::flows::Flows;
use crate::transport::device::Device;
use hearth::{Kind, VfsFile};
use hearth_sync::epoch;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::object::Table;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, thread};
use std::time::{Duration, Instant};

/// All open files of one session. Finding one writes nothing shared, so requests on one handle do
/// not meet here.
pub(crate) struct Handles<F: VfsFile> {
    table: Table<Handle<F>>,
    /// How their data flows, if that differs from file to file.
    flows: Option<Flows>,
    closing_locks: ClosingLocks,
}

/// The flag of an open by which the kernel executes a file (`__FMODE_EXEC` of `linux/fs.h`).
const FMODE_EXEC: i32 = 0x20;

/// How long a program that has ended may take to be closed, on a busy machine.
const UNTIL_CLOSED: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(1);

lock_class!(OwnersLock = "fuse.lock-owners", 875);

/// An open file as the kernel has it.
pub(crate) struct Handle<F> {
    pub file: Arc<F>,
    /// Owners of record locks that were set through this handle and not given up by a FLUSH. The
    /// kernel tells of a process that closes a file, but not of an open file description that ends
    /// with locks of its own.
    lock_owners: Lock<OwnersLock, Vec<u64>>,
    /// It has a flock. Relaxed: its close comes after the reply to that.
    has_flock: AtomicBool,
    /// A write was passed on through this handle. Relaxed: its close comes after its writes.
    written: AtomicBool,
    /// A direct write through this handle has made the file durable, and the kernel may follow it
    /// with an FSYNC: [`DURABLE`], and with [`HAS_ATTRS`] the changes of attributes that were
    /// durable with it; or [`UNFOLLOWED`]. Relaxed: a hint, after which the volume is asked.
    synced: AtomicU64,
}

/// The kernel sends no FSYNC of its own after a write of this open file. The next FSYNC is a
/// program's, and covers whatever the program did before it.
const UNFOLLOWED: u64 = 1 << 34;
const DURABLE: u64 = 1 << 33;
const HAS_ATTRS: u64 = 1 << 32;

fn synced(attr_changes: Option<u32>) -> u64 {
    DURABLE | attr_changes.map_or(0, |changes| HAS_ATTRS | u64::from(changes))
}

/// What a direct write has made durable beside the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Synced {
    /// The changes of attributes that are durable, if somebody counts them.
    pub attr_changes: Option<u32>,
}

impl<F> Handle<F> {
    /// A direct write has made its contents durable, and these changes of its attributes.
    pub fn set_synced(&self, attr_changes: Option<u32>) {
        if self.synced.load(Relaxed) != UNFOLLOWED {
            self.synced.store(synced(attr_changes), Relaxed);
        }
    }

    /// The kernel caches nothing of the open file, so it sends no FSYNC of its own after a write.
    pub fn set_unfollowed(&self) {
        self.synced.store(UNFOLLOWED, Relaxed);
    }

    /// What one has made durable since this was asked last.
    pub fn take_synced(&self) -> Option<Synced> {
        if matches!(self.synced.load(Relaxed), 0 | UNFOLLOWED) {
            return None;
        }
        let was = self.synced.swap(0, Relaxed);
        (was & DURABLE != 0).then_some(Synced {
            attr_changes: (was & HAS_ATTRS != 0).then_some(was as u32),
        })
    }

    /// Whether these changes of attributes are durable, and an FSYNC is yet to ask.
    pub fn has_synced(&self, attr_changes: u32) -> bool {
        self.synced.load(Relaxed) == synced(Some(attr_changes))
    }

    /// The change behind these need not be durable for that FSYNC.
    pub fn excuse_change(&self, attr_changes: u32) {
        let (before, behind) = (Some(attr_changes), Some(attr_changes.wrapping_add(1)));
        let (before, behind) = (synced(before), synced(behind));
        // An FSYNC has taken it, or another write has come.
        let _ = self
            .synced
            .compare_exchange(before, behind, Relaxed, Relaxed);
    }

    /// `owner` has set a record lock through this handle.
    pub fn add_lock_owner(&self, owner: u64) {
        let mut owners = self.lock_owners.lock();
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }

    /// A flock was set, or given up, through this handle.
    pub fn set_flock(&self, has_flock: bool) {
        self.has_flock.store(has_flock, Relaxed);
    }

    /// A write was passed on.
    pub fn set_written(&self) {
        // Looked at first: writes of one handle may come from several cores.
        if !self.has_written() {
            self.written.store(true, Relaxed);
        }
    }

    /// Whether a write was.
    pub fn has_written(&self) -> bool {
        self.written.load(Relaxed)
    }

    /// The record locks of `owner` were given up. Whether there are locks that end with the handle.
    pub fn remove_lock_owner(&self, owner: u64) -> bool {
        let mut owners = self.lock_owners.lock();
        owners.retain(|&one| one != owner);
        !owners.is_empty() || self.has_flock.load(Relaxed)
    }
}

impl<F: VfsFile> Handle<F> {
    /// Whether a program is executed from this file through it.
    fn executes(&self, ino: u64) -> bool {
        self.file.ino() == ino && self.file.flags() & FMODE_EXEC != 0
    }
}

impl<F: VfsFile> Handles<F> {
    /// No open files. Handle 0 is never given out: it is what the kernel sends when it opened a
    /// file without asking.
    pub fn new() -> Handles<F> {
        Handles {
            table: Table::new(1),
            flows: None,
            closing_locks: ClosingLocks::default(),
        }
    }

    /// [`Handles::new`] where the kernel may be told of files below through `device`.
    pub fn passing_through(device: Arc<Device>) -> Handles<F> {
        Handles {
            flows: Some(Flows::new(device)),
            ..Handles::new()
        }
    }

    /// How the data of open files flows, if not all the same way.
    pub fn flows(&self) -> Option<&Flows> {
        self.flows.as_ref()
    }

    /// The locks that are about to end with their handles.
    pub fn closing_locks(&self) -> &ClosingLocks {
        &self.closing_locks
    }

    /// A handle for `file`.
    pub fn insert(&self, file: Arc<F>) -> u64 {
        let held = self.table.insert(|_, _| Handle {
            file,
            lock_owners: Lock::new(Vec::new()),
            has_flock: AtomicBool::new(false),
            written: AtomicBool::new(false),
            synced: AtomicU64::new(0),
        });
        let number = held.number();
        held.into_raw_count();
        number
    }

    /// Calls `work` with the open file; `None` if the kernel does not have this handle.
    pub fn with<R>(&self, number: u64, work: impl FnOnce(&Handle<F>) -> R) -> Option<R> {
        let guard = epoch::pin();
        self.table.get(number, &guard).map(|handle| work(handle))
    }

    /// Takes the handle away: the open file, and the owners whose record locks end with it.
    pub fn remove(&self, number: u64) -> Option<(Arc<F>, Vec<u64>)> {
        let guard = epoch::pin();
        let handle = self.table.get(number, &guard)?;
        let owners = std::mem::take(&mut *handle.lock_owners.lock());
        let file = Arc::clone(&handle.file);
        handle.put_many(1);
        self.table.retire(handle, &guard);
        Some((file, owners))
    }

    /// Inodes of the files that are open for writing and whose writes the kernel collects.
    pub fn collecting(&self) -> Vec<u64> {
        let guard = epoch::pin();
        let mut inodes = Vec::new();
        self.table.scan(0, &guard, |handle| {
            let file = &handle.file;
            // Writes of one that kept `O_APPEND` are passed on, and what is not readable cannot be
            // mapped.
            let passes = libc::O_APPEND | libc::O_WRONLY;
            let writes = file.writable() && file.flags() & passes != passes;
            if file.kind() == Kind::File && writes && !file.is_control() && !file.is_charged() {
                inodes.push(file.ino());
            }
            true
        });
        inodes
    }

    /// Inodes of the files that are open for writing, each once. The kernel may have pages of them
    /// that it has not written back. It may also where it passes writes on, since programs map
    /// files.
    pub fn open_for_writing(&self) -> Vec<u64> {
        let guard = epoch::pin();
        let mut inodes = Vec::new();
        self.table.scan(0, &guard, |handle| {
            let file = &handle.file;
            if file.kind() == Kind::File && file.writable() && !file.is_control() {
                inodes.push(file.ino());
            }
            true
        });
        inodes.sort_unstable();
        inodes.dedup();
        inodes
    }

    /// Whether a program is executed from this file, as far as opens tell. Looks at all handles.
    pub fn executes(&self, ino: u64) -> bool {
        let guard = epoch::pin();
        let mut found = false;
        self.table.scan(0, &guard, |handle| {
            found |= handle.executes(ino);
            !found
        });
        found
    }

    /// [`Handles::executes`], for a moment yet. Blocks meanwhile. Looks at all handles twice: while
    /// it waits, at one that it has found.
    pub fn goes_on_executing(&self, ino: u64) -> bool {
        let end = Instant::now() + UNTIL_CLOSED;
        let mut executing = self.executing(ino);
        if executing.is_empty() {
            return false;
        }
        while let Some(&one) = executing.last() {
            // The number may be another's by now.
            if self.with(one, |handle| handle.executes(ino)) != Some(true) {
                executing.pop();
            } else if Instant::now() >= end {
                return true;
            } else {
                thread::sleep(LOOK);
            }
        }
        // Another may have begun since.
        self.executes(ino)
    }

    /// The handles by which programs are executed from this file.
    fn executing(&self, ino: u64) -> Vec<u64> {
        let guard = epoch::pin();
        let mut numbers = Vec::new();
        self.table.scan(0, &guard, |handle| {
            if handle.executes(ino) {
                numbers.push(handle.number());
            }
            true
        });
        numbers
    }

    /// The handles that there are: at the end, those that the kernel did not release before it
    /// went.
    pub fn numbers(&self) -> Vec<u64> {
        let guard = epoch::pin();
        let mut numbers = Vec::new();
        self.table.scan(0, &guard, |handle| {
            numbers.push(handle.number());
            true
        });
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::{Caller, OpenFile, ROOT, Volume};
    use hearth_sync::primitive::atomic::AtomicUsize;

    fn open_root() -> Arc<OpenFile> {
        Volume::memory()
            .vfs()
            .open(&Caller::ROOT, ROOT, libc::O_DIRECTORY)
            .unwrap()
    }

    #[test]
    fn what_a_write_has_made_durable_is_asked_for_once() {
        let handles = Handles::new();
        let number = handles.insert(open_root());
        let with = |work: &dyn Fn(&Handle<OpenFile>)| handles.with(number, work).unwrap();
        with(&|handle| assert_eq!(handle.take_synced(), None));
        with(&|handle| {
            handle.set_synced(None);
            assert!(!handle.has_synced(0));
            let attr_changes = None;
            assert_eq!(handle.take_synced(), Some(Synced { attr_changes }));
            assert_eq!(handle.take_synced(), None);
        });
        with(&|handle| {
            handle.set_synced(Some(u32::MAX));
            handle.excuse_change(7);
            assert!(handle.has_synced(u32::MAX), "it is of other changes");
            handle.excuse_change(u32::MAX);
            let attr_changes = Some(0);
            assert_eq!(handle.take_synced(), Some(Synced { attr_changes }));
            handle.excuse_change(0);
            assert_eq!(handle.take_synced(), None, "an FSYNC has asked");
        });
    }

    #[test]
    fn a_handle_is_found_until_it_is_removed() {
        let handles = Handles::new();
        let (one, two) = (handles.insert(open_root()), handles.insert(open_root()));
        assert!(one != two && one != 0);
        assert_eq!(handles.with(one, |handle| handle.file.ino()), Some(ROOT));
        handles.with(one, |handle| {
            [5, 6, 5].map(|owner| handle.add_lock_owner(owner))
        });
        handles.with(one, |handle| handle.remove_lock_owner(6));
        assert_eq!(handles.remove(one).unwrap().1, [5]);
        assert!(handles.with(one, |_| ()).is_none() && handles.remove(one).is_none());
        assert_eq!(handles.numbers(), [two]);
        assert!(handles.with(0, |_| ()).is_none() && handles.with(u64::MAX, |_| ()).is_none());
    }

    /// Once, the close of a program that had ended a moment before was not waited for.
    #[test]
    fn a_program_that_is_closed_within_a_moment_has_ended() {
        let handles = Handles::new();
        let program = open_root();
        VfsFile::set_flags(&*program, FMODE_EXEC);
        let one = handles.insert(Arc::clone(&program));
        assert!(handles.executes(ROOT) && handles.goes_on_executing(ROOT));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                handles.remove(one);
            });
            assert!(!handles.goes_on_executing(ROOT));
        });
    }

    /// A file with these flags that counts how often it is looked at.
    struct Looked(AtomicUsize, i32);

    impl VfsFile for Looked {
        fn ino(&self) -> u64 {
            self.0.fetch_add(1, Relaxed);
            ROOT
        }
        fn kind(&self) -> Kind {
            Kind::File
        }
        fn flags(&self) -> i32 {
            self.1
        }
        fn set_flags(&self, _flags: i32) {}
        fn readable(&self) -> bool {
            true
        }
        fn writable(&self) -> bool {
            false
        }
        fn is_control(&self) -> bool {
            false
        }
        fn is_synchronous(&self) -> bool {
            false
        }
        fn is_charged(&self) -> bool {
            false
        }
    }

    /// Once, the wait looked at all handles each millisecond.
    #[test]
    fn a_wait_for_a_program_looks_at_few_handles() {
        let handles = Handles::new();
        let files = [0; 100].map(|flags| Arc::new(Looked(AtomicUsize::new(0), flags)));
        for file in &files {
            handles.insert(Arc::clone(file));
        }
        handles.insert(Arc::new(Looked(AtomicUsize::new(0), FMODE_EXEC)));
        assert!(handles.goes_on_executing(ROOT));
        let mut looks = files.iter().map(|file| file.0.load(Relaxed));
        assert!(looks.all(|looks| (1..=2).contains(&looks)));
    }
}

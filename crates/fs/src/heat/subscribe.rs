//! Who wants to be told when something becomes hot, warm or cold.
//!
//! Accesses know nothing of it: a fold compares the buckets before and after, and only while
//! somebody listens, which it looks up once.

use super::grade::Grade;
use super::{Heat, shard::WHOLE};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering};
use std::fmt;

lock_class!(ListenersLock = "heat.listeners", 965);

/// A file or range that changed its grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatChange {
    /// Inode number.
    pub ino: u64,
    /// First byte of the range; `None` for the file as a whole.
    pub range: Option<u64>,
    /// Grade that it had.
    pub from: Grade,
    /// Grade that it has.
    pub to: Grade,
    /// Bucket that it is in now.
    pub bucket: u8,
}

type Told = dyn Fn(&[HeatChange]) + Send + Sync;

/// Ends the subscription when it is dropped; a call that is under way may still come.
pub struct Subscription {
    listeners: Arc<Listeners>,
    number: usize,
}

impl Heat<'_> {
    /// Calls `told` with every file and range whose grade changed, after each fold and each step
    /// of ageing, with no lock held, on the thread that did it. Records that go (unlink, truncate,
    /// eviction) are not told.
    ///
    /// ```
    /// use hearth::heat::Grade;
    /// use std::sync::mpsc::channel;
    /// let volume = hearth::Volume::builder().hot_track(true).build()?;
    /// let (changes, seen) = channel();
    /// let subscription = volume.heat().subscribe(move |some| {
    ///     some.iter().for_each(|change| drop(changes.send(*change)));
    /// });
    /// let process = volume.process(hearth::Credentials::root());
    /// let fd = process.open("/log", libc::O_CREAT | libc::O_RDWR, 0o644)?;
    /// for _ in 0..100 {
    ///     process.pwrite(fd, b"x", 0)?;
    /// }
    /// volume.heat().age();
    /// let first = seen.try_recv().unwrap();
    /// assert_eq!((first.range, first.from, first.to), (None, Grade::Cold, Grade::Hot));
    /// # Ok::<(), hearth::Errno>(())
    /// ```
    pub fn subscribe(&self, told: impl Fn(&[HeatChange]) + Send + Sync + 'static) -> Subscription {
        let listeners = &self.sb.heat.listeners;
        Subscription {
            number: listeners.add(Arc::new(told)),
            listeners: Arc::clone(listeners),
        }
    }
}

/// Everybody who listens.
#[derive(Default)]
pub(super) struct Listeners {
    /// How many there are. Relaxed: who begins to listen beside a fold may miss its changes.
    count: AtomicUsize,
    list: Lock<ListenersLock, List>,
}

#[derive(Default)]
struct List {
    next: usize,
    told: Vec<(usize, Arc<Told>)>,
}

impl Listeners {
    /// Where to note changes, if somebody wants them.
    pub fn wanted(&self) -> Option<Vec<HeatChange>> {
        (self.count.load(Ordering::Relaxed) > 0).then(Vec::new)
    }

    /// Tells everybody, with no lock held.
    pub fn tell(&self, changes: Option<Vec<HeatChange>>) {
        let changes = changes.unwrap_or_default();
        if changes.is_empty() {
            return;
        }
        let told: Vec<Arc<Told>> = {
            let list = self.list.lock();
            list.told.iter().map(|(_, told)| Arc::clone(told)).collect()
        };
        for told in told {
            told(&changes);
        }
    }

    fn add(&self, told: Arc<Told>) -> usize {
        let mut list = self.list.lock();
        list.next += 1;
        let number = list.next;
        list.told.push((number, told));
        self.count.store(list.told.len(), Ordering::Relaxed);
        number
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut list = self.listeners.list.lock();
        let at = list
            .told
            .iter()
            .position(|(number, _)| *number == self.number);
        let gone = at.map(|at| list.told.swap_remove(at));
        self.listeners
            .count
            .store(list.told.len(), Ordering::Relaxed);
        // What the caller gave is dropped after the lock.
        drop(list);
        drop(gone);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// Notes that a record went from one bucket to another, if that changed its grade.
pub(super) fn note(
    changes: &mut Option<Vec<HeatChange>>,
    (ino, range): (u64, u64),
    from: u8,
    to: u8,
) {
    let Some(changes) = changes else {
        return;
    };
    let (before, after) = (Grade::of_bucket(from), Grade::of_bucket(to));
    if before != after {
        changes.push(HeatChange {
            ino,
            range: (range != WHOLE).then_some(range << super::RANGE_SHIFT),
            from: before,
            to: after,
            bucket: to,
        });
    }
}

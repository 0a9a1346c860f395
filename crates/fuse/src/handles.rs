//! File handles: the numbers by which the kernel names open files.

use hearth::OpenFile;
use hearth_sync::epoch;
use hearth_sync::object::Table;
use hearth_sync::primitive::Arc;

/// All open files of one session. Finding one writes nothing shared, so requests on one handle do not meet here.
pub(crate) struct Handles {
    table: Table<Arc<OpenFile>>,
}

impl Handles {
    /// No open files. Handle 0 is never given out: it is what the kernel sends when it opened a file without asking.
    pub fn new() -> Handles {
        Handles { table: Table::new(1) }
    }

    /// A handle for `file`.
    pub fn insert(&self, file: Arc<OpenFile>) -> u64 {
        let held = self.table.insert(|_, _| file);
        let number = held.number();
        held.into_raw_count();
        number
    }

    /// Calls `work` with the open file; `None` if the kernel does not have this handle.
    pub fn with<R>(&self, handle: u64, work: impl FnOnce(&OpenFile) -> R) -> Option<R> {
        let guard = epoch::pin();
        self.table.get(handle, &guard).map(|file| work(file))
    }

    /// The open file, to be kept beyond this request.
    pub fn get(&self, handle: u64) -> Option<Arc<OpenFile>> {
        let guard = epoch::pin();
        self.table.get(handle, &guard).map(|file| Arc::clone(file))
    }

    /// Takes the handle away.
    pub fn remove(&self, handle: u64) -> Option<Arc<OpenFile>> {
        let guard = epoch::pin();
        let object = self.table.get(handle, &guard)?;
        let file = Arc::clone(object);
        object.put_many(1);
        self.table.retire(object, &guard);
        Some(file)
    }

    /// Takes all handles away: what the kernel did not release before it went.
    pub fn drain(&self) -> Vec<Arc<OpenFile>> {
        let guard = epoch::pin();
        let mut numbers = Vec::new();
        self.table.scan(0, &guard, |object| {
            numbers.push(object.number());
            true
        });
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }
}

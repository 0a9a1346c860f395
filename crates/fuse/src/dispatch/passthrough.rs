//! Passing the data of open files through to the files below.

use crate::dispatch::Dispatcher;
use crate::dispatch::flows::{Access, Asked};
use crate::wire::reply::Timeouts;
use hearth::{Caller, Event, KernelCache, Kind, VfsFile};
use std::time::Duration;

impl<V: KernelCache> Dispatcher<V> {
    /// A file was opened; the number by which the kernel knows the file below, if it reads and
    /// writes that by itself.
    pub(super) fn flow_begins(&self, caller: &Caller<'_>, file: &V::File) -> Option<i32> {
        let flows = self.handles.flows().filter(|_| has_flow(file))?;
        let asked = flows.open(file.ino(), access(file), |register| {
            self.vfs.pass_through(caller, file, register)
        });
        match asked {
            Asked::Through(number) => {
                self.volume.stats().event(Event::PassedThrough);
                file.set_passed_through();
                Some(number)
            }
            Asked::Cached => None,
            Asked::Refused => {
                self.volume.stats().event(Event::PassthroughRefused);
                None
            }
        }
    }

    /// A file was closed.
    pub(super) fn flow_ended(&self, file: &V::File) {
        if let Some(flows) = self.handles.flows().filter(|_| has_flow(file)) {
            flows.close(file.ino(), access(file));
        }
    }

    /// How long the kernel may believe what it is told of an inode of `size` bytes: attributes not
    /// at all while stores through a mapping may change them, nor while it believes others than it
    /// is told. It is asked to drop the inode whenever it asks, so it should ask.
    pub(super) fn timeouts(&self, ino: u64, size: u64) -> Timeouts {
        let timeouts = self.settings.timeouts;
        match self.changes_unseen(ino, size) || self.notifier.is_stale(ino) {
            true => Timeouts {
                attr: Duration::ZERO,
                ..timeouts
            },
            false => timeouts,
        }
    }

    /// Whether the kernel reads and writes the file below by itself.
    pub(super) fn is_passed_through(&self, ino: u64) -> bool {
        let flows = self.handles.flows();
        flows.is_some_and(|flows| flows.is_passed_through(ino))
    }

    /// Whether the kernel may write to the file below by itself.
    pub(super) fn is_written_below(&self, ino: u64) -> bool {
        let flows = self.handles.flows();
        flows.is_some_and(|flows| flows.is_written(ino))
    }

    /// What the kernel believes of an inode is true no longer once stores through a mapping may
    /// change it. It takes no lock for that.
    pub(super) fn drop_attributes(&self, ino: u64) {
        if self.changes_unseen(ino, u64::MAX) {
            self.notifier.inval_inode(ino, None);
        }
    }

    fn changes_unseen(&self, ino: u64, size: u64) -> bool {
        let flows = self.handles.flows();
        flows.is_some_and(|flows| flows.changes_unseen(ino, size))
    }
}

fn access(file: &impl VfsFile) -> Access {
    Access {
        reads: file.readable(),
        writes: file.writable(),
    }
}

fn has_flow(file: &impl VfsFile) -> bool {
    file.kind() == Kind::File && !file.is_control()
}

//! How the data of each open file flows: through the kernel's cache and requests, or through the
//! kernel to the file below, past this process. All opens of an inode agree for as long as one of
//! them lasts, since the kernel refuses what mixes both: `docs/design/host.md`.

use crate::transport::device::Device;
use hearth::Errno;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::Relaxed};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;

lock_class! {
    /// Held while an inode is registered, which opens nothing: two opens at once must agree. So it
    /// comes before all locks of what is served.
    FlowLock = "fuse.flows", 798;
}

const SHARDS: usize = 16;

/// The files below that the kernel uses by itself.
pub(crate) struct Flows {
    device: Arc<Device>,
    shards: Vec<Lock<FlowLock, HashMap<u64, Flow>>>,
    /// Inodes that are passed through and open for writing. Relaxed: whoever opened one to write to
    /// it has had the reply after this was counted.
    written: AtomicUsize,
    /// Attributes that the kernel has asked for before a write that it makes itself are not
    /// believed behind it.
    writes_end_belief: bool,
}

/// An inode that is open.
struct Flow {
    /// The number of the file below in the kernel; `None`: it is cached.
    backing: Option<i32>,
    opens: u32,
    /// How many of them may write.
    writers: u32,
    /// How many of those may also read, as a mapping that is stored to must.
    mappers: u32,
}

/// How a file is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    /// Whether stores through a mapping may come of it.
    fn maps(self) -> bool {
        self.reads && self.writes
    }
}

/// What came of asking for a file to be passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It is, under this number.
    Through(i32),
    /// It is not: somebody has to see its data, or has it open so.
    Cached,
    /// The kernel refused.
    Refused,
}

impl Flows {
    /// Registers files through `device`.
    pub fn new(device: Arc<Device>) -> Flows {
        Flows {
            device,
            shards: (0..SHARDS).map(|_| Lock::new(HashMap::new())).collect(),
            written: AtomicUsize::new(0),
            writes_end_belief: writes_end_belief(&release()),
        }
    }

    /// A file of `ino` is opened. The first one decides: `register` passes the file below to the
    /// function that it is given, or tells by `None` that somebody has to see the data.
    pub fn open(
        &self,
        ino: u64,
        access: Access,
        register: impl FnOnce(&mut Register<'_>) -> Option<Result<i32, Errno>>,
    ) -> Asked {
        let mut shard = self.shard(ino).lock();
        let (flow, asked) = match shard.entry(ino) {
            std::collections::hash_map::Entry::Occupied(flow) => {
                let flow = flow.into_mut();
                let asked = flow.backing.map_or(Asked::Cached, Asked::Through);
                (flow, asked)
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                let asked = match register(&mut |fd| self.device.open_backing(fd)) {
                    Some(Ok(backing)) => Asked::Through(backing),
                    Some(Err(_)) => Asked::Refused,
                    None => Asked::Cached,
                };
                let backing = match asked {
                    Asked::Through(backing) => Some(backing),
                    Asked::Cached | Asked::Refused => None,
                };
                let flow = Flow {
                    backing,
                    opens: 0,
                    writers: 0,
                    mappers: 0,
                };
                (place.insert(flow), asked)
            }
        };
        flow.opens += 1;
        flow.mappers += u32::from(access.maps());
        if access.writes {
            flow.writers += 1;
            self.count_written(flow, 1);
        }
        asked
    }

    /// A file of `ino` is closed. With the last one the kernel's number of the file below ends.
    pub fn close(&self, ino: u64, access: Access) {
        let mut shard = self.shard(ino).lock();
        let Some(flow) = shard.get_mut(&ino) else {
            return;
        };
        flow.mappers = flow.mappers.saturating_sub(u32::from(access.maps()));
        if access.writes {
            self.count_written(flow, 0);
            flow.writers = flow.writers.saturating_sub(1);
        }
        flow.opens = flow.opens.saturating_sub(1);
        if flow.opens > 0 {
            return;
        }
        let ended = shard.remove(&ino);
        if let Some(backing) = ended.and_then(|flow| flow.backing) {
            self.device.close_backing(backing);
        }
    }

    /// Whether the file is open and passed through.
    pub fn is_passed_through(&self, ino: u64) -> bool {
        let shard = self.shard(ino).lock();
        shard.get(&ino).is_some_and(|flow| flow.backing.is_some())
    }

    /// Whether the kernel may write to the file below by itself.
    pub fn is_written(&self, ino: u64) -> bool {
        self.is(ino, |flow| flow.writers > 0)
    }

    /// Whether the attributes of a file of `size` bytes may change without a word to anybody: by
    /// stores through a mapping, to which an empty file has no room. Behind a write by a call the
    /// kernel asks again.
    pub fn changes_unseen(&self, ino: u64, size: u64) -> bool {
        match self.writes_end_belief {
            true => size > 0 && self.is(ino, |flow| flow.mappers > 0),
            false => self.is_written(ino),
        }
    }

    fn is(&self, ino: u64, holds: impl FnOnce(&Flow) -> bool) -> bool {
        self.written.load(Relaxed) > 0 && {
            let shard = self.shard(ino).lock();
            let flow = shard.get(&ino);
            flow.is_some_and(|flow| flow.backing.is_some() && holds(flow))
        }
    }

    /// Counts an inode that has its first writer (`begins` is 1), or whose last one is going.
    fn count_written(&self, flow: &Flow, begins: usize) {
        if flow.backing.is_none() || flow.writers != 1 {
            return;
        }
        match begins {
            0 => self.written.fetch_sub(1, Relaxed),
            _ => self.written.fetch_add(1, Relaxed),
        };
    }

    fn shard(&self, ino: u64) -> &Lock<FlowLock, HashMap<u64, Flow>> {
        &self.shards[ino as usize % SHARDS]
    }
}

/// The release of this kernel.
fn release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Linux 6.13 is the first whose passed-through writes raise the version of an inode's attributes.
/// Before, a reply that was on its way during the write was believed behind it.
fn writes_end_belief(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    let version: (Option<u32>, Option<u32>) = (numbers.next().flatten(), numbers.next().flatten());
    version >= (Some(6), Some(13))
}

/// Tells the kernel of an open file below; its number there.
pub(crate) type Register<'a> = dyn FnMut(BorrowedFd<'_>) -> Result<i32, Errno> + 'a;

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Access = Access {
        reads: true,
        writes: false,
    };
    const WRITE: Access = Access {
        reads: false,
        writes: true,
    };
    const BOTH: Access = Access {
        reads: true,
        writes: true,
    };

    fn flows() -> Flows {
        // Not connected to a mount: it refuses each file.
        Flows {
            writes_end_belief: true,
            ..Flows::new(Arc::new(Device::open().expect("/dev/fuse")))
        }
    }

    #[test]
    fn the_first_open_decides_until_the_last_close() {
        let flows = flows();
        let through = |_: &mut Register<'_>| Some(Ok(7));
        let cached = |_: &mut Register<'_>| None;
        assert_eq!(flows.open(1, READ, cached), Asked::Cached);
        assert_eq!(flows.open(1, READ, through), Asked::Cached);
        assert_eq!(flows.open(2, READ, through), Asked::Through(7));
        assert!(!flows.is_passed_through(1) && flows.is_passed_through(2));
        assert!(!flows.is_passed_through(3));
        flows.close(1, READ);
        assert_eq!(flows.open(1, WRITE, through), Asked::Cached);
        flows.close(1, WRITE);
        flows.close(1, READ);
        assert_eq!(flows.open(1, READ, through), Asked::Through(7));
        assert_eq!(flows.open(1, READ, cached), Asked::Through(7));
    }

    #[test]
    fn a_file_is_written_while_a_writer_has_it_open_and_passed_through() {
        let flows = flows();
        let through = |_: &mut Register<'_>| Some(Ok(7));
        flows.open(1, READ, through);
        assert!(!flows.is_written(1));
        flows.open(1, WRITE, through);
        flows.open(1, WRITE, through);
        flows.open(2, WRITE, |_| None);
        assert!(flows.is_written(1) && !flows.is_written(2) && !flows.is_written(3));
        flows.close(1, WRITE);
        assert!(flows.is_written(1));
        flows.close(1, WRITE);
        assert!(!flows.is_written(1));
        assert_eq!(flows.written.load(Relaxed), 0);
    }

    #[test]
    fn a_mapping_of_a_file_is_stored_to_while_somebody_may_read_and_write_it() {
        let flows = flows();
        let through = |_: &mut Register<'_>| Some(Ok(7));
        for access in [READ, WRITE] {
            flows.open(1, access, through);
        }
        let unseen = |flows: &Flows, ino| flows.changes_unseen(ino, 1);
        assert!(!unseen(&flows, 1), "by two opens, each of which does one");
        flows.open(1, BOTH, through);
        flows.open(2, BOTH, |_| None);
        assert!(unseen(&flows, 1) && !unseen(&flows, 2));
        assert!(!flows.changes_unseen(1, 0), "it is empty");
        flows.close(1, BOTH);
        assert!(!unseen(&flows, 1) && flows.is_written(1));
        let old = Flows {
            writes_end_belief: false,
            ..flows
        };
        assert!(old.changes_unseen(1, 0) && !old.changes_unseen(3, 1));
    }

    #[test]
    fn kernels_are_told_apart_by_their_release() {
        for (release, ends) in [
            ("6.9.0-1-amd64", false),
            ("6.12.63+deb13-amd64", false),
            ("6.13.0", true),
            ("6.18.44-fc-v1045", true),
            ("7.0-rc1", true),
            ("5.15", false),
            ("", false),
        ] {
            assert_eq!(writes_end_belief(release), ends, "{release}");
        }
    }

    #[test]
    fn what_the_kernel_refuses_is_cached_as_long_as_it_is_open() {
        let flows = flows();
        let file = std::fs::File::open("/").expect("is there");
        let register =
            |register: &mut Register<'_>| Some(register(std::os::fd::AsFd::as_fd(&file)));
        assert_eq!(flows.open(1, READ, register), Asked::Refused);
        assert_eq!(flows.open(1, READ, |_| Some(Ok(7))), Asked::Cached);
    }
}

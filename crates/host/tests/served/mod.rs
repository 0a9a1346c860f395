//! A directory that is served with quotas, in process.

#![allow(clippy::unwrap_used)]
// Each suite is a program of its own and uses a part of this.
#![allow(dead_code)]

use hearth::{Caller, Origin, QuotaId, Vfs, Volume, WriteAt};
use hearth_host::{HostFile, HostOptions, HostVfs};
use hearth_testing::place::Place;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A caller in the kernel, as thread 7.
pub const CALLER: Caller<'static> = Caller {
    pid: 7,
    origin: Origin::Kernel,
    ..Caller::ROOT
};
/// Bytes that [`Served::write`] writes.
pub const SIZE: usize = 200 << 10;

/// A directory that is served, with its quotas.
pub struct Served {
    pub volume: Volume,
    pub vfs: HostVfs,
}

impl Served {
    /// Once it is counted.
    pub fn of(source: &Path, state: &Path) -> Served {
        Served::counted(source, state, true)
    }

    /// Counted before, or in the background.
    pub fn counted(source: &Path, state: &Path, waits: bool) -> Served {
        let volume = Volume::builder().build().unwrap();
        let options = HostOptions {
            state: Some(state.to_owned()),
            ..HostOptions::default()
        };
        let vfs = HostVfs::open(source, options, &volume).unwrap();
        let vfs = vfs.with_quotas(source, &volume, waits, |_, _| ()).unwrap();
        Served { volume, vfs }
    }

    /// Bytes and inodes.
    pub fn used(&self) -> [u64; 2] {
        let used = self.volume.quota().get(QuotaId::user(0)).unwrap();
        [used.bytes.used, used.inodes.used]
    }

    /// Makes a file and opens it.
    pub fn make(&self, parent: u64, name: &[u8]) -> Arc<HostFile> {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let made = self.vfs.create(&CALLER, parent, name, 0o644, flags);
        made.unwrap().1
    }

    /// Writes at an offset; false if it was refused.
    pub fn write(&self, file: &HostFile, at: usize) -> bool {
        let data = vec![1; SIZE];
        let place = WriteAt::At(at as u64);
        self.vfs.write(&CALLER, file, place, &data, false).is_ok()
    }
}

/// A directory to serve, and one for its state, in a place of their own.
pub fn directories(name: &str) -> (Place, PathBuf, PathBuf) {
    let place = Place::new(name).unwrap();
    let source = place.directory("source").unwrap();
    let state = place.directory("state").unwrap();
    (place, source, state)
}

//! A mounted volume: from `mount` to the last thread.

use crate::dispatch::{Dispatcher, Settings};
use crate::init::{self, Agreed};
use crate::mount::{self, MountError, Mounted};
use crate::notify::Notifier;
use crate::options::{MountOptions, Transport};
use crate::reply::out_header;
use crate::start::{Starting, uring_threads};
use crate::transport::cpu;
use crate::transport::dev::Reader;
use crate::transport::device::{Device, Incoming};
use crate::uring_switch::{UringSwitch, uring_switch};
use crate::waiting::Waiting;
use crate::wire::{InHeader, InitIn, InitOut, READ_OVERHEAD, init as bits};
use crate::workers::Workers;
use hearth::Volume;
use hearth_sync::primitive::thread::{Builder, JoinHandle};
use hearth_sync::primitive::{Arc, Condvar, Mutex};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// How long [`Session::unmount`] lets users of the mount go on before it ends the connection under them.
const GRACE: Duration = Duration::from_secs(2);

/// A volume that is mounted. Dropping it unmounts.
///
/// The program may use the same [`Volume`] through [`hearth::Process`] meanwhile. What it should not do is to use the
/// mount itself by system calls: a thread that waits inside the kernel for an answer of its own process can hang in
/// exit. Dropping the session before the program ends wakes such threads with an error.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    /// Joined by whoever finishes the session first.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads of a session share.
pub(crate) struct Shared {
    pub mounted: Mounted,
    /// The device that everything was set up through; clones of it carry the requests.
    pub device: Arc<Device>,
    /// Number under which fusectl knows the connection.
    connection: Option<u32>,
    transport: &'static str,
    pub workers: Arc<Workers>,
    waiting: Arc<Waiting>,
    notifier: Arc<Notifier>,
    /// Threads that still carry requests.
    alive: Mutex<usize>,
    ended: Condvar,
}

impl Session {
    /// Mounts `volume` on the directory `mountpoint` and serves it on threads of this process. Returns when the mount
    /// answers.
    ///
    /// # Errors
    /// What is in the way, with the remedy. Nothing is left mounted then.
    pub fn start(
        volume: Volume,
        mountpoint: &Path,
        options: MountOptions,
    ) -> Result<Session, MountError> {
        check_switch(&options)?;
        let mounted = mount::mount(mountpoint, &options)?;
        let failed = |error| MountError::Io { path: mountpoint.to_owned(), error };
        let session = Session::serve(volume, &mounted, &options)
            .and_then(|parts| parts.run(mounted.path.clone()).map_err(failed));
        match session {
            Ok(started) => {
                let (shared, threads) = started.into_parts(mounted);
                Ok(Session { shared, threads: Mutex::new(threads) })
            }
            Err(error) => {
                // The descriptor closes with `mounted`, which ends the connection even where detaching fails.
                let _ = mounted.detach(true);
                Err(error)
            }
        }
    }
}

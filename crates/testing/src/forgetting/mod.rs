//! A filesystem that forgets: it serves a plain directory, and keeps in memory what nobody synced.
//!
//! Data of a file reaches the directory below at `fsync` or `fdatasync` of that file, a name at
//! `fsync` of its directory; a sync of a file keeps none of its names. That is less than any
//! filesystem of Linux gives, and all that POSIX promises. `syncfs` and `sync` never reach a
//! filesystem of this kind: what only they would have synced counts as lost.
//!
//! [`Forgetting::cut`] is a power cut: the mount is taken away under its users, what was not synced
//! is dropped, and the directory is served again as a disk that was switched on. With a seed, some
//! unsynced blocks of 4 KiB and some names had reached the disk.

mod answers;
mod blocks;
mod counts;
mod node;
mod serve;
mod tree;

pub use counts::{Counts, Fault};

use counts::Counters;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use serve::{Server, Shared, lock};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tree::Tree;

/// How long the end of a mount is waited for, and how often it is looked at.
const ENDING: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(1);

/// How the filesystem behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long each sync takes.
    pub delay: Duration,
    /// Whether data waits for a sync; without, it is only slow.
    pub is_forgetful: bool,
    /// Whether any sync keeps all names made before, as the journals of ext4, XFS and btrfs do for
    /// a new file and its directories; without, only that of their directory does.
    pub journals: bool,
}

/// A mount; dropping it is an orderly end: everything is kept.
pub struct Forgetting {
    below: PathBuf,
    at: PathBuf,
    options: Options,
    tree: Shared,
    counters: Arc<Counters>,
    session: Option<BackgroundSession>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            delay: Duration::ZERO,
            is_forgetful: true,
            journals: false,
        }
    }
}

impl Forgetting {
    /// Serves the directory `below` at `at`. Beside `below` must be room for a directory of the
    /// same name that ends in `.unsynced`.
    pub fn mount(below: &Path, at: &Path, options: Options) -> io::Result<Forgetting> {
        let counters = Arc::new(Counters::default());
        counters.set_delay(options.delay);
        let mut mount = Forgetting {
            below: below.canonicalize()?,
            at: at.canonicalize()?,
            options,
            tree: Arc::new(Mutex::new(None)),
            counters,
            session: None,
        };
        mount.serve()?;
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// The directory that holds what would be there after a power cut now.
    pub fn below(&self) -> &Path {
        &self.below
    }

    /// A power cut and a start. Whoever has something open gets errors from then on; a filesystem
    /// that lies on this one is to be taken away before.
    pub fn cut(&mut self, seed: Option<u64>) -> io::Result<()> {
        let tree = lock(&self.tree).take();
        self.take_away()?;
        if let Some(tree) = tree {
            tree.cut(seed)?;
        }
        self.serve()
    }

    /// What was asked of it so far.
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Makes each sync take that long from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.counters.set_delay(delay);
    }

    /// Makes that go wrong from now on.
    pub fn set_fault(&self, fault: Fault) {
        self.counters.set_fault(fault);
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut stage = self.below.clone().into_os_string();
        stage.push(".unsynced");
        let tree = Tree::load(&self.below, Path::new(&stage), self.options.journals)?;
        self.tree = Arc::new(Mutex::new(Some(tree)));
        let server = Server {
            tree: Arc::clone(&self.tree),
            counters: Arc::clone(&self.counters),
            is_forgetful: self.options.is_forgetful,
            lists: Mutex::default(),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("forgetting".into()),
            MountOption::DefaultPermissions,
            MountOption::Dev,
        ];
        config.acl = SessionACL::All;
        self.session = Some(fuser::spawn_mount(server, &self.at, &config)?);
        Ok(())
    }

    /// Ends the mount, in use or not.
    fn take_away(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        // By force: whoever waits gets an error.
        unmount(&self.at, UnmountFlags::FORCE | UnmountFlags::DETACH)?;
        // The end of a connection that was broken is no error of anybody's.
        let _ = session.join();
        Ok(())
    }
}

impl Drop for Forgetting {
    fn drop(&mut self) {
        let orderly = unmount(&self.at, UnmountFlags::empty()).is_ok();
        let session = self.session.take();
        if !orderly {
            let _ = unmount(&self.at, UnmountFlags::FORCE | UnmountFlags::DETACH);
        }
        if let Some(session) = session {
            let begun = Instant::now();
            while !session.guard.is_finished() && begun.elapsed() < ENDING {
                thread::sleep(LOOK);
            }
            match session.guard.is_finished() {
                true => drop(session.join()),
                // A mount namespace has a copy of the mount, which is served until that ends.
                false => std::mem::forget(session),
            }
        }
        if let Some(mut tree) = lock(&self.tree).take() {
            let kept = tree.keep_everything().and_then(|()| tree.cut(None));
            if let Err(error) = kept {
                eprintln!("{}: not all is kept: {error}", self.below.display());
            }
        }
    }
}

//! What name lookups and renames share: the keys of the name hash and the rename lock.

use super::Superblock;
use crate::cache_padded::CachePadded;
use crate::hashed::{Hashed, NameKeys};
use ahash::RandomState;
use hearth_sync::lock::{Class, Lock, LockGuard};
use hearth_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};

/// The keys of the name hash, and the lock of renames across directories.
pub(crate) struct Namespace {
    /// Keys of the name hash. Immutable.
    pub keys: NameKeys,
    /// Held by renames of directories across directories, on a cache line of its own.
    /// Boxed, so that its alignment does not push the keys from what lookups read beside them.
    pub rename: Box<CachePadded<Lock<RenameLock, ()>>>,
    /// How many keep all directories and links where they are. Relaxed: a rename or a removal that
    /// begins beside the first look at it is one that was under way.
    stills: AtomicU32,
}

/// Attempts beside renames and removals that were under way, each of which spoils one or two.
pub(crate) const STILL_ATTEMPTS: usize = 100;

/// Directories and links keep their names and parents, once the renames and removals that are under
/// way have ended.
pub(crate) struct Still<'a> {
    stills: &'a AtomicU32,
    _rename: LockGuard<'a, RenameLock, ()>,
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.stills.fetch_sub(1, Relaxed);
    }
}

pub(crate) struct RenameLock;
impl Class for RenameLock {
    const NAME: &'static str = "volume.rename";
    const RANK: u32 = 10;
}

impl Namespace {
    pub fn new() -> Namespace {
        Namespace {
            keys: keys(),
            rename: Box::new(CachePadded(Lock::new(()))),
            stills: AtomicU32::new(0),
        }
    }

    /// Keeps all directories and links where they are.
    #[track_caller]
    pub fn keep_still(&self) -> Still<'_> {
        self.stills.fetch_add(1, Relaxed);
        Still {
            stills: &self.stills,
            _rename: self.rename.0.lock(),
        }
    }

    /// Whether a directory or a link may be renamed, also in place, and removed only under the
    /// rename lock.
    #[inline]
    pub fn are_still(&self) -> bool {
        self.stills.load(Relaxed) > 0
    }
}

impl Superblock {
    /// The name of a directory entry with its hash in this volume.
    #[inline(always)]
    pub fn hashed<'n>(&self, name: &'n [u8]) -> Hashed<'n> {
        self.names.keys.hashed(name)
    }
}

/// Random keys: a user cannot choose names whose hashes collide.
fn keys() -> NameKeys {
    NameKeys::from(&match cfg!(feature = "shuttle") {
        // A failing schedule must fail again when it is replayed.
        true => RandomState::with_seeds(1, 2, 3, 4),
        false => RandomState::new(),
    })
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use crate::{AT_FDCWD, Credentials, Process, Volume};
    use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
    use hearth_sync::primitive::thread;
    use std::time::Duration;

    /// How long what must not happen is waited for.
    const LONG: Duration = Duration::from_millis(50);

    /// Regression: a link was renamed in place also while a walk beside such renames held the
    /// rename lock, and the walk began again for ever.
    #[test]
    fn nothing_that_a_walk_passes_is_renamed_in_place_while_it_is_kept_still() {
        for is_link in [false, true] {
            let volume = Volume::memory();
            let process = volume.process(Credentials::root());
            match is_link {
                false => process.mkdir("/a", 0o755).unwrap(),
                true => process.symlink("/", "/a").unwrap(),
            }
            process.mknod("/b", libc::S_IFREG | 0o600, 0).unwrap();
            let exchange = |process: &Process| {
                process.renameat2(AT_FDCWD, "/b", AT_FDCWD, "/a", libc::RENAME_EXCHANGE)
            };
            let is_done = AtomicBool::new(false);
            thread::scope(|scope| {
                let still = volume.sb.names.keep_still();
                scope.spawn(|| {
                    exchange(&volume.process(Credentials::root())).unwrap();
                    is_done.store(true, Relaxed);
                });
                thread::sleep(LONG);
                let was_done = is_done.load(Relaxed);
                drop(still);
                assert!(!was_done);
            });
            assert!(is_done.load(Relaxed));
        }
    }

    /// Regression: a walk beside a directory or a link that is removed and made again all the time
    /// began again for ever.
    #[test]
    fn nothing_that_a_walk_passes_is_removed_while_it_is_kept_still() {
        let make = |process: &Process, name: &str| match name {
            "/dir" => process.mkdir(name, 0o755).unwrap(),
            "/link" => process.symlink("/", name).unwrap(),
            _ => process.mknod(name, libc::S_IFREG | 0o600, 0).unwrap(),
        };
        let remove = |process: &Process, name: &str| match name {
            "/dir" => process.rmdir(name).unwrap(),
            _ => process.unlink(name).unwrap(),
        };
        for (name, is_passed) in [("/dir", true), ("/link", true), ("/file", false)] {
            let volume = Volume::memory();
            make(&volume.process(Credentials::root()), name);
            let is_done = AtomicBool::new(false);
            thread::scope(|scope| {
                let still = volume.sb.names.keep_still();
                scope.spawn(|| {
                    remove(&volume.process(Credentials::root()), name);
                    is_done.store(true, Relaxed);
                });
                let begun = std::time::Instant::now();
                // What is passed by nobody does not wait.
                let most = if is_passed { LONG } else { 100 * LONG };
                while !is_done.load(Relaxed) && begun.elapsed() < most {
                    thread::sleep(Duration::from_millis(1));
                }
                let was_done = is_done.load(Relaxed);
                drop(still);
                assert_eq!(was_done, !is_passed, "{name}");
            });
            assert!(is_done.load(Relaxed));
        }
    }
}

//! `-o memory=`: a bound on the inodes that the kernel refers to. An inode is kept for as long as
//! the kernel refers to it, so only the kernel can make room: it is asked to forget what nobody has
//! used for a while. Design: `docs/design/host.md`, "How many inodes there are".

use crate::error::OpenError;
use crate::nodes::Nodes;
use crate::tree::Tree;
use hearth::Volume;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::Relaxed};
use hearth_sync::primitive::thread::{self, Thread};
use std::path::Path;
use std::time::Duration;

/// Time for the kernel to give back what it was asked for, before more is asked for.
const PAUSE: Duration = Duration::from_millis(5);
/// Inodes that the kernel is asked for at a time.
const BATCH: usize = 8192;
/// Rounds without success after which the thread rests.
const ROUNDS: u32 = 4;
/// Pauses after a round in which nothing was given back: all is in use, or the kernel cannot be
/// asked (before Linux 6.18).
const NO_ROOM: Duration = Duration::from_secs(1);
const NO_ROOM_MOST: Duration = Duration::from_secs(64);

/// The thread that makes room. It ends when this is dropped.
#[derive(Debug)]
pub struct Shrinker {
    ends: Arc<AtomicBool>,
    thread: Thread,
}

struct ShrinkLoop {
    tree: Arc<Tree>,
    volume: Volume,
    ends: Arc<AtomicBool>,
    /// Inodes that are left when room was made.
    most: u64,
    /// The part of the table that is next.
    part: usize,
}

impl Shrinker {
    /// Keeps the inodes of `tree`, which is served from `source`, within `bytes`. Observers of
    /// `volume` are asked to forget inodes.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn begin(
        source: &Path,
        tree: &Arc<Tree>,
        volume: &Volume,
        bytes: u64,
    ) -> Result<Shrinker, OpenError> {
        let most = bytes / Nodes::BYTES;
        let ends = Arc::new(AtomicBool::new(false));
        let shrinking = ShrinkLoop {
            tree: Arc::clone(tree),
            volume: volume.clone(),
            ends: Arc::clone(&ends),
            most: most - most / 8,
            part: 0,
        };
        let builder = thread::Builder::new().name("hearth-shrinker".into());
        let spawned = builder.spawn(move || shrinking.run());
        let spawned = spawned.map_err(|error| OpenError::of(source.to_owned(), error))?;
        let thread = spawned.thread().clone();
        let bound = usize::try_from(most).unwrap_or(usize::MAX);
        tree.nodes.bound(bound, thread.clone());
        Ok(Shrinker { ends, thread })
    }
}

impl Drop for Shrinker {
    fn drop(&mut self) {
        // Relaxed: a flag of its own, and the wake-up follows.
        self.ends.store(true, Relaxed);
        self.thread.unpark();
    }
}

impl ShrinkLoop {
    fn run(mut self) {
        let mut pause = NO_ROOM;
        loop {
            thread::park();
            match self.make_room() {
                true => pause = NO_ROOM,
                // Lookups go on waking this thread meanwhile.
                false => {
                    self.rest(pause);
                    pause = (2 * pause).min(NO_ROOM_MOST);
                }
            }
            if self.ends() {
                return;
            }
        }
    }

    /// Has the kernel forget inodes until there is room again. False if it forgets none.
    fn make_room(&mut self) -> bool {
        let mut failures = 0;
        while let Some(wanted) = self.excess()
            && !self.ends()
        {
            let unused = self.unused(wanted.min(BATCH));
            self.volume.announce_crowded(&unused);
            thread::sleep(PAUSE);
            // Lookups go on meanwhile, so the number of inodes alone does not tell.
            let is_forgotten = unused.iter().any(|&number| !self.tree.nodes.has(number));
            // In the first round all may have been used: each is passed over once.
            failures = if is_forgotten { 0 } else { failures + 1 };
            if failures > ROUNDS {
                return false;
            }
        }
        true
    }

    /// How many inodes there are beyond what is left when room was made.
    fn excess(&self) -> Option<usize> {
        let excess = self.tree.nodes.len().checked_sub(self.most)?;
        usize::try_from(excess).ok().filter(|&excess| excess > 0)
    }

    /// Inodes that nobody uses: as many as are wanted, or what one round over the table finds.
    fn unused(&mut self, wanted: usize) -> Vec<u64> {
        let mut unused = Vec::new();
        for _ in 0..Nodes::PARTS {
            unused.extend(self.tree.nodes.unused(self.part));
            self.part = self.part.wrapping_add(1);
            if unused.len() >= wanted {
                break;
            }
        }
        unused.truncate(wanted);
        unused
    }

    /// Waits for `time`, or until the end.
    fn rest(&self, time: Duration) {
        let until = std::time::Instant::now() + time;
        while !self.ends()
            && let Some(left) = until.checked_duration_since(std::time::Instant::now())
        {
            thread::sleep(left.min(NO_ROOM));
        }
    }

    fn ends(&self) -> bool {
        // Relaxed: see the drop.
        self.ends.load(Relaxed)
    }
}

//! How many descriptors this process may have, and what for. Files that are open stay within their
//! part, so that calls which need a descriptor for a moment find one. Design:
//! `docs/design/host.md`, "Descriptors".

use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::Relaxed};
use hearth_sync::primitive::thread;
use rustix::process::{Resource, geteuid, getrlimit};

/// Descriptors that one call has at most at a time: a rename with quotas while the tree is walked.
const CALL: usize = 8;
/// Calls at a time for which there is room, however small the limit is.
const CALLS_LEAST: usize = 2;
const CALLS_MOST: usize = 1024;
/// The daemon's own: log, mount, state, walks of the tree.
const OWN: usize = 24;
/// The daemon's own for each core: `/dev/fuse`, and what wakes its thread.
const OWN_OF_CORE: usize = 2;
/// Bounds of what is kept of inodes that nobody has open.
const KEPT_LEAST: usize = 4;
const KEPT_MOST: usize = 4096;
/// One in so many of the places for open files is for directories alone, so that trees can be
/// listed and removed when files have taken the others.
const FOR_DIRECTORIES: usize = 8;
/// A user has at most so many times the places that are left: all users together never have all.
const SHARE: usize = 3;
/// Users are told apart by their number modulo this.
const USERS: usize = 1024;

/// The parts of the descriptors that there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorParts {
    /// Kept of inodes that have no handles, and as many again of what a second look has found.
    pub kept: usize,
    /// Calls at a time.
    pub calls: usize,
    /// Open files, and what has no name any more and is used.
    pub open: usize,
}

impl DescriptorParts {
    /// Those of this process, whose limit was raised before.
    pub fn of_this_process() -> DescriptorParts {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        DescriptorParts::of(usize::try_from(most).unwrap_or(usize::MAX), cores)
    }

    fn of(most: usize, cores: usize) -> DescriptorParts {
        let kept = (most / 16).clamp(KEPT_LEAST, KEPT_MOST);
        let calls = (most / 4 / CALL).clamp(CALLS_LEAST, CALLS_MOST);
        let others = OWN + OWN_OF_CORE * cores + 2 * kept + calls * CALL;
        let open = most.saturating_sub(others).max(1);
        DescriptorParts { kept, calls, open }
    }
}

/// Places for open files. Relaxed throughout: counts order nothing, and each is exact.
#[derive(Debug)]
pub struct DescriptorRoom {
    most: usize,
    taken: AtomicUsize,
    by_user: Box<[AtomicUsize]>,
    /// The daemon's user, who is bound by no share, as root is not.
    own: u32,
}

/// A place that is taken for as long as this lives.
#[derive(Debug)]
pub struct TakenPlace {
    room: Arc<DescriptorRoom>,
    user: u32,
}

impl DescriptorRoom {
    /// Room for `most` open files.
    pub fn new(most: usize) -> DescriptorRoom {
        DescriptorRoom {
            most,
            taken: AtomicUsize::new(0),
            by_user: (0..USERS).map(|_| AtomicUsize::new(0)).collect(),
            own: geteuid().as_raw(),
        }
    }

    /// A place for what `user` opens; `None` if there is none, or `user` has too many.
    pub fn take(self: &Arc<Self>, user: u32, is_directory: bool) -> Option<TakenPlace> {
        let most = match is_directory {
            true => self.most,
            false => self.most - self.most / FOR_DIRECTORIES,
        };
        let before = self.taken.fetch_add(1, Relaxed);
        self.of(user).fetch_add(1, Relaxed);
        // What is refused below is given back by its drop.
        let place = TakenPlace {
            room: Arc::clone(self),
            user,
        };
        let left = most.checked_sub(before + 1)?;
        let has_share = user != 0 && user != self.own;
        match has_share && self.of(user).load(Relaxed) > SHARE * (left + 1) {
            true => None,
            false => Some(place),
        }
    }

    fn of(&self, user: u32) -> &AtomicUsize {
        &self.by_user[user as usize % USERS]
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(1, Relaxed);
        self.room.of(self.user).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(room: &Arc<DescriptorRoom>, user: u32, is_directory: bool) -> Vec<TakenPlace> {
        std::iter::from_fn(|| room.take(user, is_directory)).collect()
    }

    #[test]
    fn the_parts_are_within_the_limit() {
        for most in [64, 256, 1024, 4096, 20_000, 1 << 20] {
            let parts = DescriptorParts::of(most, 2);
            let sum = OWN + 2 * OWN_OF_CORE + 2 * parts.kept + parts.calls * CALL + parts.open;
            assert!(sum <= most, "{most}: {parts:?}");
            assert!(parts.open >= most / 8, "{most}: {parts:?}");
        }
        assert_eq!(DescriptorParts::of(1 << 20, 64).calls, CALLS_MOST);
    }

    #[test]
    fn a_user_leaves_places_to_others_and_root_takes_the_last() {
        let room = Arc::new(DescriptorRoom::new(800));
        let of_one = all_of(&room, 1000, false);
        assert!((500..=540).contains(&of_one.len()), "{}", of_one.len());
        let of_other = all_of(&room, 1001, false);
        assert!(of_other.len() > 100, "{}", of_other.len());
        let of_root = all_of(&room, 0, false);
        assert_eq!(of_one.len() + of_other.len() + of_root.len(), 700);
        assert_eq!(all_of(&room, 0, true).len(), 100);
    }

    #[test]
    fn places_that_are_given_back_or_refused_are_free() {
        let room = Arc::new(DescriptorRoom::new(80));
        for _ in 0..3 {
            assert_eq!(all_of(&room, 0, true).len(), 80);
            assert_eq!(all_of(&room, 1000, false).len(), 53);
        }
        assert_eq!(room.taken.load(Relaxed), 0);
    }
}

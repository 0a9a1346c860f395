//! Where a mount should be, and something else is.

use super::old_daemon::OldDaemon;
use crate::harness::{Mounted, Transport, hearth, succeed};
use hearth_testing::forgetting::{Forgetting, Options};
use std::path::{Path, PathBuf};

/// What is said of the daemon of another version.
const OLD: &str = "mount it again with this one, hearth ";

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing is there.
    Missing,
    /// An empty directory.
    Plain,
    /// A mount whose daemon was killed.
    Dead,
    /// A mount of another filesystem in user space.
    Foreign,
    /// A mount that an older daemon serves, with and without questions.
    Old,
    /// A mount of somebody else, who has let nobody look.
    Closed,
}

impl Place {
    pub const ALL: [Place; 6] = [
        Place::Missing,
        Place::Plain,
        Place::Dead,
        Place::Foreign,
        Place::Old,
        Place::Closed,
    ];

    /// What a refusal there may name as the way out: one of these.
    pub fn remedies(self) -> &'static [&'static str] {
        match self {
            Place::Missing => &[
                "findmnt -t fuse.hearth",
                "mkdir -p ",
                "hearth mkfs makes",
                "give a directory of a mounted volume",
            ],
            Place::Plain => &["findmnt -t fuse.hearth", "hearth mkfs"],
            Place::Dead => &["'hearth umount "],
            Place::Foreign => &["findmnt -t fuse.hearth", "'umount ", "hearth mkfs"],
            Place::Old => &[OLD, "hearth umount ", "hearth mkfs"],
            Place::Closed => &["look as daemon, or", "hearth umount "],
        }
    }
}

/// The user who has mounted what is closed: Debian's `daemon`.
const USER: u32 = 1;

/// All of them.
pub struct Places {
    _old: [OldDaemon; 2],
    _closed: OldDaemon,
    _foreign: Forgetting,
    dead: Mounted,
    beside: PathBuf,
}

impl Places {
    pub fn new() -> Places {
        let dead = Mounted::new(Transport::Dev, "");
        let beside = dead.outside("beside");
        let [below, foreign, bare, asked, closed, _] =
            ["below", "foreign", "bare", "asked", "closed", "plain"].map(|name| dead.outside(name));
        let foreign = Forgetting::mount(&below, &foreign, Options::default());
        let places = Places {
            _old: [
                OldDaemon::mount(&bare, false, None),
                OldDaemon::mount(&asked, true, None),
            ],
            _closed: OldDaemon::mount(&closed, true, Some(USER)),
            _foreign: foreign.expect("another filesystem"),
            dead,
            beside,
        };
        places.fill();
        places.dead.kill();
        places
    }

    /// The directory in which is typed.
    pub fn beside(&self) -> &Path {
        &self.beside
    }

    /// The paths of a place.
    pub fn paths(&self, place: Place) -> Vec<PathBuf> {
        let names: &[&str] = match place {
            Place::Missing => &["missing"],
            Place::Plain => &["plain"],
            Place::Dead => return vec![self.dead.path().to_owned()],
            Place::Foreign => &["foreign"],
            Place::Old => &["bare", "asked"],
            Place::Closed => &["closed"],
        };
        let top = self.beside.parent().expect("it is in a directory");
        names.iter().map(|name| top.join(name)).collect()
    }

    /// What verbs want besides the path.
    fn fill(&self) {
        std::fs::write(self.beside.join("passphrase"), "secret").expect("a file");
        std::fs::write(self.beside.join("heat.jsonl"), "").expect("a file");
        let hearth = |typed: &str| {
            let mut hearth = hearth();
            hearth.args(typed.split(' ')).current_dir(&self.beside);
            succeed(&mut hearth);
        };
        hearth("mkfs v");
        hearth("dump v dump.tar");
    }
}

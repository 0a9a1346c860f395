//! What an event of the stream says.

use crate::attr::{Kind, Target, Time};
use crate::caller::{Caller, Origin};
use crate::inode::Inode;

/// A change of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEvent {
    /// Number within the volume since somebody began to listen to it, from 1.
    pub sequence: u64,
    /// Wall clock, as files are stamped.
    pub time: Time,
    /// What happened.
    pub change: NameChange,
    /// What has, had or got the name, and its kind; `None` if others have changed a name of the
    /// host just then.
    pub what: Option<(EventInode, Kind)>,
    /// The name, of a rename the old one.
    pub at: NamePlace,
    /// The caller of the change.
    pub by: NameChanger,
    /// The names are not the volume's own, so nothing is to be looked for in it.
    pub(super) is_foreign: bool,
}

/// Which inode an event is about. By the time the event is read the number may belong to another
/// inode, which has another generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventInode {
    /// Inode number, as programs see it.
    pub ino: u64,
    /// What `FS_IOC_GETVERSION` tells; 0 on filesystems of the host that have none.
    pub generation: u32,
}

/// What a listener has not read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameEvents {
    /// Events before these that are lost: more came than are kept for a reader.
    pub lost: u64,
    /// Oldest first.
    pub events: Vec<NameEvent>,
}

/// What happened to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// It was made: a new inode, or one more name of one.
    Create,
    /// It was removed.
    Remove,
    /// It was changed.
    Rename {
        /// The new name.
        to: NamePlace,
        /// What had the new name before: it has lost it, or with `exchange` has the old one.
        displaced: Option<(EventInode, Kind)>,
        /// Both names were exchanged.
        exchange: bool,
    },
}

/// A name in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamePlace {
    /// The directory.
    pub directory: EventInode,
    /// The name.
    pub name: Box<[u8]>,
    /// Path below the root of the volume, with the name; `None` if it is not known.
    pub path: Option<Box<[u8]>>,
}

/// The caller that changed a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameChanger {
    /// The library, or a kernel in front.
    pub origin: Origin,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id; of a kernel in front that of the thread, and 0 where the daemon cannot see it.
    pub pid: u32,
}

impl EventInode {
    pub(crate) fn of(inode: &Inode) -> EventInode {
        EventInode {
            ino: inode.number(),
            generation: inode.generation(),
        }
    }
}

impl From<Target> for EventInode {
    fn from(target: Target) -> EventInode {
        EventInode {
            ino: target.ino,
            generation: target.generation,
        }
    }
}

impl NameEvent {
    /// A change of a name of the volume itself, without a number yet.
    pub(crate) fn new(
        caller: &Caller<'_>,
        time: Time,
        what: (EventInode, Kind),
        at: NamePlace,
        change: NameChange,
    ) -> NameEvent {
        NameEvent {
            sequence: 0,
            time,
            change,
            what: Some(what),
            at,
            by: NameChanger::from(caller),
            is_foreign: false,
        }
    }

    /// The directory that it is about, if it is about one.
    pub(super) fn directory(&self) -> Option<EventInode> {
        match self.what {
            Some((id, Kind::Directory)) if !self.is_foreign => Some(id),
            _ => None,
        }
    }
}

impl NameChange {
    /// `create`, `remove` or `rename`.
    pub fn word(&self) -> &'static str {
        match self {
            NameChange::Create => "create",
            NameChange::Remove => "remove",
            NameChange::Rename { .. } => "rename",
        }
    }
}

impl NamePlace {
    /// A name in `directory`, by no path yet.
    pub fn new(directory: EventInode, name: &[u8]) -> NamePlace {
        NamePlace {
            directory,
            name: name.into(),
            path: None,
        }
    }
}

impl From<&Caller<'_>> for NameChanger {
    fn from(caller: &Caller<'_>) -> NameChanger {
        NameChanger {
            origin: caller.origin,
            uid: caller.uid,
            gid: caller.gid,
            pid: caller.pid,
        }
    }
}

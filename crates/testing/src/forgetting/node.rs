//! One file of any kind, as users see it, and the names in a directory.

use super::blocks::Unsynced;
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};

/// One file of any kind, as users see it.
#[derive(Debug)]
pub struct Node {
    /// The type bits and the permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub accessed: SystemTime,
    pub modified: SystemTime,
    pub changed: SystemTime,
    /// Names that users see.
    pub links: u32,
    /// How often the kernel was told the number, and has it open.
    pub held: u64,
    pub opened: u64,
    pub body: Body,
}

/// What the kinds have of their own.
#[derive(Debug)]
pub enum Body {
    File {
        kept: Option<File>,
        unsynced: Unsynced,
    },
    Directory(Directory),
    Other,
}

/// Names.
#[derive(Debug, Default)]
pub struct Directory {
    pub seen: BTreeMap<OsString, u64>,
    /// Names that the directory below has.
    pub kept: BTreeMap<OsString, u64>,
    pub parent: u64,
    /// The kept name of this directory; none for the root, and in the stage.
    pub place: Option<(u64, OsString)>,
    /// Directories that a rename since the last sync has in common with this one.
    pub tied: BTreeSet<u64>,
}

impl Directory {
    /// Kept names that users do not see any more, or of another file.
    pub fn lost(&self) -> impl Iterator<Item = (OsString, u64)> {
        let kept = self.kept.iter();
        let lost = kept.filter(|(name, number)| self.seen.get(*name) != Some(number));
        lost.map(|(name, &number)| (name.clone(), number))
    }
}

impl Node {
    /// A new one that is nobody's yet.
    pub fn new(mode: u32, (uid, gid): (u32, u32), rdev: u32) -> Node {
        let now = SystemTime::now();
        let body = match FileType::from_raw_mode(mode) {
            FileType::Directory => Body::Directory(Directory::default()),
            FileType::RegularFile => Body::File {
                kept: None,
                unsynced: Unsynced::new(0),
            },
            _ => Body::Other,
        };
        Node {
            mode,
            uid,
            gid,
            rdev,
            accessed: now,
            modified: now,
            changed: now,
            links: 0,
            held: 0,
            opened: 0,
            body,
        }
    }

    /// What is below.
    pub fn found(found: &fs::Metadata) -> Node {
        let owner = (found.uid(), found.gid());
        let mut node = Node::new(found.mode(), owner, found.rdev() as u32);
        if let Body::File { unsynced, .. } = &mut node.body {
            *unsynced = Unsynced::new(found.len());
        }
        debug_assert!(!found.file_type().is_socket() || matches!(node.body, Body::Other));
        node.links = u32::from(node.is_directory());
        node.accessed = found.accessed().unwrap_or(UNIX_EPOCH);
        node.modified = found.modified().unwrap_or(UNIX_EPOCH);
        node.changed = node.modified;
        node
    }

    /// Whether it has names in it.
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }
}

//! What a check keeps of each inode: 40 bytes, and more for directories and files with contents.

use crate::schema::{Contents, Directory, Inode, Owner, Used};
use hearth_backend::Kind;
use std::collections::HashMap;

/// An inode.
#[derive(Clone, Copy, Debug)]
pub struct InodeInfo {
    /// Number.
    pub ino: u64,
    /// Generation.
    pub generation: u32,
    /// Type.
    pub kind: Kind,
    /// Names as it says.
    pub nlink: u32,
    /// Names that were found.
    pub names: u32,
    /// Number of its owner.
    owner: u32,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub struct Dir {
    /// What it says; `None` if it says nothing that can be read.
    pub says: Option<Directory>,
    /// Entries that were found.
    pub entries: u64,
    /// Subdirectories that were found.
    pub subdirectories: u64,
    /// Where it is: the directory above it and its name there.
    pub at: Option<(u64, Box<[u8]>)>,
}

/// Contents of an inode.
#[derive(Clone, Copy, Debug)]
pub struct FileInfo {
    /// Inode.
    pub ino: u64,
    /// What it says.
    pub says: Contents,
    /// Pages that were found.
    pub pages: u64,
}

/// Everything that is known of inodes.
#[derive(Debug, Default)]
pub struct Inodes {
    /// By rising number.
    infos: Vec<InodeInfo>,
    /// Directories.
    pub dirs: HashMap<u64, Dir>,
    /// By rising number.
    pub files: Vec<FileInfo>,
    owners: HashMap<Owner, u32>,
    used: Vec<(Owner, Used)>,
}

impl Inodes {
    /// Adds an inode; they come by rising number.
    pub fn push(&mut self, ino: u64, inode: &Inode) {
        let attrs = &inode.attrs;
        let key = Owner {
            uid: attrs.uid,
            gid: attrs.gid,
            project: attrs.project,
        };
        let next = self.used.len() as u32;
        let owner = *self.owners.entry(key).or_insert(next);
        if owner == next {
            self.used.push((key, Used::default()));
        }
        let used = &mut self.used[owner as usize].1;
        used.inodes += 1;
        used.blocks += u64::from(attrs.extra_blocks);
        self.infos.push(InodeInfo {
            ino,
            generation: attrs.generation,
            kind: attrs.kind,
            nlink: attrs.nlink,
            names: 0,
            owner,
        });
        if attrs.kind == Kind::Directory {
            self.dirs.entry(ino).or_default();
        }
    }

    /// The inode.
    pub fn get(&self, ino: u64) -> Option<&InodeInfo> {
        self.at(ino).map(|at| &self.infos[at])
    }

    /// A name of the inode was found.
    pub fn count_name(&mut self, ino: u64) {
        if let Some(at) = self.at(ino) {
            self.infos[at].names += 1;
        }
    }

    /// An entry of directory `dir` was found, or is not to count.
    pub fn count_entry(&mut self, dir: u64, is_directory: bool, by: i64) {
        let dir = self.dirs.entry(dir).or_default();
        dir.entries = dir.entries.saturating_add_signed(by);
        if is_directory {
            dir.subdirectories = dir.subdirectories.saturating_add_signed(by);
        }
    }

    /// Whether it is there and a directory.
    pub fn is_directory(&self, ino: u64) -> bool {
        self.get(ino)
            .is_some_and(|info| info.kind == Kind::Directory)
    }

    /// All inodes, by rising number.
    pub fn iter(&self) -> impl Iterator<Item = &InodeInfo> {
        self.infos.iter()
    }

    /// Whether there is none, as in a volume that was never mounted.
    pub fn is_empty(&self) -> bool {
        self.infos.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.infos.len()
    }

    /// What the inodes take, by owner.
    pub fn usage(&self) -> HashMap<Owner, Used> {
        let mut used = self.used.clone();
        for file in &self.files {
            if let Some(info) = self.get(file.ino) {
                used[info.owner as usize].1.blocks += file.pages;
            }
        }
        used.into_iter().collect()
    }

    /// The path of a directory; `None` where it does not lead up to the root.
    pub fn path(&self, directory: u64) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = directory;
        while at != super::ROOT {
            // A ring has no more names than there are directories.
            if names.len() > self.dirs.len() {
                return None;
            }
            let (above, name) = self.dirs.get(&at)?.at.as_ref()?;
            names.push(name);
            at = *above;
        }
        names.reverse();
        Some([b"/", &*names.join(&b'/')].concat())
    }

    fn at(&self, ino: u64) -> Option<usize> {
        self.infos.binary_search_by_key(&ino, |info| info.ino).ok()
    }
}

//! Where files with heat are now: by the path where they were last seen, by their handles, and at
//! last by a walk over the tree.

use super::known::Known;
use crate::attributes;
use crate::errno::PassOn;
use crate::identity::Identity;
use crate::sys;
use crate::trail::{READS, Trail};
use crate::tree::Tree;
use hearth::Errno;
use hearth_sync::primitive::Arc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Statx, openat, openat2};
use std::collections::HashMap;
use std::ffi::CString;

/// What was found out about a file.
#[derive(Debug)]
pub enum Whereabouts {
    /// It is at this path below the source.
    At(Box<[u8]>, Statx),
    /// It is there, under a name that is not known.
    Somewhere(Statx),
    /// It is open and has no name any more.
    Nameless(Statx),
    /// It is gone.
    Gone,
    /// It was not found where it was, and cannot be asked for otherwise.
    Unknown,
}

/// Looks for a file, without a walk.
pub fn find(tree: &Tree, known: &Known) -> Whereabouts {
    if let Some(path) = known.path()
        && let Some((fd, id)) = at_path(tree, &path)
        && id.is_same_inode(&known.id)
        && let Ok(stat) = attributes::stat(fd.as_fd())
    {
        return Whereabouts::At(path, stat);
    }
    let fd = match (tree.opens_handles_of(&known.id), known.id.handle()) {
        (true, Some(handle)) => match handle.open(tree.root()) {
            Ok(fd) => fd,
            Err(Errno::ESTALE | Errno::ENOENT) => return Whereabouts::Gone,
            Err(_) => return Whereabouts::Unknown,
        },
        _ => match reached(tree, known) {
            Some(fd) => fd,
            None => return Whereabouts::Unknown,
        },
    };
    let Ok(stat) = attributes::stat(fd.as_fd()) else {
        return Whereabouts::Unknown;
    };
    if stat.stx_nlink == 0 {
        return Whereabouts::Nameless(stat);
    }
    match path_of(tree, fd.as_fd()) {
        Some(path) if is_at(tree, &path, &known.id) => Whereabouts::At(path, stat),
        _ => Whereabouts::Somewhere(stat),
    }
}

/// The path of an open file below the source, as the kernel sees it now; not if it lies elsewhere.
pub fn path_of(tree: &Tree, fd: BorrowedFd<'_>) -> Option<Box<[u8]>> {
    let link = |fd| {
        let name = CString::new(Tree::proc_name(fd)).ok()?;
        sys::read_link(tree.proc(), &name).ok()
    };
    let (root, path) = (link(tree.root())?, link(fd)?);
    let below = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root))?;
    below.strip_prefix(b"/").map(Into::into)
}

/// What lies at a path below the source. No link is followed.
pub fn at_path(tree: &Tree, path: &[u8]) -> Option<(OwnedFd, Identity)> {
    let path = CString::new(path).ok().filter(|path| !path.is_empty())?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let fd = openat2(tree.root(), &*path, flags, Mode::empty(), within).ok()?;
    let stat = attributes::stat(fd.as_fd()).ok()?;
    let id = Identity::of(fd.as_fd(), &stat);
    Some((fd, id))
}

fn is_at(tree: &Tree, path: &[u8], id: &Identity) -> bool {
    at_path(tree, path).is_some_and(|(_, found)| found.is_same_inode(id))
}

/// By the node that the kernel refers to.
fn reached(tree: &Tree, known: &Known) -> Option<OwnedFd> {
    let reached = tree.reach(&known.node()?).ok()?;
    reached.as_fd().try_clone_to_owned().ok()
}

/// Searches the whole tree for files. Directories that cannot be read are left out; true if there
/// were none.
pub fn search(tree: &Tree, files: &[Arc<Known>], mut found: impl FnMut(&Known, &[u8])) -> bool {
    let mut wanted: HashMap<u64, Vec<&Arc<Known>>> = HashMap::new();
    for known in files {
        wanted.entry(known.id.ino).or_default().push(known);
    }
    let Ok(root) = openat(tree.root(), c".", READS, Mode::empty()) else {
        return false;
    };
    let mut is_whole = true;
    let mut enter = |fd: &OwnedFd, path: Vec<u8>| {
        let (level, complete) = SearchedLevel::read(tree, fd, path, &mut wanted, &mut found);
        is_whole &= complete;
        (level, wanted.is_empty())
    };
    let (level, mut is_over) = enter(&root, Vec::new());
    let mut trail = Trail::new(root, tree.nodes.root().id, level);
    while let (Some((fd, level)), false) = (trail.last(), is_over) {
        let Some(name) = level.below.pop() else {
            trail.leave(tree);
            continue;
        };
        let path = joined(&level.path, &name);
        if let Some((fd, id)) = open(tree, fd, &name) {
            let (level, over) = enter(&fd, path);
            is_over = over;
            trail.enter(&name, fd, id, level);
        }
    }
    is_whole
}

/// A directory of a walk.
struct SearchedLevel {
    path: Vec<u8>,
    /// Directories that have not been entered yet.
    below: Vec<Box<[u8]>>,
}

/// Opens a directory below, unless it is the mount that serves the tree.
fn open(tree: &Tree, above: BorrowedFd<'_>, name: &[u8]) -> Option<(OwnedFd, Identity)> {
    let found = tree.find(above, name).ok()?;
    let fd = openat(&found.fd, c".", READS, Mode::empty())
        .pass_on()
        .ok()?;
    Some((fd, found.id))
}

impl SearchedLevel {
    /// Reads a directory; false beside it if that failed.
    fn read(
        tree: &Tree,
        fd: &OwnedFd,
        path: Vec<u8>,
        wanted: &mut HashMap<u64, Vec<&Arc<Known>>>,
        found: &mut impl FnMut(&Known, &[u8]),
    ) -> (SearchedLevel, bool) {
        let mut below = Vec::new();
        let Ok(entries) = Dir::read_from(fd) else {
            return (SearchedLevel { path, below }, false);
        };
        let mut is_whole = true;
        for entry in entries {
            let Ok(entry) = entry else {
                is_whole = false;
                break;
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            match entry.file_type() {
                FileType::Directory => below.push(name.into()),
                FileType::RegularFile | FileType::Unknown => {
                    let is_file = look(tree, fd, (name, entry.ino()), wanted, |known| {
                        found(known, &joined(&path, name));
                    });
                    if !is_file && entry.file_type() == FileType::Unknown {
                        below.push(name.into());
                    }
                }
                _ => {}
            }
        }
        (SearchedLevel { path, below }, is_whole)
    }
}

/// Whether an entry is one of the files that are wanted, which it then is no longer.
fn look(
    tree: &Tree,
    directory: &OwnedFd,
    (name, ino): (&[u8], u64),
    wanted: &mut HashMap<u64, Vec<&Arc<Known>>>,
    found: impl FnOnce(&Known),
) -> bool {
    let Some(same_number) = wanted.get_mut(&ino) else {
        return false;
    };
    let Ok(there) = tree.find(directory.as_fd(), name) else {
        return false;
    };
    let at = |known: &&Arc<Known>| known.id.is_same_inode(&there.id);
    let Some(at) = same_number.iter().position(at) else {
        return false;
    };
    found(same_number.swap_remove(at));
    if same_number.is_empty() {
        wanted.remove(&ino);
    }
    true
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        b"" => name.to_vec(),
        directory => [directory, b"/", name].concat(),
    }
}

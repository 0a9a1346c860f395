//! Paths of inodes, found when they are shown: records know numbers.

use super::path_info::PathInfo;
use crate::attr::Kind;
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::inode::InodeExt;
use crate::number::{ROOT, is_control};
use crate::ops::list::list_all;
use crate::superblock::Superblock;
use std::collections::{HashMap, HashSet};

/// Walks the tree until every one of `inodes` is found or there is nothing left.
pub(super) fn find(sb: &Superblock, inodes: &[u64]) -> Result<HashMap<u64, PathInfo>> {
    let mut found: HashMap<u64, PathInfo> = HashMap::new();
    let mut open: HashSet<u64> = HashSet::new();
    for &ino in inodes {
        let attr = sb.run(&Caller::ROOT, |cx, g| Ok(cx.sb.inode(ino, g)?.attr()));
        match attr {
            Ok(attr) => {
                let names = PathInfo {
                    path: (ino == ROOT).then(|| b"/".to_vec()),
                    links: attr.nlink,
                    uid: attr.uid,
                    gid: attr.gid,
                    size: attr.size,
                };
                if attr.nlink > 0 && ino != ROOT {
                    open.insert(ino);
                }
                found.insert(ino, names);
            }
            Err(Errno::ESTALE) => {}
            Err(other) => return Err(other),
        }
    }
    let mut directories = vec![(ROOT, Vec::new())];
    while let (Some((directory, path)), false) = (directories.pop(), open.is_empty()) {
        for (ino, kind, name) in entries(sb, directory)? {
            let path = || [&path[..], b"/", &name].concat();
            if open.remove(&ino)
                && let Some(names) = found.get_mut(&ino)
            {
                names.path = Some(path());
            }
            if kind == Kind::Directory {
                directories.push((ino, path()));
            }
        }
    }
    Ok(found)
}

/// Entries of a directory but `.` and `..`; none if it has gone meanwhile.
fn entries(sb: &Superblock, directory: u64) -> Result<Vec<(u64, Kind, Vec<u8>)>> {
    let listed = sb.run(&Caller::ROOT, |cx, g| {
        let mut entries = Vec::new();
        let inode = cx.sb.inode(directory, g)?;
        let mut take = |entry: crate::attr::DirEntry<'_>| {
            if entry.name != b"." && entry.name != b".." && !is_control(entry.ino) {
                entries.push((entry.ino, entry.kind, entry.name.to_vec()));
            }
            true
        };
        list_all(cx, inode, &mut take, g)?;
        Ok(entries)
    });
    match listed {
        Err(Errno::ENOENT | Errno::ESTALE) => Ok(Vec::new()),
        listed => listed,
    }
}

//! Answers to the kernel.

use super::node::Body;
use super::tree::Tree;
use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyAttr, ReplyEmpty, TimeOrNow};
use rustix::fs::FileType as Kind;
use std::io;
use std::time::{Duration, SystemTime};

/// How long the kernel may keep what it was told: nobody else changes the tree.
pub const FOR_EVER: Duration = Duration::from_secs(3_600);

/// What the kernel is told of a file.
pub fn attributes(tree: &mut Tree, number: u64) -> io::Result<FileAttr> {
    let links = match tree.directory(number) {
        Ok(directory) => {
            let inside: Vec<u64> = directory.seen.values().copied().collect();
            let is_directory = |&number: &u64| tree.directory(number).is_ok();
            Some(2 + inside.into_iter().filter(is_directory).count() as u32)
        }
        Err(_) => None,
    };
    let node = tree.node(number)?;
    let size = match &node.body {
        Body::File { unsynced, .. } => unsynced.size(),
        _ => 0,
    };
    Ok(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: node.accessed,
        mtime: node.modified,
        ctime: node.changed,
        crtime: node.changed,
        kind: kind(node.mode),
        perm: (node.mode & 0o7777) as u16,
        nlink: links.unwrap_or(node.links),
        uid: node.uid,
        gid: node.gid,
        rdev: node.rdev,
        blksize: 4096,
        flags: 0,
    })
}

/// The kind in the mode of a file.
pub fn kind(mode: u32) -> FileType {
    match Kind::from_raw_mode(mode) {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The time that is meant.
pub fn moment(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

/// What was found, or why not.
pub fn attr(reply: ReplyAttr, found: Result<FileAttr, Errno>) {
    match found {
        Ok(found) => reply.attr(&FOR_EVER, &found),
        Err(error) => reply.error(error),
    }
}

/// That it was done, or why not.
pub fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

//! Mounts of FUSE below that are their owner's alone.

use crate::case::Case;
use crate::harness::{Below, root_attr, succeed};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request, Session, SessionACL,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROOT: u64 = 1;
const TEXT: &[u8] = b"text\n";

/// A mount with a file that everybody may read.
struct OneFile {
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl OneFile {
    fn mount(at: &Path, more: &str) -> OneFile {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.unwrap();
        let fd = device.as_raw_fd();
        let options = format!("fd={fd},rootmode=40755,user_id=0,group_id=0,default_permissions");
        let options = CString::new(options + more).unwrap();
        mount("one", at, "fuse.one", MountFlags::NOSUID, &*options).unwrap();
        let config = Config::default();
        let session = Session::from_fd(Served, device.into(), SessionACL::All, config);
        OneFile {
            at: at.to_owned(),
            session: Some(session.and_then(Session::spawn).unwrap()),
        }
    }
}

impl Drop for OneFile {
    fn drop(&mut self) {
        let taken = unmount(&self.at, UnmountFlags::FORCE | UnmountFlags::DETACH);
        if let Some(session) = self.session.take() {
            // The end of a connection that was broken is no error of anybody's.
            let _ = session.join();
        }
        if !std::thread::panicking() {
            taken.unwrap();
        }
    }
}

struct Served;

fn attributes(ino: u64) -> FileAttr {
    let of = match ino {
        ROOT => (FileType::Directory, 0o755),
        _ => (FileType::RegularFile, 0o644),
    };
    root_attr(ino, of, TEXT.len() as u64)
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("file") => reply.entry(&Duration::ZERO, &attributes(2), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &attributes(ino.0));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(TEXT.get(offset as usize..).unwrap_or_default());
    }
}

/// Once, the daemon of root was answered there whomever it acted for.
#[test]
fn a_mount_of_fuse_without_allow_other_is_open_to_its_owner_alone() {
    let below = Below::tmpfs();
    for name in ["private", "open"] {
        fs::create_dir(below.at(name)).unwrap();
    }
    let case = Case::over(below);
    let private = OneFile::mount(&case.below.at("private"), "");
    let open = OneFile::mount(&case.below.at("open"), ",allow_other");
    let script = "pause; cat private/file open/file; U cat open/file
        try U cat private/file; try U ls private; try U stat private/file
        stat -c '%u %a' private open; try U sh -c 'echo x > private/new'";
    let said = succeed(&mut case.script("", script));
    let refused = "no 1 Permission denied\n";
    assert_eq!(
        said,
        format!(
            "text\ntext\ntext\n{refused}{}{refused}0 700\n0 755\n{}",
            refused.replace('1', "2"),
            refused.replace('1', "2")
        )
    );
    // It is asked each time: the next mount may have the number of the last.
    drop((private, open));
    let open = OneFile::mount(&case.below.at("private"), ",allow_other");
    let private = OneFile::mount(&case.below.at("open"), "");
    let script = "pause; try U cat private/file; try U cat open/file";
    let said = succeed(&mut case.script("", script));
    assert_eq!(said, format!("ok text\n{refused}"));
    drop((private, open));
}

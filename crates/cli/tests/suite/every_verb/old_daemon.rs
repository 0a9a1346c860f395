//! A daemon of another time, or of somebody else: a mount of Hearth's type whose control directory
//! has less in it than this program asks for. It is a filesystem of its own, so that the kernel
//! lists it, guards it and serves it as it does any mount.

use crate::harness::{mounts_below, root_attr};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// The version that it says it is of.
pub const VERSION: &str = "hearth 0.0.1";

const ROOT: u64 = 1;
/// A file of the tree, `file`.
const FILE: u64 = 2;
/// The control directory: its number tells a program that no file of the tree is in its place.
const CONTROL: u64 = 1 << 59;
/// Nothing is kept by the kernel.
const NOW: Duration = Duration::ZERO;

/// A mount that such a daemon serves, for as long as this lives.
pub struct OldDaemon {
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl OldDaemon {
    /// One with `.hearth/version`, and with `.hearth/ask`, which understands nothing, if `asks`. Of
    /// a user who is named nobody else may look, not even root: that is the kernel's rule.
    pub fn mount(at: &Path, asks: bool, user: Option<u32>) -> OldDaemon {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.expect("/dev/fuse opens");
        let fd = device.as_raw_fd();
        let whose = match user {
            Some(user) => format!("user_id={user},group_id={user}"),
            None => "user_id=0,group_id=0,allow_other".to_owned(),
        };
        let options = CString::new(format!("fd={fd},rootmode=40755,{whose}"));
        let options = options.expect("no zero");
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        mount("old", at, "fuse.hearth", flags, &*options).expect("the old daemon mounts");
        let served = Served {
            asks,
            said: Mutex::new("Write a question.\n".to_owned()),
        };
        let config = Config::default();
        let session = Session::from_fd(served, device.into(), SessionACL::All, config);
        let session = session.and_then(Session::spawn).expect("it serves");
        OldDaemon {
            at: at.to_owned(),
            session: Some(session),
        }
    }
}

impl Drop for OldDaemon {
    fn drop(&mut self) {
        let taken = unmount(&self.at, UnmountFlags::FORCE | UnmountFlags::DETACH);
        if let Some(session) = self.session.take() {
            // The end of a connection that was broken is no error of anybody's.
            let _ = session.join();
        }
        if !std::thread::panicking() {
            taken.expect("the old daemon is unmounted");
            assert!(mounts_below(&self.at).is_empty());
        }
    }
}

struct Served {
    asks: bool,
    /// What a question is, and then why the last one was refused.
    said: Mutex<String>,
}

impl Served {
    /// Names of the control files; their numbers follow that of the directory.
    fn files(&self) -> &'static [&'static str] {
        match self.asks {
            true => &["version", "ask"],
            false => &["version"],
        }
    }

    fn text(&self, ino: u64) -> String {
        match ino - CONTROL {
            1 => format!("{VERSION}\n"),
            _ => self.said.lock().expect("no panic").clone(),
        }
    }

    fn attributes(&self, ino: u64) -> Option<FileAttr> {
        let is_directory = ino == ROOT || ino == CONTROL;
        let files = self.files().len() as u64;
        let is_file = ino == FILE || (CONTROL + 1..=CONTROL + files).contains(&ino);
        if !is_directory && !is_file {
            return None;
        }
        let of = match is_directory {
            true => (FileType::Directory, 0o755),
            false => (FileType::RegularFile, 0o666),
        };
        Some(root_attr(ino, of, 0))
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match (parent.0, name.to_str()) {
            (ROOT, Some(".hearth")) => Some(CONTROL),
            (ROOT, Some("file")) => Some(FILE),
            (CONTROL, Some(name)) => {
                let place = self.files().iter().position(|file| *file == name);
                place.map(|place| CONTROL + 1 + place as u64)
            }
            _ => None,
        };
        match ino.and_then(|ino| self.attributes(ino)) {
            Some(found) => reply.entry(&NOW, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Some(found) => reply.attr(&NOW, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let text = self.text(ino.0);
        let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
        reply.data(&rest[..rest.len().min(size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let question = String::from_utf8_lossy(data);
        let refusal = format!("'{question}' is no question; ask 'help'");
        *self.said.lock().expect("no panic") = refusal;
        reply.error(Errno::EINVAL);
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, reply: ReplyDirectory) {
        reply.ok();
    }
}

//! A fresh filesystem of the kernel with processes in it.
//!
//! The filesystem is the root of a mount namespace of its own, in which nothing else is mounted.
//! So no path leads out of it, not even `..` after a `chroot`, whatever a script does as root;
//! and the kernel takes it away when the last thread inside ends, however the test ends.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use hearth_model::{Op, Outcome, PROCESSES, System};

use super::asked::Asked;
use super::calls::{call, text};
use super::worker::Worker;

/// The filesystem under test.
#[allow(
    dead_code,
    reason = "not every suite that uses this file has all of them"
)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Tmpfs,
    /// ext4 in a file of its own, with blocks of one page: it supports all modes of fallocate.
    Ext4,
    /// A FUSE mount, from this empty directory on.
    Directory(&'static Path),
}

/// Fails with the remedy if the test cannot run.
pub fn check_machine() {
    let uid = call(libc::SYS_geteuid, &[]).expect("geteuid never fails");
    assert_eq!(
        uid, 0,
        "this test mounts a tmpfs and changes root and credentials: run it as root, for example \
         sudo -E cargo test -p hearth-model"
    );
    for name in ["protected_symlinks", "protected_fifos", "protected_regular"] {
        assert_eq!(
            sysctl(name),
            "0",
            "the model knows POSIX only: run sysctl fs.{name}=0 first"
        );
    }
}

fn sysctl(name: &str) -> String {
    let value = std::fs::read_to_string(format!("/proc/sys/fs/{name}"));
    value.map_or_else(|_| "0".into(), |value| value.trim().into())
}

/// A mounted filesystem and the threads that act as its processes.
pub struct Kernel {
    workers: Vec<Option<Worker>>,
    protects_hardlinks: bool,
    is_mounted: bool,
    // Dropped after the workers, which live in the mount.
    _place: Place,
}

impl Kernel {
    pub fn start(kind: Kind) -> Kernel {
        let place = Place::new();
        let path = text(place.0.as_os_str().as_bytes());
        // The first thread makes the namespace; the processes are its copies.
        let parent = Worker::spawn(Box::new(move || enter_new_mount(kind, &path)));
        let workers = PROCESSES
            .iter()
            .map(|(uid, gid, groups)| {
                let child = parent.fork();
                let groups = groups.to_vec();
                let set = Op::SetCredentials {
                    uid: *uid,
                    gid: *gid,
                    groups,
                };
                assert_eq!(
                    child.apply(&set),
                    Outcome::Done,
                    "credentials of a test process"
                );
                Some(child)
            })
            .collect();
        let protects_hardlinks = sysctl("protected_hardlinks") != "0";
        Kernel {
            workers,
            protects_hardlinks,
            is_mounted: matches!(kind, Kind::Directory(_)),
            _place: place,
        }
    }
}

impl Kernel {
    /// Begins a lock call of a living process `p` on a thread of its own.
    #[allow(
        dead_code,
        reason = "not every suite that uses this file has calls that wait"
    )]
    pub fn ask(&self, p: usize, op: &Op) -> Asked {
        let worker = self.workers[p].as_ref().expect("it lives");
        worker.ask(op)
    }
}

impl System for Kernel {
    fn protects_hardlinks(&self) -> bool {
        self.protects_hardlinks
    }

    fn is_mounted(&self) -> bool {
        self.is_mounted
    }

    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        let Some(Some(worker)) = self.workers.get(p) else {
            return Outcome::Unspecified;
        };
        match op {
            Op::Fork => {
                let child = worker.fork();
                self.workers.push(Some(child));
                Outcome::Process(self.workers.len() - 1)
            }
            Op::Exit => {
                self.workers[p] = None;
                Outcome::Done
            }
            op => worker.apply(op),
        }
    }
}

/// Moves the calling thread into a mount namespace that holds a new filesystem and nothing else.
fn enter_new_mount(kind: Kind, path: &CString) {
    let at = |text: &CString| text.as_ptr() as usize;
    let (slash, dot) = (text(b"/"), text(b"."));
    call(libc::SYS_close_range, &[0, u32::MAX as usize, 0]).expect("close_range");
    call(libc::SYS_unshare, &[libc::CLONE_NEWNS as usize]).expect("a mount namespace");
    let private = (libc::MS_REC | libc::MS_PRIVATE) as usize;
    call(libc::SYS_mount, &[0, at(&slash), 0, private, 0]).expect("private mounts");
    match kind {
        Kind::Tmpfs => {
            let (name, options) = (
                text(b"tmpfs"),
                text(b"mode=755,size=256m,huge=never,inode64"),
            );
            let flags = (libc::MS_NODEV | libc::MS_RELATIME) as usize;
            let arguments = [at(&name), at(path), at(&name), flags, at(&options)];
            call(libc::SYS_mount, &arguments).expect("mount");
        }
        Kind::Ext4 => mount_image(OsStr::from_bytes(path.as_bytes()).as_ref()),
        Kind::Directory(directory) => {
            let directory = text(directory.as_os_str().as_bytes());
            let flags = libc::MS_BIND as usize;
            let arguments = [at(&directory), at(path), 0, flags, 0];
            call(libc::SYS_mount, &arguments).expect("mount --bind");
        }
    }
    call(libc::SYS_chdir, &[at(path)]).expect("chdir into the mount");
    // Mounts the old root on top of the new one and unmounts it.
    call(libc::SYS_pivot_root, &[at(&dot), at(&dot)]).expect("pivot_root");
    call(libc::SYS_umount2, &[at(&dot), libc::MNT_DETACH as usize])
        .expect("umount of the old root");
    call(libc::SYS_chroot, &[at(&slash)]).expect("chroot");
    call(libc::SYS_chdir, &[at(&slash)]).expect("chdir");
    call(libc::SYS_umask, &[0o022]).expect("umask");
}

/// Makes an ext4 in a file and mounts it; the loop device goes with the mount.
fn mount_image(path: &Path) {
    let image = path.join("image");
    std::fs::File::create(&image)
        .and_then(|file| file.set_len(16 << 20))
        .expect("an image");
    let run = |program: &str, arguments: &[&OsStr]| {
        let ended = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        let ended = ended.unwrap_or_else(|error| {
            panic!("{program}: {error}: install it (apt-get install e2fsprogs mount)")
        });
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{program}: {said}");
    };
    let word = OsStr::new;
    let make = [
        word("-q"),
        word("-F"),
        word("-b"),
        word("4096"),
        word("-O"),
        word("^has_journal"),
    ];
    run("mkfs.ext4", &[&make[..], &[image.as_os_str()]].concat());
    run(
        "mount",
        &[
            word("-o"),
            word("loop,nodev"),
            image.as_os_str(),
            path.as_os_str(),
        ],
    );
}

/// An empty mount point, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hearth-model-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0.join("image"));
        let _ = std::fs::remove_dir(&self.0);
    }
}

//! A fork of a program that has a store open.

use super::sample::{Opened, make, open, writer};
use hearth::backend::Backend;
use hearth::{Credentials, Errno, Process};
use hearth_store::OpenMode;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

/// Where this program is the one that forks: the directory of the store.
const DIR: &str = "HEARTH_FORKS";
/// Files that each of the two makes.
const FILES: usize = 50;
/// Seconds after which a fork that hangs is killed.
const PATIENCE: u32 = 60;
const CONTENTS: [u8; 5000] = [b'p'; 5000];

/// Once, the fork wrote to the files of the store as well, and what its parent had synced was lost.
#[test]
fn a_fork_changes_nothing_of_the_store_of_its_parent() {
    if let Some(dir) = std::env::var_os(DIR) {
        open_and_fork(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), false);
    let name = "forks::a_fork_changes_nothing_of_the_store_of_its_parent";
    let mut opener = Command::new(std::env::current_exe().unwrap());
    opener.args(["--exact", name, "--nocapture"]);
    let ended = opener.env(DIR, dir.path()).status().unwrap();
    assert_eq!(ended.signal(), Some(libc::SIGKILL), "it has failed");
    let opened = open(dir.path(), OpenMode::ReadOnly, false).unwrap();
    let p = opened.volume.process(Credentials::root());
    for n in 0..FILES {
        let fd = p.open(format!("/parent{n}"), libc::O_RDONLY, 0).unwrap();
        let mut found = [0; CONTENTS.len() + 1];
        assert_eq!(p.read(fd, &mut found), Ok(CONTENTS.len()), "{n}");
        assert_eq!(found[..CONTENTS.len()], CONTENTS);
        assert_eq!(p.stat(format!("/child{n}")).err(), Some(Errno::ENOENT));
    }
}

fn make_file(p: &Process, name: String) -> i32 {
    let fd = p.open(name, libc::O_CREAT | libc::O_RDWR, 0o644).unwrap();
    assert_eq!(p.write(fd, &CONTENTS), Ok(CONTENTS.len()));
    fd
}

/// Opens the store, forks, makes files beside the fork, and is killed when all are synced.
fn open_and_fork(dir: &Path) -> ! {
    let opened = open(dir, writer(), false).unwrap();
    let p = opened.volume.process(Credentials::root());
    opened.volume.sync().unwrap();
    // SAFETY: the child has one thread, and uses only what no other thread was using: nothing is
    // under way behind the sync.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = catch_unwind(AssertUnwindSafe(|| in_fork(opened, p)));
        // SAFETY: nothing of the parent is ended.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
    for n in 0..FILES {
        make_file(&p, format!("/parent{n}"));
        if n % 10 == 0 {
            opened.volume.sync().unwrap();
        }
    }
    let mut status = 0;
    // SAFETY: it waits for the child that was made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the fork failed");
    opened.volume.sync().unwrap();
    // SAFETY: this program ends itself.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("it was killed");
}

fn in_fork(opened: Opened, p: Process) {
    // SAFETY: a limit of time for this process.
    unsafe { libc::alarm(PATIENCE) };
    let no = Err(Errno::ESTALE);
    for n in 0..FILES {
        let fd = make_file(&p, format!("/child{n}"));
        assert_eq!(p.fsync(fd), no);
        assert_eq!(opened.volume.sync(), no);
    }
    assert_eq!(opened.store.commit(u64::MAX, Vec::new()), no);
    assert!(!opened.store.tidy());
    assert_eq!(opened.store.close(), no);
    assert_eq!(opened.volume.close(), no);
    // Without waiting for threads that are not there.
    drop(p);
    drop(opened);
}

//! What the ledger of a host volume says after changes that it is not told of.

#![allow(clippy::unwrap_used)]

mod served;

use hearth::{Errno, FsXAttr, LimitChange, LimitUpdate, QuotaId, ROOT, Vfs, VfsError};
use served::{CALLER, SIZE, Served, directories};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn run(program: &str, words: &[&Path]) {
    assert!(
        Command::new(program)
            .args(words)
            .status()
            .unwrap()
            .success()
    );
}

/// A caller that was told of a file that is gone has its next looks kept open for a second. Once,
/// what it removed within that second stayed charged for ever.
#[test]
fn a_file_that_is_kept_for_a_second_look_is_free_when_it_is_removed() {
    let (_place, source, state) = directories("kept");
    let served = Served::of(&source, &state);
    let before = served.used();
    let file = served.make(ROOT, b"f");
    assert!(served.write(&file, 0));
    served.vfs.release(&file, None);
    let gone = served.vfs.mkdir(&CALLER, ROOT, b"gone", 0o755).unwrap().ino;
    fs::remove_dir(source.join("gone")).unwrap();
    served.vfs.getattr(&CALLER, gone).unwrap_err();

    let kept = served.vfs.lookup(&CALLER, ROOT, b"f").unwrap();
    served.vfs.unlink(&CALLER, ROOT, b"f").unwrap();
    served.vfs.forget(kept.ino, 2);
    // The directory is one that others have removed.
    assert_eq!(served.used(), [before[0], before[1] + 1]);
}

/// Once, whoever had it open by `O_PATH` kept its room, and was not charged for it.
#[test]
fn what_has_lost_its_name_is_charged_until_the_kernel_gives_it_back() {
    let (_place, source, state) = directories("given-back");
    let served = Served::of(&source, &state);
    let before = served.used();
    let file = served.make(ROOT, b"f");
    assert!(served.write(&file, 0));
    served.vfs.release(&file, None);
    let kept = served.vfs.lookup(&CALLER, ROOT, b"f").unwrap();
    served.vfs.unlink(&CALLER, ROOT, b"f").unwrap();
    served.vfs.forget(kept.ino, 1);
    let with_it = [before[0] + SIZE as u64, before[1] + 1];
    assert_eq!(served.used(), with_it);
    let checked = served.volume.quota().check().unwrap();
    assert!(checked.differences.is_empty(), "{:?}", checked.differences);
    assert_eq!(served.used(), with_it);
    served.vfs.forget(kept.ino, 1);
    assert_eq!(served.used(), before);
    // What the kernel does not refer to is free at once.
    let file = served.make(ROOT, b"g");
    served.vfs.release(&file, None);
    let kept = served.vfs.lookup(&CALLER, ROOT, b"g").unwrap();
    served.vfs.forget(kept.ino, 2);
    served.vfs.unlink(&CALLER, ROOT, b"g").unwrap();
    assert_eq!(served.used(), before);
}

#[test]
fn an_open_that_cuts_frees_what_it_cuts() {
    let (_place, source, state) = directories("cut-by-open");
    let served = Served::of(&source, &state);
    let file = served.make(ROOT, b"f");
    let before = served.used();
    assert!(served.write(&file, 0));
    assert_eq!(served.used()[0], before[0] + SIZE as u64);
    let ino = served.vfs.lookup(&CALLER, ROOT, b"f").unwrap().ino;
    let flags = libc::O_WRONLY | libc::O_TRUNC;
    let again = served.vfs.open(&CALLER, ino, flags).unwrap();
    assert_eq!(served.used(), before);
    // What the first one knew of its blocks holds no more.
    assert!(served.write(&file, 0));
    assert_eq!(served.used()[0], before[0] + SIZE as u64);
    served.vfs.release(&again, None);
    served.vfs.release(&file, None);
}

/// What was mounted below, and is gone by the end, was counted.
#[test]
fn usage_with_what_was_mounted_below_meanwhile_is_not_kept() {
    let (_place, source, state) = directories("gone-mount");
    fs::write(source.join("own"), vec![1; SIZE]).unwrap();
    let below = source.join("below");
    fs::create_dir(&below).unwrap();
    let used = |unmounts: bool| {
        let served = Served::of(&source, &state);
        let used = served.used();
        if unmounts {
            run("umount", &[&below]);
        }
        served.vfs.end_quotas().unwrap();
        used
    };
    let alone = used(false);
    let tmpfs = ["-t", "tmpfs", "tmpfs"].map(Path::new);
    run("mount", &[&tmpfs[..], &[&below]].concat());
    fs::write(below.join("more"), vec![1; SIZE]).unwrap();
    assert_eq!(used(true), [2 * alone[0], alone[1] + 1]);
    assert_eq!(used(false), alone);
}

/// Blocks of a mount below stay charged for a while, since it may tell them late. Once, a check
/// took that for a difference, and a repair within that time left the ledger short of what was
/// written after: the limit was passed by as much.
#[test]
fn what_stays_charged_until_it_is_told_is_no_difference() {
    let (_place, source, state) = directories("told-late");
    let below = source.join("below");
    fs::create_dir(&below).unwrap();
    let tmpfs = ["-t", "tmpfs", "tmpfs"].map(Path::new);
    run("mount", &[&tmpfs[..], &[&below]].concat());
    let served = Served::of(&source, &state);
    let before = served.used()[0];
    let directory = served.vfs.lookup(&CALLER, ROOT, b"below").unwrap().ino;
    let file = served.make(directory, b"f");
    assert!(served.write(&file, 0));
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let punched = served.vfs.fallocate(&CALLER, &file, mode, 0, SIZE as u64);
    punched.unwrap();
    let quota = served.volume.quota();
    for is_repaired in [false, true] {
        let found = if is_repaired {
            quota.repair()
        } else {
            quota.check()
        };
        let found = found.unwrap();
        assert!(found.differences.is_empty(), "{:?}", found.differences);
    }
    assert!(served.write(&file, 0));
    assert_eq!(served.used()[0], before + SIZE as u64);
    served.vfs.release(&file, None);
    drop(served);
    run("umount", &[&below]);
}

/// A server that ended answers nothing, and has given nothing back.
#[test]
fn what_does_not_answer_stays_charged() {
    let (place, source, state) = directories("silent");
    let (below, behind) = (source.join("below"), place.directory("behind").unwrap());
    fs::create_dir(&below).unwrap();
    let mut server = Server::of(&behind, &below);
    let served = Served::of(&source, &state);
    let directory = served.vfs.lookup(&CALLER, ROOT, b"below").unwrap().ino;
    let file = served.make(directory, b"f");
    assert!(served.write(&file, 0));
    let used = served.used();
    server.end();
    assert!(!served.write(&file, 0));
    assert!(served.used()[0] >= used[0] && served.used()[1] == used[1]);
    served.vfs.release(&file, None);
    assert_eq!(served.used()[1], used[1]);
    drop(served);
    run("umount", &[Path::new("-l"), &below]);
}

/// A filesystem of FUSE.
struct Server(Child);

impl Server {
    fn of(source: &Path, place: &Path) -> Server {
        let mut serve = Command::new("bindfs");
        serve.arg("-f").arg(source).arg(place).stdout(Stdio::null());
        let server = Server(serve.spawn().expect("bindfs; cargo xtask test installs it"));
        let end = Instant::now() + Duration::from_secs(20);
        while !is_mounted(place) {
            assert!(Instant::now() < end, "bindfs does not mount");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_mounted(place: &Path) -> bool {
    let mut mountpoint = Command::new("mountpoint");
    mountpoint.arg("-q").arg(place).status().unwrap().success()
}

/// Once, an `fsync` failed with what the state directory said, and a database that is told so
/// gives up, or believes that its file is not durable.
#[test]
fn a_file_is_synced_although_the_state_directory_is_full() {
    let (_place, source, state) = directories("full-state");
    let tmpfs = |size: &'static str| ["-t", "tmpfs", "-o", size, "tmpfs"].map(Path::new);
    // Where the filesystem keeps no project ids they are lines of the state directory.
    run("mount", &[&tmpfs("size=64m")[..], &[&source]].concat());
    run("mount", &[&tmpfs("size=64k")[..], &[&state]].concat());
    let served = Served::of(&source, &state);
    let project = FsXAttr {
        project: 7,
        ..FsXAttr::default()
    };
    let names: Vec<_> = (0..300).map(|n| format!("f{n}").into_bytes()).collect();
    for name in &names {
        let file = served.make(ROOT, name);
        let ino = served.vfs.lookup(&CALLER, ROOT, name).unwrap().ino;
        served.vfs.set_fsxattr(&CALLER, ino, &project).unwrap();
        served.vfs.release(&file, None);
    }
    fs::write(state.join("ballast"), vec![1; 1 << 20]).unwrap_err();
    // Nobody can be refused for the lines of what is gone.
    for name in &names {
        let ino = served.vfs.lookup(&CALLER, ROOT, name).unwrap().ino;
        served.vfs.unlink(&CALLER, ROOT, name).unwrap();
        served.vfs.forget(ino, 3);
    }
    let file = served.make(ROOT, b"file");
    assert!(served.write(&file, 0));
    let kept = served.vfs.syncfs();
    assert!(matches!(kept, Err(VfsError::Errno(Errno::ENOSPC))));
    for data_only in [false, true] {
        served.vfs.fsync(&file, data_only).unwrap();
    }
    served.vfs.release(&file, None);
    drop(served);
    run("umount", &[&state]);
    run("umount", &[&source]);
}

/// Once, a rename that leaves a whiteout made an inode that nobody was charged for: by any number
/// of them a limit of inodes was passed.
#[test]
fn what_a_rename_leaves_at_the_old_name_is_an_inode() {
    let (_place, source, state) = directories("whiteouts");
    let served = Served::of(&source, &state);
    let before = served.used()[1];
    served.vfs.release(&served.make(ROOT, b"0"), None);
    let change = LimitChange {
        bytes_hard: LimitUpdate::To(1 << 30),
        inodes_hard: LimitUpdate::To(before + 4),
        ..LimitChange::default()
    };
    served.volume.quota().set(QuotaId::VOLUME, &change).unwrap();
    let rename = |from: u8, to: u8| {
        let (from, to) = ([b'0' + from], [b'0' + to]);
        let flags = libc::RENAME_WHITEOUT;
        served.vfs.rename(&CALLER, ROOT, &from, ROOT, &to, flags)
    };
    for made in 0..3 {
        rename(made, made + 1).unwrap();
        assert_eq!(served.used()[1], before + 2 + u64::from(made));
    }
    let refused = rename(3, 4).unwrap_err();
    assert!(matches!(refused, VfsError::Errno(Errno::ENOSPC)));
    assert!(source.join("3").exists() && !source.join("4").exists());
    served.vfs.unlink(&CALLER, ROOT, b"0").unwrap();
    rename(3, 4).unwrap();
    let found = served.volume.quota().check().unwrap();
    assert!(found.differences.is_empty(), "{:?}", found.differences);
}

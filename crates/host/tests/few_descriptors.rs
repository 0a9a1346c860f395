//! Calls that run out of descriptors, wherever in them: what was done is accounted for, and nothing
//! that was done without its answer is lost to the quotas.

#![allow(clippy::unwrap_used)]

mod served;

use hearth::{Kind, NameChange, ROOT, Vfs, Volume};
use hearth_host::{HostOptions, HostVfs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use served::{CALLER, Served, directories};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Descriptors that this process may have.
const LIMIT: u64 = 200;
/// With so many that are free, each call is done.
const ENOUGH: usize = 10;

/// All tests of this program have the same descriptors.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Behind the opening of a directory, which raises the limit.
fn limit() {
    let limit = Rlimit {
        current: Some(LIMIT),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Runs a call while there are so many free descriptors.
fn with<T>(free: usize, call: impl FnOnce() -> T) -> T {
    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    all.truncate(all.len() - free);
    call()
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// No difference between the ledger and the tree.
fn check(volume: &Volume, after: &str) {
    let found = volume.quota().check().unwrap();
    let differences = found.differences;
    assert!(differences.is_empty(), "{after}: {differences:?}");
}

/// Each way to make something in a directory, by a name.
fn make(vfs: &HostVfs, way: usize, parent: u64, name: &[u8]) -> bool {
    let flags = libc::O_CREAT | libc::O_RDWR;
    match way {
        0 => vfs
            .mknod(&CALLER, parent, name, Kind::Fifo, 0o644, 0)
            .is_ok(),
        1 => vfs.mkdir(&CALLER, parent, name, 0o755).is_ok(),
        2 => vfs.symlink(&CALLER, parent, name, b"to").is_ok(),
        _ => match vfs.create(&CALLER, parent, name, 0o644, flags) {
            Ok((_, file)) => {
                vfs.release(&file, None);
                true
            }
            Err(_) => false,
        },
    }
}

/// Makes something in each way and with each number of descriptors in `directory`, which is
/// `parent`. How often it is there without an answer.
fn make_all(vfs: &HostVfs, parent: u64, directory: &Path) -> usize {
    let mut unseen = 0;
    for way in 0..4 {
        for free in 0..=ENOUGH {
            let name = format!("{way}-{free}");
            let is_told = with(free, || make(vfs, way, parent, name.as_bytes()));
            let is_made = is_there(&directory.join(&name));
            assert!(is_made || !is_told, "{name}");
            assert!(is_told || free < ENOUGH, "{name}");
            unseen += usize::from(is_made && !is_told);
        }
    }
    unseen
}

/// Once, it was charged to nobody until a repair, and no listener was told.
#[test]
fn what_was_made_and_cannot_be_looked_at_is_charged() {
    let _alone = alone();
    let (_place, source, state) = directories("made");
    let below = source.join("d");
    fs::create_dir(&below).unwrap();
    let served = Served::of(&source, &state);
    let parent = served.vfs.lookup(&CALLER, ROOT, b"d").unwrap().ino;
    limit();
    let mut watch = served.volume.watch();
    assert!(make_all(&served.vfs, parent, &below) > 0);
    check(&served.volume, "made");
    let told = watch.read(&served.volume).events;
    assert!(told.iter().all(|event| event.change == NameChange::Create));
    assert_eq!(told.len(), fs::read_dir(&below).unwrap().count());
}

/// Once, it was left to a count that might have been there before.
#[test]
fn what_was_made_behind_a_count_that_goes_on_is_counted() {
    let _alone = alone();
    let (_place, source, state) = directories("counted");
    let below = source.join("d");
    fs::create_dir(&below).unwrap();
    for free in 0..=ENOUGH {
        fs::write(below.join(format!("f{free}")), "").unwrap();
    }
    let volume = Volume::builder().build().unwrap();
    let options = HostOptions {
        state: Some(state),
        ..HostOptions::default()
    };
    let vfs = HostVfs::open(&source, options, &volume).unwrap();
    let (told, walked) = channel();
    let tell = move |_, is_whole| told.send(is_whole).unwrap();
    let vfs = vfs.with_quotas(&source, &volume, false, tell).unwrap();
    assert!(walked.recv().unwrap());
    // It goes on for a while behind its walk.
    let parent = vfs.lookup(&CALLER, ROOT, b"d").unwrap().ino;
    limit();
    for free in 0..=ENOUGH {
        let (name, to) = (format!("f{free}"), format!("t{free}"));
        let (name, to) = (name.as_bytes(), to.as_bytes());
        let whiteout = libc::RENAME_WHITEOUT;
        let renamed = with(free, || {
            vfs.rename(&CALLER, parent, name, parent, to, whiteout)
        });
        assert!(renamed.is_ok() || free < ENOUGH, "{renamed:?}");
    }
    make_all(&vfs, parent, &below);
    let is_over = || vfs.counted().unwrap().1;
    assert!(!is_over(), "it went on until now");
    let end = Instant::now() + Duration::from_secs(60);
    while !is_over() {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(20));
    }
    check(&volume, "counted");
}

/// Once, a link was there without the line that says of which project the file is, and without an
/// answer.
#[test]
fn what_leaves_its_project_stays_in_it() {
    let _alone = alone();
    let (_place, source, state) = directories("left");
    for name in ["in", "out"] {
        fs::create_dir(source.join(name)).unwrap();
    }
    let served = Served::of(&source, &state);
    let vfs = &served.vfs;
    let find = |name: &[u8]| vfs.lookup(&CALLER, ROOT, name).unwrap().ino;
    let (inside, outside) = (find(b"in"), find(b"out"));
    let shown = fs::metadata(source.join("in")).unwrap().ino();
    let quota = served.volume.quota();
    quota.set_project_of(shown, b"/in", 7).unwrap();
    limit();
    for is_link in [true, false] {
        for free in 0..=ENOUGH {
            let name = format!("{is_link}-{free}");
            let name = name.as_bytes();
            let file = served.make(inside, name);
            vfs.release(&file, None);
            let ino = vfs.lookup(&CALLER, inside, name).unwrap().ino;
            let done = with(free, || match is_link {
                true => vfs.link(&CALLER, ino, outside, name).map(drop),
                false => vfs.rename(&CALLER, inside, name, outside, name, 0),
            });
            let what = String::from_utf8_lossy(name);
            assert!(done.is_ok() || free < ENOUGH, "{done:?}");
            assert_eq!(
                is_there(&source.join("out").join(&*what)),
                done.is_ok(),
                "{what}"
            );
            if is_link {
                vfs.unlink(&CALLER, inside, name).unwrap();
            }
            check(&served.volume, &what);
        }
    }
}

/// Once, it stayed charged until a repair.
#[test]
fn what_was_removed_or_replaced_is_free() {
    let _alone = alone();
    let (_place, source, state) = directories("removed");
    let served = Served::of(&source, &state);
    let vfs = &served.vfs;
    limit();
    for replaces in [false, true] {
        for free in 0..=ENOUGH {
            let (name, new) = (
                format!("{replaces}-{free}"),
                format!("{replaces}-new-{free}"),
            );
            let (name, new) = (name.as_bytes(), new.as_bytes());
            for name in [name, new] {
                let file = served.make(ROOT, name);
                assert!(served.write(&file, 0));
                vfs.release(&file, None);
                drop(file);
                // The kernel has forgotten both.
                let ino = vfs.lookup(&CALLER, ROOT, name).unwrap().ino;
                vfs.forget(ino, 2);
                assert!(!vfs.is_known(ino));
            }
            let done = with(free, || match replaces {
                true => vfs.rename(&CALLER, ROOT, new, ROOT, name, 0),
                false => vfs.unlink(&CALLER, ROOT, name),
            });
            assert!(done.is_ok() || free < ENOUGH, "{done:?}");
            check(&served.volume, &String::from_utf8_lossy(name));
        }
    }
}

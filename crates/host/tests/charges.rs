//! What the ledger of a host volume says after changes that it is not told of.

#![allow(clippy::unwrap_used)]

use hearth::{Caller, Origin, QuotaId, ROOT, Vfs, Volume, WriteAt};
use hearth_host::{HostFile, HostOptions, HostVfs};
use hearth_testing::place::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A caller in the kernel, as thread 7.
const CALLER: Caller<'static> = Caller {
    pid: 7,
    origin: Origin::Kernel,
    ..Caller::ROOT
};
const SIZE: usize = 200 << 10;

struct Served {
    volume: Volume,
    vfs: HostVfs,
}

impl Served {
    fn of(source: &Path, state: &Path) -> Served {
        let volume = Volume::builder().build().unwrap();
        let options = HostOptions {
            state: Some(state.to_owned()),
            ..HostOptions::default()
        };
        let vfs = HostVfs::open(source, options, &volume).unwrap();
        let vfs = vfs.with_quotas(source, &volume, true, |_, _| ()).unwrap();
        Served { volume, vfs }
    }

    /// Bytes and inodes.
    fn used(&self) -> [u64; 2] {
        let used = self.volume.quota().get(QuotaId::user(0)).unwrap();
        [used.bytes.used, used.inodes.used]
    }

    fn make(&self, parent: u64, name: &[u8]) -> Arc<HostFile> {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let made = self.vfs.create(&CALLER, parent, name, 0o644, flags);
        made.unwrap().1
    }

    fn write(&self, file: &HostFile, at: usize) -> bool {
        let data = vec![1; SIZE];
        let place = WriteAt::At(at as u64);
        self.vfs.write(&CALLER, file, place, &data, false).is_ok()
    }
}

fn directories(name: &str) -> (Place, PathBuf, PathBuf) {
    let place = Place::new(name).unwrap();
    let source = place.directory("source").unwrap();
    let state = place.directory("state").unwrap();
    (place, source, state)
}

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

    served.vfs.lookup(&CALLER, ROOT, b"f").unwrap();
    served.vfs.unlink(&CALLER, ROOT, b"f").unwrap();
    // The directory is one that others have removed.
    assert_eq!(served.used(), [before[0], before[1] + 1]);
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

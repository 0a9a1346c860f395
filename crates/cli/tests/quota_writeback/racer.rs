//! A process that writes one file in its own way, as far as it is let, and writes down what was
//! acknowledged. It is this very program, started again.

use super::harness::Random;
use super::journal::Journal;
use super::mapping::Mapping;
use super::{PAGE, is_full};
use rustix::fs::{Advice, fadvise};
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

const VARIABLE: &str = "HEARTH_RACER";
const WAYS: [&str; 4] = ["small", "large", "mapped", "mixed"];
/// Pages of a mapped or mixed file.
const SPAN: u64 = 1024;

/// Bytes of a page that nobody else writes.
pub(crate) fn page(tag: u8) -> [u8; PAGE as usize] {
    [tag; PAGE as usize]
}

pub(crate) struct Racer {
    child: RefCell<Child>,
    status: RefCell<Option<ExitStatus>>,
    way: &'static str,
    path: PathBuf,
    journal: PathBuf,
    /// Open since before the race: `fsync` here tells of every write that failed since.
    witness: File,
}

impl Racer {
    pub(crate) fn start(n: u32, path: PathBuf, journal: PathBuf, seed: u64) -> Racer {
        let way = WAYS[(n + n / 4) as usize % WAYS.len()];
        Racer::start_as(way, path, journal, seed)
    }

    pub(crate) fn start_as(way: &'static str, path: PathBuf, journal: PathBuf, seed: u64) -> Racer {
        let this = std::env::current_exe().expect("this program");
        let child = Command::new(this)
            .args(["racer", "--exact", "--nocapture", "--test-threads", "1"])
            .env(VARIABLE, format!("{way}|{seed}"))
            .env("HEARTH_RACER_FILE", &path)
            .env("HEARTH_RACER_JOURNAL", &journal)
            .stdout(Stdio::null())
            .spawn()
            .expect("this program");
        Racer {
            child: RefCell::new(child),
            status: RefCell::new(None),
            way,
            witness: File::open(&path).expect("the file of the racer"),
            path,
            journal,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        if self.status.borrow().is_none() {
            let ended = self.child.borrow_mut().try_wait().expect("a child");
            *self.status.borrow_mut() = ended;
        }
        self.status.borrow().is_none()
    }

    /// Whether it was ended as one who touches a page that has no room.
    pub(crate) fn was_refused(&self) -> bool {
        let bus = rustix::process::Signal::BUS.as_raw();
        self.status.borrow().and_then(|status| status.signal()) == Some(bus)
    }

    /// Asserts that it ended well and that all it was acknowledged is there; how many bytes.
    pub(crate) fn finish(self, seed: u64) -> u64 {
        assert!(!self.is_running());
        let Racer { way, path, .. } = &self;
        let status = self.status.borrow().expect("it has ended");
        let well = status.success() || (way.starts_with("mapped") && self.was_refused());
        assert!(well, "seed {seed}, {way}: {status}");
        if let Err(error) = self.witness.sync_all() {
            panic!("seed {seed}, {way}: a write that was acknowledged failed later: {error}");
        }
        // What the kernel has of it, it may drop now; then the volume is asked.
        fadvise(&self.witness, 0, None, Advice::DontNeed).expect("advice");
        let bytes = std::fs::read(path).expect("the file");
        let (expected, acknowledged) = Journal::expected(&self.journal);
        assert!(
            expected.len() <= bytes.len(),
            "seed {seed}, {way}: it is too short"
        );
        for (at, (byte, expected)) in bytes.iter().zip(&expected).enumerate() {
            let same = expected.is_none_or(|expected| expected == *byte);
            assert!(
                same,
                "seed {seed}, {way}: byte {at} is {byte}, not {expected:?}"
            );
        }
        acknowledged
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        // Ended already, or the test has failed.
        let _ = self.child.get_mut().kill();
        let _ = self.child.get_mut().wait();
    }
}

/// The life of a racer, in a process that was started as one.
pub(crate) fn run_if_asked() {
    let Ok(asked) = std::env::var(VARIABLE) else {
        return;
    };
    let (way, seed) = asked.split_once('|').expect("a way and a seed");
    let place = |name| PathBuf::from(std::env::var_os(name).expect("a place"));
    let path = place("HEARTH_RACER_FILE");
    let journal = Journal::new(&place("HEARTH_RACER_JOURNAL"));
    let mut run = Run {
        file: open(&path),
        journal,
        dice: Random(seed.parse().expect("a number")),
    };
    match way {
        "small" => run.append(400, 5_000),
        "large" => run.append(30, 1 << 20),
        "mapped" => run.map(false),
        "mapped in order" => run.map(true),
        "mixed" => run.mix(),
        way => panic!("there is no way '{way}'"),
    }
    run.file.sync_all().expect("what was acknowledged is kept");
    // SAFETY: the descriptor is this file's own, which is given up with it.
    let closed = unsafe { rustix::io::try_close(run.file.into_raw_fd()) };
    closed.expect("what was acknowledged is kept");
}

fn open(path: &Path) -> File {
    let options = File::options().read(true).write(true).clone();
    options.open(path).expect("the file of the racer")
}

struct Run {
    file: File,
    journal: Journal,
    dice: Random,
}

impl Run {
    fn append(&mut self, times: u32, most: u64) {
        let mut end = 0;
        for _ in 0..times {
            let len = 1 + self.dice.below(most);
            match self.write(end, len) {
                Some(done) => end += done,
                // Others may give something back.
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn map(&mut self, in_order: bool) {
        self.file
            .set_len(SPAN * PAGE)
            .expect("a hole takes no room");
        let mut mapping = Mapping::of(&self.file, SPAN * PAGE);
        for n in 0..SPAN {
            let page = match in_order {
                true => n,
                false => self.dice.below(SPAN),
            };
            let tag = 1 + self.dice.below(255) as u8;
            mapping.store(page, tag);
            self.journal.wrote(page * PAGE, PAGE, tag);
            if n % 64 == 63 {
                mapping.sync().expect("what was stored is kept");
            }
        }
    }

    fn mix(&mut self) {
        for _ in 0..300 {
            let offset = self.dice.below(SPAN * PAGE);
            if self.dice.below(12) > 0 {
                let len = 1 + self.dice.below(9 * PAGE);
                self.write(offset, len);
                continue;
            }
            let size = self.file.metadata().expect("attributes").len();
            if offset < size {
                self.file.set_len(offset).expect("less needs no room");
                self.journal.cut(offset);
            }
        }
    }

    /// How much of it was acknowledged; none of it for want of room.
    fn write(&mut self, offset: u64, len: u64) -> Option<u64> {
        let tag = 1 + self.dice.below(255) as u8;
        match self.file.write_at(&vec![tag; len as usize], offset) {
            Ok(done) => {
                self.journal.wrote(offset, done as u64, tag);
                Some(done as u64)
            }
            Err(error) => {
                assert!(is_full(&error), "{error}");
                None
            }
        }
    }
}

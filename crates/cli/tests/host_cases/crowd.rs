//! A crowd that changes a tree behind and through the mount at once.

use crate::case::{Case, WAIT};
use crate::harness::{Below, Random, Transport, assert_same, seed};
use hearth_testing::threads::SetOnDrop;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a file holds: a line of one number, so that parts of two files show.
const LINE: usize = 64;
/// Lines of a file at most.
const LINES: u64 = 600;

/// How long: `HEARTH_SECONDS`, or a few.
fn length() -> Duration {
    let seconds = std::env::var("HEARTH_SECONDS").ok();
    Duration::from_secs(seconds.map_or(6, |text| text.parse().expect("a number")))
}

fn line(number: u64) -> Vec<u8> {
    let mut line = format!("{number:020}").repeat(3).into_bytes();
    line.resize(LINE - 1, b'.');
    line.push(b'\n');
    line
}

/// Whether these are whole lines of one number.
fn is_one(contents: &[u8]) -> bool {
    let mut lines = contents.chunks(LINE);
    let Some(first) = lines.next() else {
        return true;
    };
    first.len() == LINE && first[LINE - 1] == b'\n' && lines.all(|line| line == first)
}

struct Member {
    root: PathBuf,
    random: Random,
    number: u64,
    /// What it does just now.
    at: String,
}

impl Member {
    fn path(&mut self) -> PathBuf {
        let (a, b) = (self.random.below(6), self.random.below(30));
        match self.random.below(3) {
            0 => self.root.join(format!("f{b}")),
            1 => self.root.join(format!("d{a}/f{b}")),
            _ => self.root.join(format!("d{a}/e/f{b}")),
        }
    }

    /// A whole file under a new name, which then replaces another one.
    fn save(&mut self) -> std::io::Result<()> {
        self.number += 1;
        let lines = self.random.below(LINES) as usize;
        let new = self.root.join(format!(".new{}", self.number));
        fs::write(&new, line(self.number).repeat(lines))?;
        let to = self.path();
        self.at = format!("saving {}", to.display());
        fs::rename(&new, to).or_else(|_| fs::remove_file(&new))
    }

    /// What is read is one file's, whoever replaced it meanwhile.
    fn read(&mut self) -> std::io::Result<()> {
        let path = self.path();
        self.at = format!("reading {}", path.display());
        let mut file = File::open(&path)?;
        if !file.metadata()?.is_file() {
            return Ok(());
        }
        let mut contents = Vec::new();
        file.read_to_end(&mut contents)?;
        assert!(is_one(&contents), "{}: parts of two files", path.display());
        let mut again = vec![0; contents.len()];
        let read = file.read_at(&mut again, 0)?;
        assert!(again[..read] == contents[..read], "{}", path.display());
        Ok(())
    }

    fn change_names(&mut self) -> std::io::Result<()> {
        let (path, other) = (self.path(), self.path());
        let choice = self.random.below(8);
        self.at = format!(
            "names {choice} of {} and {}",
            path.display(),
            other.display()
        );
        match choice {
            0 => fs::remove_file(path),
            1 => fs::rename(path, other),
            2 => fs::hard_link(path, other),
            3 => symlink("f1", path),
            4 => fs::create_dir_all(path.parent().unwrap()),
            5 => fs::remove_dir_all(path.parent().unwrap().join("e")),
            6 => fs::read_dir(path.parent().unwrap())?.try_for_each(|entry| {
                let _ = entry?.metadata();
                Ok(())
            }),
            _ => fs::metadata(path).map(drop),
        }
    }

    fn step(&mut self) -> std::io::Result<()> {
        match self.random.below(4) {
            0 => self.save(),
            1 => self.read(),
            _ => self.change_names(),
        }
    }
}

/// The kernel looks once more, and no third time: what it has found may be replaced again until it
/// is opened. It does not look again for the directory in which a name is to be made. So this is
/// rare, and it is counted.
fn is_stale(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESTALE)
}

/// Errors that others cause by what they do meanwhile.
fn is_expected(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().unwrap_or(0);
    [
        libc::ENOENT,
        libc::EEXIST,
        libc::EISDIR,
        libc::ENOTDIR,
        libc::ENOTEMPTY,
        libc::ELOOP,
    ]
    .contains(&errno)
}

/// What a crowd did.
#[derive(Default)]
struct Counts {
    steps: AtomicU64,
    stale: AtomicU64,
}

fn crowd(places: &[&Path], length: Duration) -> Arc<Counts> {
    let stop = Arc::new(AtomicBool::new(false));
    let end_of_all = SetOnDrop(&stop);
    let counts = Arc::new(Counts::default());
    let members: Vec<_> = (0u64..)
        .zip(places)
        .map(|(who, place)| {
            let mut member = Member {
                root: place.to_path_buf(),
                random: Random(seed() + who),
                number: (who + 1) << 40,
                at: String::new(),
            };
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    if let Err(error) = member.step() {
                        let is_fine = is_expected(&error) || is_stale(&error);
                        assert!(is_fine, "{}: {error}", member.at);
                        counts.stale.fetch_add(is_stale(&error).into(), Relaxed);
                    }
                    counts.steps.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    let end = Instant::now() + length;
    while Instant::now() < end && !members.iter().any(|member| member.is_finished()) {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(end_of_all);
    for member in members {
        member
            .join()
            .expect("a member of the crowd found what is wrong");
    }
    counts
}

#[test]
fn a_crowd_behind_and_through_the_mount_leaves_one_tree() {
    let case = Case::over(Below::ext4());
    fs::create_dir(case.below.at("t")).unwrap();
    let (behind, through) = (case.below.at("t"), case.mounted.at("t"));
    let places = [&*behind, &through, &through, &through, &behind, &through];
    let counts = crowd(&places, length());
    let (steps, stale) = (counts.steps.load(Relaxed), counts.stale.load(Relaxed));
    assert!(steps > 1000, "{steps}");
    assert!(stale * 1000 < steps, "{stale} of {steps} are ESTALE");
    // A stream that goes on through all that the mount does meanwhile.
    let mut held = OpenOptions::new()
        .create(true)
        .append(true)
        .open(case.mounted.at("held"))
        .unwrap();
    held.write_all(b"goes on").unwrap();
    std::thread::sleep(WAIT);
    assert_same(&behind, &through);
    drop(held);
    case.mounted.unmount();
    assert_eq!(fs::read(case.below.at("held")).unwrap(), b"goes on");
    case.mounted.mount_again(Transport::Dev, "");
    assert_same(&behind, &through);
}

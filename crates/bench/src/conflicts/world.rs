//! The state in which a case begins.

use super::case::{Case, Place};
use super::verb::{Operand, PAGE, Verb, hash, plain};
use hearth::fdtable::FdPolicy;
use hearth::{AtimeMode, Clock, Credentials, Process, Time, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// When the state is made.
const MADE: i64 = 1_000;
/// When it is read through once, so that access times are settled.
pub const SETTLED: i64 = 2_000;
/// Pages of each file: two that cases use, two to warm up with.
const PAGES: usize = 8;
/// First of the pages to warm up with.
const SPARE: u64 = 6;

/// A volume and its processes, ready for one case.
pub struct World {
    time: Arc<AtomicI64>,
    /// The process of each side; the second is absent where both are threads of one.
    processes: Vec<Box<Process>>,
    /// What each side works on.
    pub operands: [Operand; 2],
    /// Names for each side to warm up with, in every directory of the case.
    scratch: [Vec<[Vec<u8>; 2]>; 2],
}

struct SteppedClock(Arc<AtomicI64>);

impl Clock for SteppedClock {
    fn now(&self) -> Time {
        // Relaxed: the main thread moves it while nobody works.
        Time {
            sec: self.0.load(Ordering::Relaxed),
            nsec: 0,
        }
    }
}

/// How names are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Each side's names lie apart in the order of listing, and so in different buckets.
    Apart,
    /// Any.
    Any,
}

impl World {
    /// Makes the state for `case`.
    ///
    /// # Panics
    /// When the library refuses what the state needs.
    pub fn new(case: &Case, names: Names) -> World {
        let time = Arc::new(AtomicI64::new(MADE));
        let atime = if case.is_noatime {
            AtimeMode::No
        } else {
            AtimeMode::Relatime
        };
        let builder = Volume::builder().clock(SteppedClock(time.clone()));
        let volume = builder
            .atime(atime)
            .build()
            .expect("settings that make sense");
        let mut first = Box::new(volume.process(Credentials::root()));
        let mut processes = Vec::new();
        if case.is_one_process {
            first
                .set_fd_policy(FdPolicy::PerCore)
                .expect("nothing is open");
        } else {
            processes.push(Box::new(volume.process(Credentials::root())));
        }
        processes.insert(0, first);
        let mut world = World {
            time,
            processes,
            operands: Default::default(),
            scratch: Default::default(),
        };
        world.fill(case, names);
        world
    }

    /// The process of a side.
    pub fn process(&self, side: usize) -> &Process {
        &self.processes[side.min(self.processes.len() - 1)]
    }

    /// Makes it `seconds` o'clock.
    pub fn set_time(&self, seconds: i64) {
        // Relaxed: as in the clock.
        self.time.store(seconds, Ordering::Relaxed);
    }

    /// Does everything once in the directories of the case, so that what is made on first use or
    /// splits for a second core is there. Each side calls it on its own thread.
    ///
    /// # Panics
    /// When the library refuses.
    pub fn warm(&self, side: usize) {
        let p = self.process(side);
        let mut page = vec![1; PAGE];
        for scratch in &self.scratch[side] {
            let [from, to] = scratch;
            let flags = libc::O_CREAT | libc::O_APPEND | libc::O_RDWR;
            let fd = p.open(from, flags, 0o644).expect("create");
            p.write(fd, &page[..64]).expect("append");
            p.close(fd).expect("close");
            p.rename(from, to).expect("rename");
            p.unlink(to).expect("unlink");
            p.mkdir(from, 0o755).expect("mkdir");
            p.rmdir(from).expect("rmdir");
        }
        for on in &self.operands {
            p.stat(&on.file).expect("stat");
            p.access(&on.file, 4).expect("access");
            assert!(p.stat(&on.missing).is_err(), "a missing name is missing");
            let fd = p.open(&on.file, libc::O_RDWR, 0).expect("open");
            p.fstat(fd).expect("fstat");
            let at = (SPARE + side as u64) * PAGE as u64;
            p.pwrite(fd, &page, at).expect("write");
            p.pread(fd, &mut page, at).expect("read");
            let twin = p.dup(fd).expect("dup");
            p.close(twin).expect("close");
            p.close(fd).expect("close");
        }
        self.settle(side);
    }

    /// Reads everything once.
    ///
    /// # Panics
    /// When the library refuses.
    pub fn settle(&self, side: usize) {
        let p = self.process(side);
        let mut page = vec![1; PAGE];
        for on in &self.operands {
            p.read_dir(&on.dir).expect("list");
            let fd = p.open(&on.file, libc::O_RDONLY, 0).expect("open");
            p.pread(fd, &mut page, SPARE * PAGE as u64).expect("read");
            p.close(fd).expect("close");
        }
    }

    /// A digest of the whole tree, without what the volume is free to choose.
    ///
    /// # Panics
    /// When the library refuses.
    pub fn digest(&self) -> u64 {
        self.digest_dir(b"/")
    }

    fn digest_dir(&self, dir: &[u8]) -> u64 {
        let p = self.process(0);
        let mut sum = 0u64;
        for entry in p
            .read_dir(dir)
            .expect("a directory that is listed is there")
        {
            let path = [dir, b"/", &entry.name].concat();
            let attr = p.lstat(&path).expect("an entry that is listed is there");
            let inside = match entry.kind {
                hearth::Kind::Directory => self.digest_dir(&path),
                _ if attr.size > 0 => {
                    let fd = p.open(&path, libc::O_RDONLY, 0).expect("open");
                    let mut text = vec![0; attr.size as usize];
                    p.pread(fd, &mut text, 0).expect("read");
                    p.close(fd).expect("close");
                    hash(text)
                }
                _ => 0,
            };
            sum = sum.wrapping_add(hash((&entry.name, hash_of(&attr), inside)));
        }
        sum
    }

    fn fill(&mut self, case: &Case, names: Names) {
        let is_elsewhere = case.place == Place::Elsewhere;
        let dirs: &[&str] = if is_elsewhere {
            &["/d0", "/d1"]
        } else {
            &["/d0"]
        };
        let verbs = [case.a, case.b];
        for (n, dir) in dirs.iter().enumerate() {
            self.process(0)
                .mkdir(dir, 0o755)
                .expect("a directory of a new volume");
            let here: Vec<usize> = if is_elsewhere { vec![n] } else { vec![0, 1] };
            // Regions: two names to warm up with for each side, then what each operand needs.
            let mut sizes = vec![2, 2];
            for &side in &here {
                let many = if verbs[side].has_names() {
                    case.window
                } else {
                    0
                };
                sizes.extend([
                    1,
                    1,
                    many,
                    if verbs[side] == Verb::Rename { many } else { 0 },
                ]);
            }
            let mut regions = self.regions(dir, &sizes, names).into_iter();
            let mut next = || regions.next().expect("as many regions as were asked for");
            for side in 0..2 {
                let [from, to] = <[_; 2]>::try_from(next()).expect("two names");
                self.scratch[side].push([from, to]);
            }
            for side in here {
                let one = |mut names: Vec<Vec<u8>>| names.pop().expect("one name");
                let (file, missing) = (one(next()), one(next()));
                let (names, renamed) = (next(), next());
                let dir = dir.as_bytes().to_vec();
                let on = Operand {
                    dir,
                    file,
                    missing,
                    names,
                    renamed,
                    ..Operand::default()
                };
                self.operands[side] = on;
            }
        }
        let [first, second] = &mut self.operands;
        if matches!(case.place, Place::Same | Place::OtherPage) {
            second.file = first.file.clone();
            second.missing = first.missing.clone();
            if case.a == case.b {
                second.names = first.names.clone();
                second.renamed = first.renamed.clone();
            }
        }
        if case.place == Place::OtherPage {
            second.page = 4;
        }
        for (side, verb) in verbs.into_iter().enumerate() {
            self.make(side, verb, case);
        }
    }

    /// Makes the files of one side.
    fn make(&mut self, side: usize, verb: Verb, case: &Case) {
        let p = &self.processes[side.min(self.processes.len() - 1)];
        let on = &mut self.operands[side];
        let flags = libc::O_CREAT | libc::O_RDWR;
        on.fd = p.open(&on.file, flags, 0o644).expect("create");
        p.pwrite(on.fd, &vec![7; PAGES * PAGE], 0).expect("write");
        on.append = p
            .open(&on.file, libc::O_WRONLY | libc::O_APPEND, 0)
            .expect("open");
        for name in on.names.iter().filter(|_| verb.takes_existing()) {
            let made = if verb == Verb::Rmdir {
                p.mkdir(name, 0o755)
            } else {
                p.mknod(name, 0o100644, 0)
            };
            let is_shared = case.a == case.b && side == 1 && case.place == Place::Same;
            assert!(made.is_ok() || is_shared, "{name:?}: {made:?}");
        }
        let [first, second] = &mut self.operands;
        if side == 1 && case.is_one_process && second.file == first.file {
            // Threads that work on one file use one descriptor.
            second.fd = first.fd;
        }
    }

    /// Free names for each of `sizes`.
    fn regions(&self, dir: &str, sizes: &[usize], names: Names) -> Vec<Vec<Vec<u8>>> {
        /// Names left out between two regions, more than two buckets hold.
        const GAP: usize = 24;
        let path = |n: usize| format!("{dir}/name-{n}").into_bytes();
        let total = sizes.iter().map(|size| size + GAP).sum();
        let mut free: Vec<Vec<u8>> = (0..total).map(path).collect();
        if names == Names::Apart {
            let p = self.process(0);
            for name in &free {
                p.mknod(name, 0o100644, 0).expect("a new name");
            }
            let mut listed = p.read_dir(dir).expect("a directory");
            listed.sort_by_key(|entry| entry.cookie);
            free = listed
                .iter()
                .map(|e| [dir.as_bytes(), b"/", &e.name].concat())
                .collect();
            for name in &free {
                p.unlink(name).expect("a name that was listed");
            }
        }
        let mut free = free.into_iter();
        let mut region = |size: usize| {
            let region = free.by_ref().take(size).collect();
            free.by_ref().take(GAP).for_each(drop);
            region
        };
        sizes.iter().map(|&size| region(size)).collect()
    }
}

fn hash_of(attr: &hearth::Attr) -> u64 {
    hash(plain(attr, SETTLED))
}

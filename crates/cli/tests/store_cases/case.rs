//! The stage of a case: a volume on a disk that loses its power.

use crate::harness::demand_root;
use crate::stored;
use hearth_testing::disk::SlowDisk;
use hearth_testing::forgetting::{Counts, Fault, Forgetting, Options};
use hearth_testing::place::Place;
use hearth_testing::random::Random;
use hearth_testing::rounds::{Cut, Disk, Service};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A volume that can lose its power.
pub struct Case {
    service: Cut<Below>,
    /// Where the volume keeps its files.
    kept: PathBuf,
    random: Random,
    // Dropped last: the others lie in it.
    _place: Place,
}

/// What a volume keeps its files on.
pub enum Below {
    /// A directory that keeps what it must and no more.
    Forgetting(Forgetting),
    /// An ext4, which can be full.
    Ext4(SlowDisk),
}

impl Disk for Below {
    fn cut(&mut self, seed: Option<u64>) -> Result<(), String> {
        match self {
            Below::Forgetting(disk) => Disk::cut(disk, seed),
            Below::Ext4(disk) => Disk::cut(disk, seed),
        }
    }

    fn switch_on(&mut self) -> Result<(), String> {
        match self {
            Below::Forgetting(disk) => Disk::switch_on(disk),
            Below::Ext4(disk) => Disk::switch_on(disk),
        }
    }
}

/// How the tree fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing: an orderly unmount.
    Unmount,
    /// The daemon is killed.
    Kill,
    /// What nobody synced is lost.
    Cut,
    /// Some of it reached the disk.
    Torn,
}

pub const FAILURES: [Failure; 4] = [Failure::Unmount, Failure::Kill, Failure::Cut, Failure::Torn];

/// As many bytes has an ext4.
const DISK: u64 = 512 << 20;

impl Case {
    /// An empty volume.
    pub fn new() -> Case {
        demand_root();
        let place = Place::new("case").expect("a directory");
        let (service, kept) = stored::on_a_forgetting_disk(&place, true);
        let (daemon, disk) = (service.daemon, Below::Forgetting(service.disk));
        Case::begun(Cut { daemon, disk }, kept, place)
    }

    /// An empty volume on an ext4 of its own, which can be full.
    pub fn on_a_small_disk() -> Case {
        demand_root();
        let place = Place::new("case").expect("a directory");
        let disk = SlowDisk::new(DISK, Options::default()).expect("a disk");
        let mount = place.directory("mount").expect("a directory");
        let kept = disk.path().join("s");
        let (daemon, disk) = (stored::daemon(&kept, &mount), Below::Ext4(disk));
        Case::begun(Cut { daemon, disk }, kept, place)
    }

    fn begun(mut service: Cut<Below>, kept: PathBuf, place: Place) -> Case {
        service.start().expect("the volume is made");
        Case {
            service,
            kept,
            random: Random(crate::harness::seed()),
            _place: place,
        }
    }

    /// Where the tree is.
    pub fn root(&self) -> &Path {
        self.service.path()
    }

    /// Where the volume keeps its files.
    pub fn kept(&self) -> &Path {
        &self.kept
    }

    /// The daemon.
    pub fn daemon(&mut self) -> &mut hearth_testing::rounds::Daemon {
        &mut self.service.daemon
    }

    /// What was asked of the disk.
    pub fn counts(&self) -> Counts {
        match &self.service.disk {
            Below::Forgetting(disk) => disk.counts(),
            Below::Ext4(_) => panic!("this one counts nothing"),
        }
    }

    /// Makes that go wrong on the disk from now on.
    pub fn set_fault(&self, fault: Fault) {
        match &self.service.disk {
            Below::Forgetting(disk) => disk.set_fault(fault),
            Below::Ext4(_) => panic!("this one does nothing wrong"),
        }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Open with O_CREAT, write, close; no sync.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.at(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Opens, syncs, closes.
    pub fn sync(&self, name: &str) {
        File::open(self.at(name)).unwrap().sync_all().unwrap();
    }

    pub fn mkdir(&self, name: &str) {
        fs::create_dir(self.at(name)).unwrap();
    }

    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.at(from), self.at(to)).unwrap();
    }

    pub fn link(&self, from: &str, to: &str) {
        fs::hard_link(self.at(from), self.at(to)).unwrap();
    }

    pub fn unlink(&self, name: &str) {
        fs::remove_file(self.at(name)).unwrap();
    }

    pub fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.at(name)).is_ok()
    }

    /// Sorted names of a directory.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let names = fs::read_dir(self.at(dir)).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "lost+found")
            .collect();
        names.sort();
        names
    }

    /// A power cut, after which what was not synced is lost.
    pub fn cut(&mut self) {
        self.fail(Failure::Cut);
    }

    /// A sync of the root, and a power cut.
    pub fn cut_after_sync(&mut self) {
        self.sync(".");
        self.cut();
    }

    /// The tree fails and is there again, and the checkers find nothing.
    pub fn fail(&mut self, failure: Failure) {
        let seed = (failure == Failure::Torn).then(|| self.random.draw());
        let service = &mut self.service;
        let failed = match failure {
            Failure::Unmount => service.stop(),
            Failure::Kill => {
                service.daemon.kill();
                Ok(())
            }
            Failure::Cut | Failure::Torn => {
                service.daemon.kill();
                let cut = Disk::cut(&mut service.disk, seed);
                cut.and_then(|()| Disk::switch_on(&mut service.disk))
            }
        };
        failed.unwrap();
        service.start().unwrap();
        self.check();
    }

    /// The checkers find nothing, and every file has as many names as it says.
    pub fn check(&self) {
        stored::check(&self.kept, self.root()).unwrap();
        let mut links = std::collections::HashMap::new();
        for (path, found) in walk(self.root()) {
            if !found.is_dir() {
                let known = links.entry(found.ino()).or_insert((0, found.nlink(), path));
                known.0 += 1;
            }
        }
        for (names, said, path) in links.into_values() {
            assert_eq!(names, said, "names and nlink of {}", path.display());
        }
    }

    /// Everything that can be told of each name: type, mode, owner, size, nlink, mtime, contents.
    pub fn walk(&self) -> Vec<String> {
        let mut lines: Vec<String> = walk(self.root()).map(|(path, m)| line(&path, &m)).collect();
        lines.sort();
        lines
    }
}

fn line(path: &Path, found: &fs::Metadata) -> String {
    let kind = found.file_type();
    let contents = match () {
        () if kind.is_file() => format!("{:?}", fs::read(path).map(|bytes| hash(&bytes))),
        () if kind.is_symlink() => format!("{:?}", fs::read_link(path)),
        () if kind.is_char_device() => format!("{:x}", found.rdev()),
        () => String::new(),
    };
    let times = (found.mtime(), found.mtime_nsec());
    let size = if kind.is_dir() { 0 } else { found.size() };
    let (mode, links) = (found.mode(), found.nlink());
    let owner = (found.uid(), found.gid());
    let path = path.display();
    format!("{path} {mode:o} {owner:?} {size} {links} {times:?} {contents}")
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Everything below a directory.
pub fn walk(root: &Path) -> impl Iterator<Item = (PathBuf, fs::Metadata)> {
    let mut all = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
            let path = entry.unwrap().path();
            if path.ends_with("lost+found") {
                continue;
            }
            let found = fs::symlink_metadata(&path);
            let found = found.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            if found.is_dir() {
                todo.push(path.clone());
            }
            all.push((path, found));
        }
    }
    all.into_iter()
}

//! The stage of a case: a volume on a disk that loses its power.

use crate::harness::demand_root;
use crate::stored;
use hearth_testing::disk::{DiskCounts, SlowDisk};
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
    /// A directory of the machine, which keeps its power.
    Plain,
}

impl Disk for Below {
    fn cut(&mut self, seed: Option<u64>) -> Result<(), String> {
        match self {
            Below::Forgetting(disk) => Disk::cut(disk, seed),
            Below::Ext4(disk) => Disk::cut(disk, seed),
            Below::Plain => Err("this disk keeps its power".to_owned()),
        }
    }

    fn switch_on(&mut self) -> Result<(), String> {
        match self {
            Below::Forgetting(disk) => Disk::switch_on(disk),
            Below::Ext4(disk) => Disk::switch_on(disk),
            Below::Plain => Ok(()),
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

    /// An empty volume on a disk that keeps a name only with a sync of its directory.
    pub fn on_a_strict_disk() -> Case {
        demand_root();
        let place = Place::new("case").expect("a directory");
        let (service, kept) = stored::on_a_forgetting_disk(&place, false);
        let (daemon, disk) = (service.daemon, Below::Forgetting(service.disk));
        Case::begun(Cut { daemon, disk }, kept, place)
    }

    /// An empty volume in a directory of the machine, mounted with these options more.
    pub fn plain(options: &str) -> Case {
        demand_root();
        let place = Place::new("case").expect("a directory");
        let mount = place.directory("mount").expect("a directory");
        let kept = place.path().join("s");
        let options = format!("create,transport=dev{options}");
        let daemon = stored::daemon_with(&kept, &mount, &options);
        let disk = Below::Plain;
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
            _ => panic!("this one counts nothing"),
        }
    }

    /// Makes that go wrong on the disk from now on.
    pub fn set_fault(&self, fault: Fault) {
        match &self.service.disk {
            Below::Forgetting(disk) => disk.set_fault(fault),
            _ => panic!("this one does nothing wrong"),
        }
    }

    /// What the disk was asked to do: an ext4 of its own counts it.
    pub fn disk_counts(&self) -> DiskCounts {
        match &self.service.disk {
            Below::Ext4(disk) => disk.counts().unwrap(),
            _ => panic!("this one has no disk of its own"),
        }
    }

    /// Makes each sync of the disk take so long from now on.
    pub fn set_delay(&self, delay: std::time::Duration) {
        match &self.service.disk {
            Below::Forgetting(disk) => disk.set_delay(delay),
            Below::Ext4(disk) => disk.set_delay(delay),
            Below::Plain => panic!("this one is as fast as it is"),
        }
    }

    /// A number that the kernel has of the daemon, in KiB: `VmRSS`, `VmHWM`.
    pub fn memory(&mut self, name: &str) -> u64 {
        let pid = self.daemon().id().unwrap();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Ticks of 10 ms for which the daemon has computed.
    pub fn ticks(&mut self) -> u64 {
        let pid = self.daemon().id().unwrap();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields = stat.rsplit(") ").next().unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// What the volume knows of a user's use and limits; null if nothing.
    pub fn usage(&self, user: u32) -> serde_json::Value {
        let report = fs::read_to_string(self.at(".hearth/quota/report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let mut records = report["records"].as_array().unwrap().iter();
        let found = records.find(|record| record["kind"] == "user" && record["id"] == user);
        found.cloned().unwrap_or_default()
    }

    /// Segments of the volume.
    pub fn segments(&self) -> Vec<PathBuf> {
        let all = quiet_walk(&self.kept.join("segments")).into_iter();
        let mut files: Vec<_> = all.filter(|(_, m)| m.is_file()).map(|(p, _)| p).collect();
        files.sort();
        files
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

/// Everything below a directory whose files come and go.
fn quiet_walk(root: &Path) -> Vec<(PathBuf, fs::Metadata)> {
    let mut all = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if found.is_dir() {
                todo.push(path.clone());
            }
            all.push((path, found));
        }
    }
    all
}

/// How often: `HEARTH_ROUNDS` in a soak.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("HEARTH_ROUNDS").map_or(usual, |n| n.parse().expect("a number"))
}

/// How many times as much as usual: a fortieth of [`rounds`].
pub fn factor() -> u64 {
    (rounds(1) / 40).max(1)
}

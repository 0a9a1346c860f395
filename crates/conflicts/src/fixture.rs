//! The fixture of a batch of cases: a volume in which each case has directories of its own.

use super::injected::{CountingClock, INJECTED};
use super::operation::{Dir, Name, Place};
use super::opts::Setting;
use hearth::{AtimeMode, Clock, Credentials, Process, Time, Volume};
use hearth::{LimitChange, LimitUpdate, QuotaKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The time at which states are made.
pub const MADE: i64 = 1_000;
/// The time at which they are read once, so that access times are settled.
pub const SETTLED: i64 = 2_000;
/// The time at which cases run.
pub const MOMENT: i64 = 3_000;

/// Names for each name of the state. The smallest table has that many buckets, and a name stays in
/// its eighth of the table at any size, so that two names never share a bucket.
const EIGHTHS: usize = 8;
/// Names that are tried to get enough of each for long windows.
pub const CANDIDATES: usize = 4096;
/// Names that are tried for windows of one call.
pub const FEW_CANDIDATES: usize = 96;

/// Tracks heat in every volume, whatever its setting. Relaxed: set once, before there is a worker.
pub static WITH_HEAT: AtomicBool = AtomicBool::new(false);

/// The id of the ordinary user and of the group.
const USER: u32 = 1_000;

/// A volume for a batch of cases.
pub struct Fixture {
    /// The volume.
    pub volume: Volume,
    time: Arc<AtomicI64>,
    names: [Vec<String>; EIGHTHS],
    /// Varies which names are taken.
    shift: usize,
    next: usize,
    is_user: bool,
}

struct SteppedClock(Arc<AtomicI64>);

impl Clock for SteppedClock {
    fn now(&self) -> Time {
        // Relaxed: the main thread moves it while no side works.
        Time {
            sec: self.0.load(Ordering::Relaxed),
            nsec: 0,
        }
    }
}

impl Fixture {
    /// Returns a fixture with a new volume.
    ///
    /// # Panics
    /// When the library refuses what is needed.
    pub fn new(is_noatime: bool, shift: usize, candidates: usize, setting: Setting) -> Fixture {
        let time = Arc::new(AtomicI64::new(MADE));
        let atime = if is_noatime {
            AtimeMode::No
        } else {
            AtimeMode::Relatime
        };
        let builder = Volume::builder();
        let clock = SteppedClock(time.clone());
        // Relaxed: set before there is a worker.
        let builder = match INJECTED.load(Ordering::Relaxed) {
            true => builder.clock(CountingClock::new(clock)),
            false => builder.clock(clock),
        };
        let builder = builder
            // Relaxed: set before there is a worker.
            .hot_track(setting.has_heat || WITH_HEAT.load(Ordering::Relaxed))
            .atime(atime);
        let volume = builder.build().expect("settings that make sense");
        if setting.has_quotas {
            turn_quotas_on(&volume);
        }
        let names = names(&volume.process(Credentials::root()), candidates);
        Fixture {
            volume,
            time,
            names,
            shift,
            next: 0,
            is_user: setting.is_user,
        }
    }

    /// Returns the path of the directory of the next case.
    pub fn next_base(&mut self) -> String {
        self.next += 1;
        format!("/{}", self.next)
    }

    /// Makes that directory, owned by the user of the volume.
    ///
    /// # Panics
    /// When the library refuses.
    pub fn make_base(&self, base: &str) {
        let root = self.volume.process(Credentials::root());
        root.mkdir(base, 0o755).expect("a new directory");
        let Credentials { uid, gid, .. } = self.credentials();
        let given = root.chown(base, Some(uid), Some(gid));
        given.expect("root gives away what it likes");
    }

    /// Returns a process of the volume's user.
    pub fn process(&self) -> Process {
        self.volume.process(self.credentials())
    }

    fn credentials(&self) -> Credentials {
        match self.is_user {
            true => Credentials::user(USER, USER),
            false => Credentials::root(),
        }
    }

    /// Sets the time to `seconds`.
    pub fn set_time(&self, seconds: i64) {
        // Relaxed: see the clock.
        self.time.store(seconds, Ordering::Relaxed);
    }

    /// Returns the path of a place for the `i`-th repetition.
    pub fn path(&self, base: &str, place: Place, i: usize) -> Vec<u8> {
        let mut path = self.dir(base, place.dir);
        if place.name != Name::Itself {
            let names = &self.names[place.name as usize];
            path.push(b'/');
            path.extend_from_slice(names[(i + self.shift) % names.len()].as_bytes());
        }
        path
    }

    /// Returns the path of a directory.
    pub fn dir(&self, base: &str, dir: Dir) -> Vec<u8> {
        match dir.above() {
            None => format!("{base}{}", dir.path()).into_bytes(),
            Some(above) => {
                let above = String::from_utf8_lossy(&self.dir(base, above)).into_owned();
                format!("{above}/{}", self.name(Name::Sub)).into_bytes()
            }
        }
    }

    /// Returns the name alone.
    pub fn name(&self, name: Name) -> &str {
        &self.names[name as usize][self.shift % self.names[name as usize].len()]
    }
}

/// Sets limits on all. Id 0 can only have one as a project, which is the whole volume.
fn turn_quotas_on(volume: &Volume) {
    let quota = volume.quota();
    let far = LimitChange {
        bytes_hard: LimitUpdate::To(1 << 40),
        inodes_hard: LimitUpdate::To(1 << 40),
        ..LimitChange::default()
    };
    for kind in [QuotaKind::User, QuotaKind::Group, QuotaKind::Project] {
        quota.set_default(kind, &far).expect("limits far away");
    }
    quota.set_project_tree("/", 7).expect("the whole volume");
}

/// Returns names by the eighth of a listing that they come in, which is the order of their hashes.
fn names(p: &Process, candidates: usize) -> [Vec<String>; EIGHTHS] {
    p.mkdir("/names", 0o755).expect("a new directory");
    for n in 0..candidates {
        p.mknod(format!("/names/{n}"), 0o100644, 0)
            .expect("a new name");
    }
    let listed = p.read_dir("/names").expect("a directory");
    // Cookies have 31 bits.
    let eighth = |cookie: u64| (cookie >> 28) as usize % EIGHTHS;
    let mut names: [Vec<String>; EIGHTHS] = Default::default();
    for entry in listed {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        names[eighth(entry.cookie)].push(name);
    }
    names
}

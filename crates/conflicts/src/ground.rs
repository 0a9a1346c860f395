//! The volume that a batch of cases uses, each in directories of its own.

use super::manner::Setting;
use super::operation::{Dir, Name, Place};
use super::planted::{CountingClock, PLANTED};
use hearth::{AtimeMode, Clock, Credentials, Process, Time, Volume};
use hearth::{Change, LimitChange, QuotaKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// When states are made.
pub const MADE: i64 = 1_000;
/// When they are read through once, so that access times are settled.
pub const SETTLED: i64 = 2_000;
/// When cases run.
pub const MOMENT: i64 = 3_000;

/// Names for each name of the state: the smallest table has that many buckets, and a name stays
/// in its eighth of the table however large it is, so that two names never share a bucket.
const EIGHTHS: usize = 8;
/// Names that are tried, to have enough of each for long windows.
pub const CANDIDATES: usize = 4096;
/// The same for windows of one call.
pub const FEW_CANDIDATES: usize = 96;

/// Whether heat is tracked in every volume, whatever its setting. Relaxed: set once, before there
/// is a worker.
pub static WITH_HEAT: AtomicBool = AtomicBool::new(false);

/// The ordinary user, and the group.
const USER: u32 = 1_000;

/// A volume.
pub struct Ground {
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
        // Relaxed: the main thread moves it while nobody works.
        Time {
            sec: self.0.load(Ordering::Relaxed),
            nsec: 0,
        }
    }
}

impl Ground {
    /// A new volume.
    ///
    /// # Panics
    /// When the library refuses what is needed.
    pub fn new(is_noatime: bool, shift: usize, candidates: usize, setting: Setting) -> Ground {
        let time = Arc::new(AtomicI64::new(MADE));
        let atime = if is_noatime {
            AtimeMode::No
        } else {
            AtimeMode::Relatime
        };
        let builder = Volume::builder();
        let clock = SteppedClock(time.clone());
        // Relaxed: as its documentation says.
        let builder = match PLANTED.load(Ordering::Relaxed) {
            true => builder.clock(CountingClock::new(clock)),
            false => builder.clock(clock),
        };
        let builder = builder
            // Relaxed: as its documentation says.
            .hot_track(setting.has_heat || WITH_HEAT.load(Ordering::Relaxed))
            .atime(atime);
        let volume = builder.build().expect("settings that make sense");
        if setting.has_quotas {
            turn_quotas_on(&volume);
        }
        let names = names(&volume.process(Credentials::root()), candidates);
        Ground {
            volume,
            time,
            names,
            shift,
            next: 0,
            is_user: setting.is_user,
        }
    }

    /// Where the directory of the next case will be.
    pub fn next_base(&mut self) -> String {
        self.next += 1;
        format!("/{}", self.next)
    }

    /// Makes it, for who works on the volume.
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

    /// A process of who works on the volume.
    pub fn process(&self) -> Process {
        self.volume.process(self.credentials())
    }

    fn credentials(&self) -> Credentials {
        match self.is_user {
            true => Credentials::user(USER, USER),
            false => Credentials::root(),
        }
    }

    /// Makes it `seconds` o'clock.
    pub fn set_time(&self, seconds: i64) {
        // Relaxed: as in the clock.
        self.time.store(seconds, Ordering::Relaxed);
    }

    /// The path of a place for the `i`-th repetition.
    pub fn path(&self, base: &str, place: Place, i: usize) -> Vec<u8> {
        let mut path = self.dir(base, place.dir);
        if place.name != Name::Itself {
            let names = &self.names[place.name as usize];
            path.push(b'/');
            path.extend_from_slice(names[(i + self.shift) % names.len()].as_bytes());
        }
        path
    }

    /// The path of a directory.
    pub fn dir(&self, base: &str, dir: Dir) -> Vec<u8> {
        match dir.above() {
            None => format!("{base}{}", dir.path()).into_bytes(),
            Some(above) => {
                let above = String::from_utf8_lossy(&self.dir(base, above)).into_owned();
                format!("{above}/{}", self.name(Name::Sub)).into_bytes()
            }
        }
    }

    /// The name alone.
    pub fn name(&self, name: Name) -> &str {
        &self.names[name as usize][self.shift % self.names[name as usize].len()]
    }
}

/// Id 0 has a limit as a project only: the whole volume is one.
fn turn_quotas_on(volume: &Volume) {
    let quota = volume.quota();
    let far = LimitChange {
        bytes_hard: Change::To(1 << 40),
        inodes_hard: Change::To(1 << 40),
        ..LimitChange::default()
    };
    for kind in [QuotaKind::User, QuotaKind::Group, QuotaKind::Project] {
        quota.set_default(kind, &far).expect("limits far away");
    }
    quota.set_project_tree("/", 7).expect("the whole volume");
}

/// Names by the eighth of a listing that they come in, which is the order of their hashes.
fn names(p: &Process, candidates: usize) -> [Vec<String>; EIGHTHS] {
    p.mkdir("/names", 0o755).expect("a new directory");
    for n in 0..candidates {
        p.mknod(format!("/names/{n}"), 0o100644, 0)
            .expect("a new name");
    }
    let listed = p.read_dir("/names").expect("a directory");
    // Cookies have 62 bits.
    let eighth = |cookie: u64| (cookie >> 59) as usize % EIGHTHS;
    let mut names: [Vec<String>; EIGHTHS] = Default::default();
    for entry in listed {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        names[eighth(entry.cookie)].push(name);
    }
    names
}

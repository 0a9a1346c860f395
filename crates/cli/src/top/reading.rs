//! One look at a mount: its control files and answers, by the readers that the other verbs use.

use super::tab::{Ranked, Tab};
use crate::failure::Failure;
use crate::heat::place::{ask_json, read_json};
use crate::quota::{self, Report};
use crate::stats::{self, Samples};
use crate::wrong_place::unseen;
use crate::{locks, mounts, sched};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Most rows of heat.
const HOTTEST: u32 = 200;
/// Temperatures along a file, as many as a wide terminal shows.
pub const CELLS: usize = 64;

/// A part that not every tab shows: `None` where it was not asked for, or why it is not to be had.
pub type Part<T> = Option<Result<T, String>>;

/// Which parts are read. The statistics always are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Tenants and quotas.
    pub tenants: bool,
    /// Rankings by heat.
    pub heat: Vec<Ranked>,
    /// The lock profile.
    pub locks: bool,
}

impl Wanted {
    /// Everything; of heat, these rankings.
    pub fn all(heat: &[Ranked]) -> Wanted {
        Wanted {
            tenants: true,
            heat: heat.to_vec(),
            locks: true,
        }
    }

    /// What one tab shows.
    pub fn of(tab: Tab, ranked: Ranked) -> Wanted {
        Wanted {
            tenants: tab == Tab::Tenants,
            heat: (tab == Tab::Heat).then_some(ranked).into_iter().collect(),
            locks: tab == Tab::Locks,
        }
    }
}

/// One look.
#[derive(Debug)]
pub struct Reading {
    /// When it began.
    pub at: Instant,
    /// The wall clock then, in seconds.
    pub wall: f64,
    /// The device number of the mount: another one is another mount.
    pub device: u64,
    /// All counters.
    pub stats: Samples,
    /// Cores and tenants.
    pub sched: Part<Value>,
    /// Use and limits.
    pub quota: Part<Report>,
    /// Rankings by heat.
    pub heat: Part<HeatReading>,
    /// The lock profile.
    pub locks: Part<Value>,
}

/// What was read of heat.
#[derive(Debug)]
pub struct HeatReading {
    /// Whether it is on, and what is counted.
    pub status: Value,
    /// Rows, hottest first, of each ranking that was wanted.
    pub rankings: Vec<(Ranked, Vec<Value>)>,
}

/// Looks at the mount whose top is `mount`.
///
/// # Errors
/// There is no mount any more, or nobody answers for it.
pub fn read(mount: &Path, wanted: &Wanted) -> Result<Reading, Failure> {
    let at = Instant::now();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    let device = std::fs::metadata(mount).map_err(|error| unseen(mount, &error))?;
    let stats = stats::read(mount)?;
    Ok(Reading {
        at,
        wall: wall.map_or(0.0, |wall| wall.as_secs_f64()),
        device: device.dev(),
        stats,
        sched: part(wanted.tenants, || tenants(mount)),
        quota: part(wanted.tenants, || quota::everybody(mount)),
        heat: part(!wanted.heat.is_empty(), || heat(mount, &wanted.heat)),
        locks: part(wanted.locks, || {
            json(mount, "locks.json", &locks::read(mount)?.0)
        }),
    })
}

/// Why there is no other look at a mount that was there before.
pub fn lost(mount: &Path, failure: &Failure) -> Failure {
    let is_mounted = mounts::ours().is_ok_and(|ours| ours.iter().any(|at| at == mount));
    let shown = format!("{}: ", mount.display());
    let why = match is_mounted {
        true => failure.line.strip_prefix(&shown).unwrap_or(&failure.line),
        false => "it was unmounted",
    };
    Failure::at(mount, format!("the mount has ended: {why}"))
}

fn part<T>(is_wanted: bool, read: impl FnOnce() -> Result<T, Failure>) -> Part<T> {
    is_wanted.then(|| read().map_err(|failure| failure.line))
}

fn json(mount: &Path, file: &str, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| {
        let what = format!(
            "its daemon writes another form of .hearth/{file}; use the 'hearth' that mounted it"
        );
        Failure::at(mount, what)
    })
}

fn tenants(mount: &Path) -> Result<Value, Failure> {
    json(mount, "sched.json", &sched::read(mount, true)?)
}

fn heat(mount: &Path, rankings: &[Ranked]) -> Result<HeatReading, Failure> {
    let status = read_json(mount, "status.json")?;
    let mut found = Vec::with_capacity(rankings.len());
    for &ranked in rankings {
        let question = match ranked {
            Ranked::Files => format!("heat map {HOTTEST} {CELLS}"),
            Ranked::Ranges => format!("heat top range accesses {HOTTEST} -"),
            Ranked::Directories => format!("heat top dir accesses {HOTTEST} -"),
        };
        match ask_json(mount, &question)? {
            Value::Array(rows) => found.push((ranked, rows)),
            _ => found.push((ranked, Vec::new())),
        }
    }
    Ok(HeatReading {
        status,
        rankings: found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A tree with the control files that a daemon of another time has.
    struct Old(std::path::PathBuf);

    impl Old {
        fn with(name: &str, files: &[(&str, &str)]) -> Old {
            let top = std::env::temp_dir().join(format!("hearth-{name}-{}", std::process::id()));
            fs::create_dir_all(top.join(".hearth")).unwrap();
            for (file, text) in files {
                fs::write(top.join(".hearth").join(file), text).unwrap();
            }
            Old(top)
        }
    }

    impl Drop for Old {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_daemon_that_lacks_a_file_is_named_and_the_rest_is_read() {
        let stats = ("stats", "hearth_inodes 7\n");
        let old = Old::with(
            "old",
            &[stats, ("version", "hearth 0.0.1\n"), ("sched.json", "{")],
        );
        let reading = read(&old.0, &Wanted::all(&[Ranked::Files])).unwrap();
        assert_eq!(reading.stats.iter().count(), 1);
        for (part, file) in [
            (reading.quota.map(|part| part.map(drop)), "ask"),
            (reading.heat.map(|part| part.map(drop)), "heat/status.json"),
            (reading.locks.map(|part| part.map(drop)), "locks.json"),
        ] {
            let why = part.unwrap().unwrap_err();
            let wanted =
                format!("there is no .hearth/{file}: its daemon is of hearth 0.0.1; mount");
            assert!(why.contains(&wanted), "{why}");
        }
        let why = reading.sched.unwrap().unwrap_err();
        assert!(why.contains("another form of .hearth/sched.json"), "{why}");
    }

    #[test]
    fn nothing_is_shown_without_statistics() {
        let other = Old::with("other", &[]);
        let why = read(&other.0, &Wanted::default()).unwrap_err().line;
        assert!(why.contains("not on a Hearth mount; 'findmnt"), "{why}");
        assert!(!why.contains('\n'), "{why}");
    }

    #[test]
    fn a_tab_reads_what_it_shows() {
        let old = Old::with("tab", &[("stats", "hearth_inodes 7\n")]);
        for tab in Tab::ALL {
            let reading = read(&old.0, &Wanted::of(tab, Ranked::Files)).unwrap();
            assert_eq!(reading.sched.is_some(), tab == Tab::Tenants);
            assert_eq!(reading.quota.is_some(), tab == Tab::Tenants);
            assert_eq!(reading.heat.is_some(), tab == Tab::Heat);
            assert_eq!(reading.locks.is_some(), tab == Tab::Locks);
        }
    }

    #[test]
    fn what_was_unmounted_meanwhile_is_told_so_and_not_what_lies_there() {
        let under = Old::with("under", &[]);
        let failure = read(&under.0, &Wanted::default()).unwrap_err();
        let said = lost(&under.0, &failure).line;
        let wanted = format!(
            "{}: the mount has ended: it was unmounted",
            under.0.display()
        );
        assert_eq!(said, wanted);
    }
}

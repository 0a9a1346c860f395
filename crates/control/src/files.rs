//! The table of control files, and how a volume gets them.

use crate::entry::{Entry, Takes};
use crate::{command, events, file_locks, heat, locks, quota, sched, stats, tunables};
use hearth::Volume;
use hearth::{ControlError, ControlFile, ControlInput, ControlStream, Credentials, Errno, Result};
use hearth_sync::primitive::Arc;

/// Adds the control files to `volume`; nothing happens if it has them.
///
/// # Errors
/// The volume refuses a file.
pub fn install(volume: &Volume) -> Result<()> {
    let files = FILES
        .iter()
        .map(|entry| Arc::new(File(entry)) as Arc<dyn ControlFile>);
    match volume.add_control_files(files.collect()) {
        Err(Errno::EEXIST) => Ok(()),
        done => done,
    }
}

/// A control file.
struct File(&'static Entry);

impl ControlFile for File {
    fn path(&self) -> &str {
        self.0.path
    }

    fn mode(&self) -> u16 {
        match (&self.0.takes, self.0.private) {
            (Takes::Command, _) => 0o666,
            (Takes::Lines(_), _) => 0o600,
            (Takes::Setting(_), _) => 0o644,
            (Takes::Nothing, false) => 0o444,
            (Takes::Nothing, true) => 0o400,
        }
    }

    fn input(&self) -> ControlInput {
        match self.0.takes {
            Takes::Nothing => ControlInput::None,
            Takes::Setting(_) => ControlInput::Setting,
            Takes::Command => ControlInput::Command,
            Takes::Lines(_) => ControlInput::Lines,
        }
    }

    fn is_slow(&self) -> bool {
        self.0.slow
    }

    fn stream(&self, volume: &Volume) -> Option<Box<dyn ControlStream>> {
        self.0.stream.map(|stream| stream(volume))
    }

    fn text(&self, volume: &Volume) -> String {
        (self.0.text)(volume)
    }

    fn set(&self, volume: &Volume, value: &[u8]) -> std::result::Result<(), ControlError> {
        let Takes::Setting(setting) = &self.0.takes else {
            return Err(Errno::EACCES.into());
        };
        let text = std::str::from_utf8(value).map_err(|_| Errno::EINVAL);
        let done = text.and_then(|text| (setting.set)(volume, text.trim()));
        done.map_err(|errno| tunables::refusal(self.0.path, setting, value, errno))
    }

    fn run(
        &self,
        volume: &Volume,
        caller: &Credentials,
        input: &str,
    ) -> std::result::Result<String, ControlError> {
        match self.0.takes {
            Takes::Command => command::run(volume, caller, input),
            Takes::Lines(take) => take(volume, input),
            Takes::Nothing | Takes::Setting(_) => Err(Errno::EACCES.into()),
        }
    }
}

static FILES: &[Entry] = &[
    Entry::new("version", version),
    Entry::new("pid", pid),
    Entry::new("ask", command::hint).takes(Takes::Command),
    // Visits every directory for its names.
    Entry::new("stats", stats::text).slow(),
    Entry::streaming("events", events::stream),
    Entry::new("quota/report.json", quota::all).private(),
    // Walks the tree for the paths of files.
    Entry::new("quota/events", quota::events).private().slow(),
    Entry::new("heat/status.json", heat::status_text),
    Entry::new("heat/top.json", heat::top_text).private().slow(),
    Entry::new("heat/ranges.json", heat::ranges_text)
        .private()
        .slow(),
    Entry::new("heat/tenants.json", heat::tenants_text)
        .private()
        .slow(),
    Entry::new("heat/histogram.json", heat::histogram_text)
        .private()
        .slow(),
    Entry::new("heat/what-if.json", heat::what_if_text)
        .private()
        .slow(),
    Entry::new("heat/map.json", heat::map_text).private().slow(),
    Entry::new("heat/import", heat::import_hint)
        .takes(Takes::Lines(heat::import))
        .private(),
    Entry::new("file-locks.json", file_locks::text)
        .private()
        .slow(),
    Entry::new("locks", locks::table).sets(locks::switch, "on, exact, off or reset"),
    Entry::new("locks.json", locks::json),
    // A line for each tenant, of whom there may be many.
    Entry::new("sched", sched::table).slow(),
    Entry::new("sched.json", sched::json).slow(),
    Entry::new("sys/help", tunables_help),
    Entry::new("sys/fs/memory-budget", tunables::memory_budget).sets(
        tunables::set_memory_budget,
        "bytes, at least 65536, or 0 for no budget",
    ),
    Entry::new("sys/fs/hot-track", tunables::hot_track).sets(tunables::set_hot_track, "0 or 1"),
    Entry::new("sys/fs/hot-update-interval", tunables::hot_update_interval)
        .sets(tunables::set_hot_update_interval, "seconds, 1 to 86400"),
    Entry::new("sys/fs/hot-half-lives", tunables::hot_half_lives).sets(
        tunables::set_hot_half_lives,
        "two numbers of seconds, 1 to 31536000, the smaller first",
    ),
    Entry::new("sys/fs/hot-mem-high-thresh", tunables::hot_mem_high_thresh).sets(
        tunables::set_hot_mem_high_thresh,
        "MiB, 1 to 1048576, or 0 for no limit",
    ),
    Entry::new("sys/fs/atime", tunables::atime)
        .sets(tunables::set_atime, "relatime, strictatime or noatime"),
    Entry::new("sys/fs/read-only", tunables::read_only).sets(tunables::set_read_only, "0 or 1"),
];

fn version(_volume: &Volume) -> String {
    format!("hearth {}\n", env!("CARGO_PKG_VERSION"))
}

/// The process that serves the volume.
fn pid(_volume: &Volume) -> String {
    format!("{}\n", std::process::id())
}

/// One line for each tunable: its name below `sys`, a tab, what it takes.
fn tunables_help(_volume: &Volume) -> String {
    let lines = FILES.iter().filter_map(|entry| match &entry.takes {
        Takes::Setting(setting) => {
            let name = entry.path.strip_prefix(tunables::SYS)?;
            Some(format!("{name}\t{}\n", setting.expected))
        }
        _ => None,
    });
    lines.collect()
}

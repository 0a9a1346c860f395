//! Mounts to measure: which program serves them, with which options; and the program `hearth`.

use crate::children::output;
use crate::mounted::Mounted;
use crate::uring_switch::switched_on;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of a mount that lets the kernel keep nothing.
pub const UNCACHED: &str =
    "entry_timeout=0,attr_timeout=0,negative_timeout=0,no_writeback,direct_io";

/// A volume in memory that `hearth` serves with these options, in the session of the benchmark.
pub fn hearth(options: &str) -> Result<Mounted, String> {
    served(options, Command::new(program()))
}

/// A volume in memory whose daemon has a session of its own, as `hearth mount` gives it in the
/// background: a kernel that shares processors between sessions (`sched_autogroup_enabled`) then
/// has daemon and client in two groups.
pub fn hearth_in_session(options: &str) -> Result<Mounted, String> {
    let mut setsid = Command::new("setsid");
    setsid.arg(program());
    served(options, setsid)
}

fn served(options: &str, mut daemon: Command) -> Result<Mounted, String> {
    // `auto` takes what it finds.
    let needs_switch = options.contains("transport=uring");
    let _on = needs_switch.then(switched_on).transpose()?;
    daemon.args(["mount", "-f", "-o", options, "memory:"]);
    let served = Mounted::served("hearth", daemon);
    served.map_err(|what| format!("{what}; it needs /dev/fuse and {}", program().display()))
}

/// The example `fuser_peer` of `hearth-fuse`: a volume behind the crate `fuser`.
pub fn peer(program: &Path, options: &str) -> Result<Mounted, String> {
    let mut daemon = Command::new(program);
    // It complains of every end that it did not bring about itself.
    daemon.stderr(Stdio::null());
    if options.is_empty() {
        return Mounted::served("fuser", daemon);
    }
    Mounted::served_with("fuser", daemon, &["-o", options])
}

/// The program `hearth`: `HEARTH_BIN`, or the one beside this program.
pub fn program() -> PathBuf {
    std::env::var_os("HEARTH_BIN").map_or_else(|| beside("hearth"), PathBuf::from)
}

/// Runs `hearth` with these words to its end; returns what it prints.
pub fn run_hearth(words: &[&str], place: &Path, more: &[&str]) -> Result<String, String> {
    output(Command::new(program()).args(words).arg(place).args(more))
}

/// An example beside this program, if it is there.
pub fn example(name: &str) -> Option<PathBuf> {
    Some(beside(&format!("examples/{name}"))).filter(|path| path.is_file())
}

/// A program beside this one.
pub fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(&own).join(name)
}

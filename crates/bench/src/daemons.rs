//! Mounts to measure: which program serves them, with which options.

use crate::compare::Contestant;
use crate::mounted::Mounted;
use crate::uring_switch::switched_on;
use std::path::PathBuf;
use std::process::Command;

/// A mount that is made anew for every run.
pub type Each<'a> = Contestant<'a, Mounted>;

/// Hearth with these options, in the session of the benchmark.
pub fn hearth<'a>(name: &'a str, options: String) -> Each<'a> {
    hearth_by(name, options, || Command::new(program()))
}

/// With the daemon in a session of its own.
pub fn hearth_in_session<'a>(name: &'a str, options: &str) -> Each<'a> {
    hearth_by(name, options.to_owned(), || {
        let mut setsid = Command::new("setsid");
        setsid.arg(program());
        setsid
    })
}

fn hearth_by<'a>(name: &'a str, options: String, start: fn() -> Command) -> Each<'a> {
    let make = move || {
        let needs_switch = options.contains("transport=uring");
        let _on = needs_switch.then(switched_on).transpose()?;
        Mounted::served(name, &|mountpoint| {
            let mut daemon = start();
            daemon
                .args(["mount", "-f", "-o", &options, "memory:"])
                .arg(mountpoint);
            daemon
        })
    };
    Contestant {
        name,
        make: Box::new(make),
    }
}

/// The program `hearth`: `HEARTH_BIN`, or the one beside this program.
pub fn program() -> PathBuf {
    std::env::var_os("HEARTH_BIN").map_or_else(|| beside("hearth"), PathBuf::from)
}

/// An example beside this program, if it is there.
pub fn example(name: &str) -> Option<PathBuf> {
    Some(beside(&format!("examples/{name}"))).filter(|path| path.is_file())
}

fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().unwrap_or(&own).join(name)
}

//! A volume in a directory that is killed, and whose disk loses its power.

// Each suite is a program of its own and uses a part of this.
#![allow(dead_code)]

use crate::harness::{Said, hearth, said};
use hearth_testing::forgetting::{Forgetting, Options};
use hearth_testing::place::Place;
use hearth_testing::rounds::{Cut, Daemon};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the volume in a directory is named.
pub fn source(kept: &Path) -> String {
    format!("store:{}", kept.display())
}

/// `hearth mount` in the foreground, which makes the volume if there is none.
pub fn daemon(kept: &Path, mount: &Path) -> Daemon {
    daemon_with(kept, mount, "create,transport=dev")
}

/// As [`daemon`], with these options.
pub fn daemon_with(kept: &Path, mount: &Path, options: &str) -> Daemon {
    let (source, at, options) = (source(kept), mount.to_owned(), options.to_owned());
    Daemon::new(mount, move || {
        let mut daemon = hearth();
        daemon
            .args(["mount", "-f", "-o", &options, &source])
            .arg(&at);
        daemon
    })
}

/// A volume on a disk that forgets what was not synced; one that `journals` keeps all names with
/// any sync.
pub fn on_a_forgetting_disk(place: &Place, journals: bool) -> (Cut<Forgetting>, PathBuf) {
    let directory = |name| place.directory(name).expect("a directory");
    let (below, disk, mount) = (directory("below"), directory("disk"), directory("mount"));
    let options = Options {
        journals,
        ..Options::default()
    };
    let forgetting = Forgetting::mount(&below, &disk, options);
    let disk_of_it = forgetting.expect("the forgetting filesystem is mounted");
    let kept = disk.join("s");
    let service = Cut {
        daemon: daemon(&kept, &mount),
        disk: disk_of_it,
    };
    (service, kept)
}

/// `hearth fsck` and `hearth quota check` find nothing.
pub fn check(kept: &Path, mount: &Path) -> Result<(), String> {
    for mut command in [
        with(hearth(), &["fsck"], kept),
        with(hearth(), &["quota", "check"], mount),
    ] {
        let said = said(&mut command);
        if !said.success() {
            return Err(format!("{command:?}: {said:?}"));
        }
    }
    Ok(())
}

/// A refusal: status 1 or 2, one line, which names what `part` says.
pub fn one_line(said: &Said, part: &str) {
    assert!(!said.success(), "it was not refused: {said:?}");
    assert_eq!(said.err.trim().lines().count(), 1, "{said:?}");
    assert!(said.err.contains(part), "{said:?}");
    assert!(!said.err.contains("panicked"), "{said:?}");
}

fn with(mut command: Command, words: &[&str], path: &Path) -> Command {
    command.args(words).arg(path);
    command
}

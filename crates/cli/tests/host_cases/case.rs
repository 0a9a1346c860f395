//! The stage of a case: a directory, and the mount over another one like it.

use crate::harness::{Below, Mounted, Transport, program, said, succeed, until};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Longer than the kernel believes anything.
pub const WAIT: Duration = Duration::from_millis(1_100);

/// A directory, and the mount over another one like it.
pub struct Case {
    // Dropped first: it is mounted over `below`.
    pub mounted: Mounted,
    pub below: Below,
    native: Below,
}

/// What scripts use. `S` is the directory and `M` the mount over it; on the directory itself both
/// are the directory. `U` and `V` are two users.
const WORDS: &str = r#"
U() { setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }
V() { setpriv --reuid 1001 --regid 1001 --clear-groups "$@"; }
G() { setpriv --reuid 1000 --regid 1000 --groups "$@"; }
# What a command says, or why it fails: the last part of its last line.
try() {
    local said status=0
    said=$("$@" 2>&1) || status=$?
    if [ $status = 0 ]; then echo "ok $said"; else echo "no $status ${said##*: }"; fi
}
pause() { sleep 1.1; }
"#;

impl Case {
    /// Two filesystems of one kind, and a mount over one of them.
    pub fn on(make: fn() -> Below) -> Case {
        Case::of(make(), make())
    }

    /// A mount over this filesystem, and one in memory beside.
    pub fn over(below: Below) -> Case {
        Case::of(below, Below::tmpfs())
    }

    /// `HEARTH_OPTIONS` are more options of the mount, such as `passthrough=off`.
    fn of(below: Below, native: Below) -> Case {
        let options = std::env::var("HEARTH_OPTIONS").unwrap_or_default();
        let mounted = Mounted::over(Transport::Dev, below.path(), &options);
        Case {
            mounted,
            below,
            native,
        }
    }

    /// Runs a script in a new directory of each, which everybody may write to: it says the same.
    /// What it said.
    pub fn agrees(&self, name: &str, script: &str) -> String {
        for place in [self.native.path(), self.below.path()] {
            let directory = place.join(name);
            std::fs::create_dir(&directory).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
            std::fs::set_permissions(directory, mode).unwrap();
        }
        let native = self.native.path().join(name);
        let expected = succeed(&mut run(&native, &native, script));
        let found = said(&mut self.script(name, script));
        assert!(
            found.success() && found.out == expected,
            "{name}: the directory says\n{expected}\nthe mount says\n{}{}",
            found.out,
            found.err
        );
        expected
    }

    /// Takes off what was mounted over each of the filesystems.
    pub fn uncovered(&self) {
        for place in [self.native.path(), self.below.path()] {
            let umount = || said(program("umount").arg(place)).success();
            until("the cover goes", umount);
        }
    }

    /// A script in the directory `name` of the mount.
    pub fn script(&self, name: &str, script: &str) -> Command {
        run(&self.below.at(name), &self.mounted.at(name), script)
    }
}

/// A script of bash with the words above, ended by the first command that fails.
pub fn run(below: &Path, mounted: &Path, script: &str) -> Command {
    let mut bash = program("bash");
    bash.args(["-euo", "pipefail", "-c", &format!("{WORDS}{script}")]);
    bash.env("LC_ALL", "C").env("S", below).env("M", mounted);
    bash.current_dir(mounted);
    bash
}

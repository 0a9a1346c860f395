//! `cargo xtask demo`: a volume is mounted, ordinary programs use it, and it is unmounted.

use crate::{install, place, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the demonstration does on the mount, one shell command a line.
const SESSION: &[&str] = &[
    "git init --quiet --initial-branch=main project",
    "echo 'int main(void) { return 0; }' > project/main.c",
    "git -C project add main.c",
    "git -C project -c user.name=demo -c user.email=demo@example.org commit --quiet -m 'first'",
    "git -C project log --oneline",
    "gcc -o project/main project/main.c && project/main && echo 'compiled and ran'",
    "mkdir many && (cd many && touch $(seq 1 1000)) && ls many | wc -l | grep -x 1000",
    "setfattr -n user.colour -v green project/main.c && getfattr -d project/main.c",
    "df -h .",
    "cat .hearth/version",
];

/// Installs, builds, mounts, shows, unmounts.
pub fn run() -> Result<(), String> {
    install::packages(|program| needs(program, process::is_root()))?;
    process::run(process::cargo().args(["build", "--package", "hearth-cli"]))?;
    let hearth = place::target().join("debug/hearth");
    let demo = Demo::start(hearth)?;
    for line in SESSION {
        demo.shell(line)?;
    }
    demo.hearth("stats")?;
    demo.end()
}

/// Whether the demonstration starts this program; root mounts without a helper.
fn needs(program: &str, is_root: bool) -> bool {
    let starts = |line: &&str| line.split([' ', '(', ')']).any(|word| word == program);
    SESSION.iter().any(starts) || (program == "fusermount3" && !is_root)
}

/// A mount in a directory of its own; dropping it takes both away.
struct Demo {
    hearth: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

impl Demo {
    fn start(hearth: PathBuf) -> Result<Demo, String> {
        let name = format!("hearth-demo-{}", std::process::id());
        let mount = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&mount).map_err(|e| format!("{}: {e}", mount.display()))?;
        let mut demo = Demo {
            hearth,
            mount,
            mounted: false,
        };
        demo.hearth("mount")?;
        demo.mounted = true;
        Ok(demo)
    }

    /// `hearth VERB MOUNT`.
    fn hearth(&self, verb: &str) -> Result<(), String> {
        process::run(Command::new(&self.hearth).arg(verb).arg(&self.mount))
    }

    fn shell(&self, line: &str) -> Result<(), String> {
        println!("$ {line}");
        let status = shell_in(&self.mount, line).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{line}` ended with {status}")),
            Err(error) => Err(format!("`{line}` cannot be started: {error}")),
        }
    }

    fn end(mut self) -> Result<(), String> {
        self.hearth("umount")?;
        self.mounted = false;
        println!("the demonstration is over; nothing is left mounted");
        Ok(())
    }
}

fn shell_in(dir: &Path, line: &str) -> Command {
    let mut shell = Command::new("bash");
    shell.args(["-euc", line]).current_dir(dir);
    shell
}

impl Drop for Demo {
    fn drop(&mut self) {
        if self.mounted {
            let unmounted = Command::new("umount").arg("-l").arg(&self.mount).status();
            if !unmounted.is_ok_and(|status| status.success()) {
                eprintln!("still mounted: {}", self.mount.display());
            }
        }
        if let Err(error) = std::fs::remove_dir(&self.mount) {
            eprintln!("{}: {error}", self.mount.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_session_starts_is_installed() {
        let needed = |is_root| -> Vec<&str> {
            let programs = install::programs();
            programs.filter(|program| needs(program, is_root)).collect()
        };
        assert_eq!(needed(true), ["setfattr", "git", "gcc"]);
        assert_eq!(needed(false), ["fusermount3", "setfattr", "git", "gcc"]);
    }
}

//! N users at once.

use super::home;
use super::script::{Multiset, PATH};
use crate::children::{Spent, at_once};
use crate::failure::Context;
use crate::target::Subdirectory;
use crate::watchdog::{beat, patiently};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The user number 0 of the benchmark, where it may be somebody else.
const FIRST_USER: u32 = 20_000;

/// What one script may take on a machine that others use as well.
const PATIENCE: Duration = Duration::from_secs(10);

/// Users whose homes stand ready.
pub struct Users<'a> {
    place: Subdirectory,
    set: &'a Multiset,
    users: usize,
}

impl<'a> Users<'a> {
    /// Makes the homes of `users` users in a fresh directory in `place`.
    pub fn new(place: &Path, set: &'a Multiset, users: usize) -> Result<Users<'a>, String> {
        let users = Users {
            place: Subdirectory::new(place, false)?,
            set,
            users,
        };
        let made = users.make_homes();
        made.at(users.place.path())?;
        Ok(users)
    }

    /// Runs all scripts at once and looks at what they leave.
    pub fn run(&self, daemon: Option<u32>) -> Result<Spent, String> {
        // They all end at about the same time, late where there are many.
        let limit = PATIENCE * self.users as u32;
        let shells = (0..self.users).map(|user| self.shell(user));
        let (outputs, spent) = patiently(limit, || at_once(shells, daemon))?;
        let failed = |(_, output): &(usize, &Output)| !output.status.success();
        if let Some((user, output)) = outputs.iter().enumerate().find(failed) {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            let status = output.status;
            return Err(format!("the script of user {user}: {status}: {last}"));
        }
        self.check().map(|()| spent)
    }

    /// Every home must have what the first one has: their scripts differ in their order only.
    fn check(&self) -> Result<(), String> {
        let contents = |user: usize| {
            let home = self.home(user);
            home::contents(&home).at(&home)
        };
        let first = contents(0)?;
        let was_touched = first
            .iter()
            .any(|(name, _)| name.starts_with("out/touch.1"));
        if !was_touched || first.iter().any(|(name, _)| name == Path::new("old/1")) {
            return Err("user 0 has not done what the script says".to_owned());
        }
        for user in 1..self.users {
            let own = contents(user)?;
            if let Some((one, other)) = first.iter().zip(&own).find(|(a, b)| a != b) {
                return Err(format!(
                    "user {user} has {other:?} where user 0 has {one:?}"
                ));
            }
            if own.len() != first.len() {
                return Err(format!(
                    "user {user} has {} things, user 0 {}",
                    own.len(),
                    first.len()
                ));
            }
            beat();
        }
        Ok(())
    }

    fn make_homes(&self) -> std::io::Result<()> {
        let shared = self.place.path().join("tmp");
        std::fs::create_dir(&shared)?;
        let sticky = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(&shared, sticky)?;
        for user in 0..self.users {
            let home = self.home(user);
            home::clone_to(&home, uid(user))?;
            std::fs::write(home.join("script"), self.set.script(user as u64))?;
            beat();
        }
        // So that what was written here is not written back while the scripts run.
        let place = std::fs::File::open(self.place.path())?;
        Ok(rustix::fs::syncfs(place)?)
    }

    fn home(&self, user: usize) -> std::path::PathBuf {
        self.place.path().join(format!("user-{user}"))
    }

    fn shell(&self, user: usize) -> Command {
        let home = self.home(user);
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-e", "script"])
            .env_clear()
            // Like everybody's: one's own programs first, so that a look at home comes first.
            .env("PATH", format!("{}/bin:{PATH}", home.display()))
            .env("TMPDIR", self.place.path().join("tmp"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("HOME", &home)
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(uid) = uid(user) {
            shell.uid(uid).gid(uid);
        }
        shell
    }
}

/// Users of their own, where this program may start them.
fn uid(user: usize) -> Option<u32> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(|| FIRST_USER + user as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> std::path::PathBuf {
        std::env::temp_dir()
    }

    #[test]
    fn users_run_their_scripts_side_by_side_and_leave_the_same() {
        let mut set = Multiset::published(true).unwrap();
        set.leave_out(super::super::script::is_installed);
        let users = Users::new(&place(), &set, 3).unwrap();
        let elapsed = users.run(None).unwrap();
        assert!(elapsed.seconds > 0.0 && elapsed.cpu.total() > 0.0);
        let left = home::contents(&users.home(0)).unwrap();
        let size = |name: &str| left.iter().find(|(path, _)| path == Path::new(name));
        // What the commands printed, not only that they ran.
        assert_eq!(size("out/expr.1").unwrap().1, Some("21\n".len() as u64));
        assert!(size("out/cat.1").unwrap().1.unwrap() > 10_000);
        assert!(size("moved/1").is_some() && size("move/1").is_none());
        assert!(size("empty/1").is_none() && size("new/1/deep/er").is_some());
    }

    #[test]
    fn a_command_that_fails_and_a_file_that_is_lost_are_noticed() {
        let mut set = Multiset::published(true).unwrap();
        set.leave_out(super::super::script::is_installed);
        let users = Users::new(&place(), &set, 2).unwrap();
        std::fs::remove_file(users.home(1).join("old/1")).unwrap();
        let said = users.run(None).unwrap_err();
        assert!(said.contains("user 1") && said.contains("old/1"), "{said}");
        let users = Users::new(&place(), &set, 2).unwrap();
        users.run(None).unwrap();
        std::fs::remove_file(users.home(1).join("doc/notes.txt")).unwrap();
        let said = users.check().unwrap_err();
        assert!(said.contains("user 1 has"), "{said}");
    }
}

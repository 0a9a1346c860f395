//! A directory of a test's own, with a volume that outlives its mounts.

use crate::harness::{
    Private, Said, demand_root, hearth, kill, pids_naming, program, said, succeed, until,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with a volume `v` and a mount point `m`.
pub struct Place {
    private: Private,
}

impl Place {
    /// A mount point alone.
    pub fn new() -> Place {
        demand_root();
        let private = Private::new();
        private.directory("m");
        Place { private }
    }

    /// With a volume of these options.
    pub fn with_volume(options: &str) -> Place {
        let place = Place::new();
        let mut mkfs = place.hearth("mkfs store:v");
        if !options.is_empty() {
            mkfs.args(["-o", options]);
        }
        succeed(&mut mkfs);
        place
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.private.path()
    }

    /// A path in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes a directory in it.
    pub fn directory(&self, name: &str) {
        self.private.directory(name);
    }

    /// The program with these words, in the directory.
    pub fn hearth(&self, typed: &str) -> Command {
        let mut command = hearth();
        command.args(typed.split(' ')).current_dir(self.path());
        command
    }

    /// Mounts a source at `m`.
    pub fn mount(&self, source: &str, options: &str) {
        let mut mount = self.hearth("mount --log log");
        let options = format!("transport=dev,{options}");
        mount.args(["-o", options.trim_end_matches(','), source]);
        // By this path the daemon is found again.
        succeed(mount.arg(self.at("m")));
    }

    /// Unmounts it, and waits for the daemon.
    pub fn unmount(&self) {
        succeed(&mut self.hearth("umount m"));
        self.until_gone();
    }

    /// Waits until the daemon has ended.
    pub fn until_gone(&self) {
        let place = self.at("m");
        until("the daemon ends", || pids_naming(&place).is_empty());
    }

    /// Kills the daemon, and takes the mount away.
    pub fn kill(&self) {
        let daemons = pids_naming(&self.at("m"));
        assert_eq!(daemons.len(), 1, "the daemon is found");
        daemons.into_iter().for_each(kill);
        self.until_gone();
        succeed(program("umount").arg("-l").arg(self.at("m")));
    }

    /// What the program says to these words.
    pub fn say(&self, typed: &str) -> Said {
        said(&mut self.hearth(typed))
    }

    /// What it says where it does what it is asked.
    pub fn done(&self, typed: &str) -> Said {
        let said = self.say(typed);
        assert!(said.success(), "{typed}: {said:?}");
        said
    }
}

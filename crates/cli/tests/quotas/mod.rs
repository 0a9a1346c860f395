//! `hearth quota` on a mount: what is typed, and what it answers.

// Each suite is a program of its own and uses a part of this.
#![allow(dead_code)]

use crate::harness::{Mounted, Said, Transport, hearth, program, said};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A user without a name.
pub const USER: u32 = 1234;

/// Runs `hearth quota`; `@` is the mount point.
pub fn quota(mounted: &Mounted, typed: &str) -> Said {
    said(&mut command(mounted, hearth(), typed))
}

/// Runs `hearth quota` as another user.
pub fn quota_as(uid: u32, mounted: &Mounted, typed: &str) -> Said {
    let hearth = hearth();
    let mut command_of_user = as_user(uid);
    command_of_user.arg(hearth.get_program());
    said(&mut command(mounted, command_of_user, typed))
}

pub fn command(mounted: &Mounted, mut command: Command, typed: &str) -> Command {
    let mount = mounted.path().to_str().unwrap();
    command.arg("quota");
    command.args(typed.split(' ').map(|word| word.replace('@', mount)));
    command
}

/// Has to work; what it printed.
pub fn done(mounted: &Mounted, typed: &str) -> String {
    let said = quota(mounted, typed);
    assert!(said.success(), "hearth quota {typed}: {said:?}");
    said.out
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Record of `kind:id`.
pub fn record(mounted: &Mounted, who: &str) -> Value {
    json(&done(mounted, &format!("get {who} --json @")))["records"][0].clone()
}

/// Use in bytes and inodes.
pub fn used(mounted: &Mounted, who: &str) -> (u64, u64) {
    let record = record(mounted, who);
    let used = |resource: &str| record[resource]["used"].as_u64().unwrap();
    (used("bytes"), used("inodes"))
}

pub fn as_user(uid: u32) -> Command {
    let mut command = program("setpriv");
    let uid = uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]);
    command
}

/// Runs a script as another user in `directory`.
pub fn user_shell(uid: u32, directory: &Path, script: &str) -> Said {
    let mut command = as_user(uid);
    command.env("LC_ALL", "C").args(["bash", "-c", script]);
    command.current_dir(directory);
    said(&mut command)
}

/// A volume with a directory `d` for everybody.
pub fn volume(transport: Transport, options: &str) -> Mounted {
    let mounted = Mounted::new(transport, options);
    mounted.shell("mkdir d; chmod 1777 d");
    mounted
}

/// Did not work: one line that has `words` in it.
pub fn refused(typed: &str, said: &Said, status: i32, words: &[&str]) {
    assert_eq!(said.status.code(), Some(status), "{typed}: {said:?}");
    assert!(said.out.is_empty(), "{typed}: {said:?}");
    let is_line = said.err.starts_with("hearth: ") && said.err.lines().count() == 1;
    assert!(is_line, "{typed}: {said:?}");
    for word in words {
        assert!(said.err.contains(word), "{typed}: no {word:?} in {said:?}");
    }
}

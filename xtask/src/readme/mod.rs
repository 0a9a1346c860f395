//! `cargo xtask readme`: runs every command of the README and compares what it prints with what the
//! README shows. With `--write` the README shows what was printed.
//!
//! The commands run in a mount namespace of their own with empty `/mnt`, `/srv`, `/home` and
//! `/var/lib`, so that its paths are those of the README and nothing of the machine is changed.

mod blocks;
mod likeness;

use crate::{demo, install, place, process};
use blocks::{Block, Shown};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is tried elsewhere: `cargo xtask test` runs the first two as itself and as a part, and
/// builds what the third installs.
const ELSEWHERE: &[&str] = &["cargo xtask", "cargo install"];

/// Starts the output of one command; followed by its number.
const BEGIN: &str = "@@begin ";
/// Ends it; followed by the exit status.
const END: &str = "@@end ";

/// How long one command may take. What watches for ever is ended after [`WATCHED`].
const PATIENCE: &str = "60";
const WATCHED: &str = "2";
/// The exit status of what was ended.
const STOPPED: i32 = 124;

/// What was run.
struct Ran {
    output: Vec<String>,
    status: i32,
}

/// Runs the README and compares, or writes.
///
/// # Errors
/// A command failed that the README does not show to fail, or printed something else.
pub fn run(args: &[String]) -> Result<(), String> {
    let writes = match args {
        [] => false,
        [one] if one == "--write" => true,
        _ => return Err("use `cargo xtask readme` or `cargo xtask readme --write`".into()),
    };
    install::packages(|program| ["git", "gcc", "fusermount3"].contains(&program))?;
    process::build_program()?;
    let path = place::root().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("README.md: {error}"))?;
    let blocks = blocks::of(&text);
    is_first_screen(&blocks)?;
    let commands: Vec<&Shown> = blocks.iter().flat_map(|block| &block.commands).collect();
    let ran = session(&commands)?;
    let mut wrong = Vec::new();
    for (shown, ran) in commands.iter().zip(&ran) {
        if let Err(what) = compared(shown, ran) {
            let printed = ran.output.join("\n  ");
            wrong.push(format!(
                "line {}: `{}`: {what}; it printed\n  {printed}",
                shown.line, shown.command
            ));
        }
    }
    if writes {
        let text = blocks::with_outputs(&text, &blocks, ran.into_iter().map(|ran| ran.output));
        return fs::write(&path, text).map_err(|error| format!("README.md: {error}"));
    }
    match wrong.is_empty() {
        true => {
            println!("README.md: {} commands print what it shows", commands.len());
            Ok(())
        }
        false => Err(format!("README.md:\n{}", wrong.join("\n"))),
    }
}

/// The README begins with what the demonstration shows.
fn is_first_screen(blocks: &[Block]) -> Result<(), String> {
    let first = blocks
        .first()
        .map(|block| &block.commands[..])
        .unwrap_or_default();
    let is_same = first
        .iter()
        .map(|shown| &*shown.command)
        .eq(demo::FIRST_SCREEN);
    match is_same {
        true => Ok(()),
        false => Err("README.md does not begin with the commands of `cargo xtask demo`".into()),
    }
}

fn compared(shown: &Shown, ran: &Ran) -> Result<(), String> {
    let is_well = ran.status == 0 || (shown.watches() && ran.status == STOPPED);
    if !is_well && shown.output.is_empty() {
        return Err(format!("exit status {}", ran.status));
    }
    // A command whose output is not shown may print what it likes.
    match shown.output.is_empty() {
        true => Ok(()),
        false => likeness::check(&shown.output, &ran.output),
    }
}

/// Runs the commands in one shell; what each printed.
fn session(commands: &[&Shown]) -> Result<Vec<Ran>, String> {
    let mut script = String::from(PREPARE);
    for line in demo::BEFORE {
        script += &format!("{line}\n");
    }
    let work = demo::WORK.join("\n");
    for (number, shown) in commands.iter().enumerate() {
        if number == 1 {
            script += &work;
        }
        if number == demo::FIRST_SCREEN.len() - 1 {
            script += "\ncd data/run";
        }
        let line = match shown.watches() {
            true => format!("timeout -s INT {WATCHED} {}", shown.command),
            false => shown.command.clone(),
        };
        script += &format!("\necho '{BEGIN}{number}'\n{line}\necho \"{END}$?\"\n");
        if number == demo::FIRST_SCREEN.len() - 1 {
            script += "cd ../.. && hearth umount ./mnt && cd /home/me\n";
        }
    }
    let printed = in_namespace(&script)?;
    let ran = split(&printed);
    match ran.len() == commands.len() {
        true => Ok(ran),
        false => Err(format!("the commands ended early:\n{printed}")),
    }
}

/// Empty places for the paths of the README, and what it takes to be there.
const PREPARE: &str = "\
exec 2>&1 </dev/null
set -u
for place in /mnt /srv /home /var/lib; do mount -t tmpfs tmpfs $place || exit 1; done
mkdir -p /srv/data/src /home/me/project /home/me/demo
echo 'int main(void) { return 0; }' > /srv/data/src/main.c
printf 'all: main\\nmain: main.c\\n\\tgcc -o main main.c\\n' > /home/me/project/Makefile
cp /srv/data/src/main.c /home/me/project
cd /home/me/demo
";

fn in_namespace(script: &str) -> Result<String, String> {
    let known = std::env::var_os("PATH").unwrap_or_default();
    let programs = place::target().join("debug");
    let all = std::iter::once(programs).chain(std::env::split_paths(&known));
    let path = std::env::join_paths(all).map_err(|error| format!("PATH: {error}"))?;
    let mut command = Command::new("timeout");
    command.args([
        PATIENCE,
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
    ]);
    if !process::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--mount-proc", "bash", "-c", script])
        .env("PATH", path)
        .env("HOME", "/home/me")
        .env("COLUMNS", "100")
        .current_dir(Path::new("/"))
        .stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!(
            "the commands ended with {}:\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn split(printed: &str) -> Vec<Ran> {
    let mut ran = Vec::new();
    let mut output = None;
    for line in printed.lines() {
        if line.starts_with(BEGIN) {
            output = Some(Vec::new());
        } else if let Some((before, status)) = line.split_once(END) {
            let mut output = output.take().unwrap_or_default();
            if !before.is_empty() {
                output.push(before.to_owned());
            }
            let status = status.trim().parse().unwrap_or(-1);
            ran.push(Ran { output, status });
        } else if let Some(output) = &mut output {
            output.push(line.to_owned());
        }
    }
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_printed_ends_with_its_status_also_within_a_line() {
        let ran = split("noise\n@@begin 0\none\n@@end 0\nmore\n@@begin 1\nhalf@@end 3\n");
        assert_eq!(ran.len(), 2);
        assert_eq!(
            (&ran[0].output[..], ran[0].status),
            (&["one".to_owned()][..], 0)
        );
        assert_eq!(
            (&ran[1].output[..], ran[1].status),
            (&["half".to_owned()][..], 3)
        );
    }

    #[test]
    fn a_failure_passes_only_where_it_is_shown() {
        let shown = |output: &[&str]| Shown {
            line: 1,
            command: "false".into(),
            output: output.iter().map(|&line| line.to_owned()).collect(),
        };
        let ran = |output: &[&str], status| Ran {
            output: output.iter().map(|&line| line.to_owned()).collect(),
            status,
        };
        assert!(compared(&shown(&[]), &ran(&["x"], 0)).is_ok());
        assert!(compared(&shown(&[]), &ran(&["x"], 1)).is_err());
        assert!(compared(&shown(&["no"]), &ran(&["no"], 1)).is_ok());
        assert!(compared(&shown(&["no"]), &ran(&["yes"], 0)).is_err());
    }
}

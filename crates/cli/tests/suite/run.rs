//! `hearth run`: a program in a directory that is served meanwhile, as root and as another user.

use crate::harness;

use harness::{
    Private, Said, demand_root, hearth, mounts_below, pids_naming, refused, said, until,
    with_devices,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts a program as an ordinary user.
pub const AS_USER: &str = "setpriv --reuid daemon --regid daemon --clear-groups";
pub const AS_ROOT: &str = "";
/// Makes the device, open to every user.
pub const OPEN_DEVICE: &str = "mknod -m 666 /dev/fuse c 10 229";

/// A directory of its own for a program, and whose it is.
pub struct Ground {
    pub private: Private,
    pub work: PathBuf,
    pub who: &'static str,
}

impl Ground {
    pub fn of(who: &'static str) -> Ground {
        demand_root();
        let private = Private::new();
        let work = private.directory("w");
        if who == AS_USER {
            let daemon = nix_id("daemon");
            std::os::unix::fs::chown(&work, Some(daemon), Some(daemon)).unwrap();
        }
        Ground { private, work, who }
    }

    /// `hearth run` with what is typed behind it.
    pub fn command(&self, typed: &str) -> Command {
        let who = self.who;
        let script = format!("cd w; {who} \"$HEARTH\" run {typed}");
        with_devices(&self.private, OPEN_DEVICE, &script)
    }

    pub fn run(&self, typed: &str) -> Said {
        let said = said(&mut self.command(typed));
        self.is_clean();
        said
    }

    /// A program that runs until it is killed, whose word `up` has come.
    pub fn start(&self, script: &str) -> Child {
        let typed = format!("-- sh -c '{script}'");
        let mut command = self.command(&typed);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        until("the program is up", || self.work.join("up").exists());
        child
    }

    /// Nothing is mounted, and no process of a run is left.
    pub fn is_clean(&self) {
        assert_eq!(mounts_below(self.private.path()), Vec::<PathBuf>::new());
        until("no process is left", || pids_naming(&self.work).is_empty());
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work.join(name)).unwrap_or_default()
    }
}

fn nix_id(user: &str) -> u32 {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with(user)).unwrap();
    line.split(':').nth(2).unwrap().parse().unwrap()
}

/// The process of a run below `above` that is called by `words`: those of Hearth by their verb,
/// others by how they begin.
pub fn process_of(above: u32, words: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{above}/task/{above}/children"));
    for child in children.unwrap_or_default().split_whitespace() {
        let child: u32 = child.parse().unwrap();
        let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_verb = words.starts_with("run") && !line.starts_with("bash");
        if line.starts_with(words) || is_verb && line.contains(words) {
            return Some(child);
        }
        if let Some(found) = process_of(child, words) {
            return Some(found);
        }
    }
    None
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

fn is_gone(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.is_empty() || status.contains(") Z ")
}

#[test]
fn a_program_works_in_a_served_directory_and_plain_files_are_left() {
    for who in [AS_ROOT, AS_USER] {
        let ground = Ground::of(who);
        fs::write(ground.work.join("there"), "before").unwrap();
        let said = ground.run(
            "-- sh -c 'cat there; echo new > made; stat -f -c %T . > type; \
             readlink /proc/self > own; id -u > uid; exit 3'",
        );
        assert_eq!(
            (said.status.code(), &*said.out),
            (Some(3), "before"),
            "{said:?}"
        );
        assert_eq!(
            (&*ground.read("made"), &*ground.read("type")),
            ("new\n", "fuseblk\n")
        );
        // `/proc` is that of the program's own PIDs.
        let own: u32 = ground.read("own").trim().parse().unwrap();
        assert!(own < 100, "process {own}");
        let owner = fs::metadata(ground.work.join("made")).unwrap().uid();
        assert_eq!(ground.read("uid").trim(), owner.to_string());
        let told = said.err.contains("operations") && said.err.contains("create");
        assert!(told, "{}", said.err);
    }
}

#[test]
fn the_summary_is_json_when_asked_and_is_of_this_run_only() {
    let ground = Ground::of(AS_ROOT);
    ground.run("true");
    let said = ground.run("--json -- sh -c 'for n in 1 2 3; do echo > f$n; done'");
    let summary = summary(&said);
    let operations = summary["operations"].as_array().unwrap();
    let of = |name: &str| operations.iter().find(|one| one["name"] == name);
    assert_eq!(of("create").unwrap()["count"], 3, "{summary}");
    assert_eq!(summary["directory"], ground.work.to_str().unwrap());
}

#[test]
fn a_write_over_the_limit_is_refused_at_the_byte_and_the_summary_says_so() {
    for who in [AS_ROOT, AS_USER] {
        let ground = Ground::of(who);
        fs::write(ground.work.join("there"), vec![b'x'; 64 << 10]).unwrap();
        let said = ground.run(
            "--json --limit 1MiB -- sh -c 'df -B1 --output=size . | tail -1; \
             yes | head -c 4000000 > big 2> /dev/null; exit 0'",
        );
        assert_eq!(said.out.trim(), (1 << 20).to_string(), "{said:?}");
        // What was there counts; not one block less than the rest was written.
        let big = fs::metadata(ground.work.join("big")).unwrap().len();
        assert_eq!(big, (1 << 20) - (64 << 10), "{said:?}");
        let summary = summary(&said);
        assert_eq!(summary["bytes"]["used"], 1 << 20, "{summary}");
        assert_eq!(summary["refused"][0]["resource"], "bytes", "{summary}");
        let at = &summary["refused_at"][0];
        let of = (&at["path"], &at["resource"]);
        assert_eq!(of, (&"/big".into(), &"bytes".into()), "{summary}");
        assert!(at["times"].as_u64() > Some(0), "{summary}");
        assert!(summary["waited_seconds"].as_f64() > Some(0.0), "{summary}");
        let range = &summary["ranges"][0];
        assert_eq!(
            (&range["path"], &range["start"]),
            (&"/big".into(), &0.into())
        );
        assert_eq!(summary["files"][0]["path"], "/big", "{summary}");
    }
}

/// It runs as the owner of the volume, who may set everything else.
#[test]
fn the_program_does_not_lift_the_limits_that_it_runs_under() {
    for who in [AS_ROOT, AS_USER] {
        let ground = Ground::of(who);
        let said = ground.run(
            "--json --limit 64KiB --inodes 20 -- sh -c '\
             for hard in none 1G; do \"$HEARTH\" quota set volume --hard $hard . 2>> why; done; \
             \"$HEARTH\" quota set volume --inodes-hard 100 . 2>> why; \
             \"$HEARTH\" quota set user:1234 --hard 1G . > /dev/null || exit 9; \
             yes | head -c 200000 > b 2> /dev/null; exit 0'",
        );
        assert!(said.success(), "{said:?}");
        let why = ground.read("why");
        let fixed = why.matches("volume: its limits are fixed").count();
        assert_eq!((fixed, why.lines().count()), (3, 3), "{why}");
        let summary = summary(&said);
        for (what, limit) in [("bytes", 64 << 10), ("inodes", 20)] {
            assert_eq!(summary[what]["limit"], limit, "{summary}");
        }
        assert_eq!(summary["bytes"]["used"], 64 << 10, "{summary}");
    }
}

#[test]
fn inodes_over_the_limit_are_refused_and_nothing_is_when_it_only_looks() {
    let ground = Ground::of(AS_USER);
    let many = "-- sh -c 'for n in 1 2 3 4 5 6 7 8 9; do touch f$n || exit 9; done'";
    let limited = ground.run(&format!("--inodes 5 {many}"));
    assert_eq!(limited.status.code(), Some(9), "{limited:?}");
    // The directory is one of them.
    assert_eq!(fs::read_dir(&ground.work).unwrap().count(), 4);
    assert!(
        limited.err.contains("5 of 5") && limited.err.contains("refused"),
        "{limited:?}"
    );
    let lines = ["with 5 in use, in /\n", "\n  waited  "];
    let missing = lines.iter().find(|line| !limited.err.contains(**line));
    assert_eq!(missing, None, "{limited:?}");
    let observed = ground.run(&format!("--json --observe {many}"));
    assert!(observed.success(), "{observed:?}");
    assert!(summary(&observed)["operations"].is_array());
    let both = ground.run("--observe --limit 1MiB true");
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

/// Once, each was counted for the attempt and for the one that a front end makes after it.
#[test]
fn each_refusal_is_counted_once() {
    let ground = Ground::of(AS_ROOT);
    let said = ground.run(
        "--json --limit 1MiB --inodes 3 -- sh -c 'yes | head -c 1048576 > full; touch second; \
         for n in 1 2 3 4 5; do yes | head -c 4096 >> second; touch f$n; done; exit 0'",
    );
    let summary = summary(&said);
    let at = summary["refused_at"].as_array().unwrap();
    for resource in ["bytes", "inodes"] {
        let refused = at.iter().find(|at| at["resource"] == resource);
        let times = refused.and_then(|refused| refused["times"].as_u64());
        assert_eq!(times, Some(5), "{resource}: {summary}");
    }
}

fn summary(said: &Said) -> serde_json::Value {
    serde_json::from_str(said.err.lines().last().unwrap()).unwrap()
}

#[test]
fn the_exit_status_is_that_of_the_program() {
    let ground = Ground::of(AS_USER);
    for (typed, status) in [
        ("true", 0),
        ("-- false", 1),
        ("-- sh -c 'kill -TERM $$'", 143),
        ("/no/such/program", 127),
        ("/etc/passwd", 126),
    ] {
        assert_eq!(ground.run(typed).status.code(), Some(status), "{typed}");
    }
}

/// Once, its server waited for itself: it opens the device again when it has mounted.
#[test]
fn the_directory_of_the_device_is_refused() {
    let ground = Ground::of(AS_ROOT);
    for place in ["/dev", "/"] {
        let script = format!("cd {place}; \"$HEARTH\" run true");
        let said = said(&mut with_devices(&ground.private, OPEN_DEVICE, &script));
        refused(place, &said, 125, &["change to the directory of the work"]);
    }
}

#[test]
fn whoever_is_killed_no_process_and_no_mount_is_left() {
    // A shell becomes the last program that it is given.
    let forever = "setsid sleep 1000 & : > up; sleep 1000; :";
    for who in [AS_ROOT, AS_USER] {
        for killed in ["run -- sh", "run-server", "run-init", "sleep 1000"] {
            let ground = Ground::of(who);
            let mut bash = ground.start(forever);
            let is_up = || process_of(bash.id(), "sleep 1000").is_some();
            until("the program sleeps", is_up);
            let find = |words: &str| process_of(bash.id(), words).unwrap();
            let all = ["run -- sh", "run-server", "run-init", "sh -c", "sleep 1000"].map(find);
            let victim = find(killed);
            kill(victim);
            if killed == "sleep 1000" {
                // What went into the background ends with the program, not before.
                kill(find("sh -c"));
            }
            let status = bash.wait().unwrap().code();
            let told = fs::read_dir(&ground.work).unwrap().count();
            assert_eq!(told, 1, "plain files: {killed}");
            if killed == "run-server" {
                assert_eq!(status, Some(125));
            }
            for pid in all {
                until(&format!("{pid} is gone after {killed}"), || is_gone(pid));
            }
            ground.is_clean();
        }
    }
}

#[test]
fn what_a_program_leaves_in_the_background_ends_with_it() {
    let ground = Ground::of(AS_USER);
    let said = ground.run("-- sh -c '(sleep 0.5; echo late > late) & echo now > now'");
    assert!(said.success(), "{said:?}");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!((&*ground.read("now"), &*ground.read("late")), ("now\n", ""));
}

#[test]
fn two_runs_in_two_directories_do_not_meet() {
    let (first, second) = (Ground::of(AS_USER), Ground::of(AS_USER));
    let script = "cat /proc/self/mounts > mounts; : > up; \
                  while ! test -e end; do sleep 0.05; done";
    let mut both = [first.start(script), second.start(script)];
    for (ground, other) in [(&first, &second), (&second, &first)] {
        let mounts = ground.read("mounts");
        let has = |ground: &Ground| mounts.contains(ground.work.to_str().unwrap());
        assert!(has(ground) && !has(other), "{mounts}");
    }
    for (ground, run) in [&first, &second].into_iter().zip(&mut both) {
        fs::write(ground.work.join("end"), "").unwrap();
        assert!(run.wait().unwrap().success());
        ground.is_clean();
    }
}

#[test]
fn what_cannot_be_served_is_refused_in_one_line() {
    let ground = Ground::of(AS_USER);
    let who = ground.who;
    let closed = "mknod -m 600 /dev/fuse c 10 229";
    let script = format!("cd w; {who} \"$HEARTH\" run true");
    let answer = said(&mut with_devices(&ground.private, closed, &script));
    refused("a closed device", &answer, 125, &["/dev/fuse", "chmod 666"]);
    let volume = ground.private.path().join("v");
    assert!(said(hearth().args(["mkfs"]).arg(store(&volume))).success());
    let mut run = hearth();
    run.args(["run", "true"]).current_dir(&volume);
    let answer = said(&mut run);
    refused("a volume", &answer, 125, &["is a Hearth volume", "store:"]);
    let answer = said(hearth().args(["run", "--limt", "1G", "--", "true"]));
    refused(
        "a word",
        &answer,
        125,
        &["'--limt' is unknown", "hearth run --help"],
    );
    ground.is_clean();
}

fn store(path: &Path) -> String {
    format!("store:{}", path.display())
}

//! pjdfstest as root: what POSIX says about names, modes, owners, links and times.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Below, Mounted, Private, Transport, hearth, registry_tool, said, succeed};
use std::collections::BTreeSet;
use std::path::Path;

harness::on_both_transports!(
    posix_is_kept_wherever_tmpfs_keeps_it,
    posix_is_kept_when_every_request_is_suspended_and_resumed,
    posix_is_kept_with_all_quotas_on,
    posix_is_kept_while_heat_is_tracked,
    posix_is_kept_over_a_directory_in_memory,
);

/// What the machine's tmpfs supports as well; remounting the volume under test is not allowed.
/// The two users are there on every Debian.
const CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.05
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

fn posix_is_kept_wherever_tmpfs_keeps_it(transport: Transport) {
    compare(&Mounted::new(transport, ""));
}

/// With little memory, so that much of it comes back from the store.
#[test]
fn posix_is_kept_on_a_store() {
    let mounted = Mounted::new(Transport::Dev, "create,memory=32M,commit=0.5");
    compare(&mounted);
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
}

/// The suite takes a few seconds, so all of it runs.
fn posix_is_kept_over_a_directory_in_memory(transport: Transport) {
    let below = Below::tmpfs();
    compare_with(&Mounted::over(transport, below.path(), ""), below.path());
}

#[test]
fn posix_is_kept_over_a_directory_on_ext4() {
    let below = Below::ext4();
    compare_with(
        &Mounted::over(Transport::Dev, below.path(), ""),
        below.path(),
    );
}

#[test]
fn posix_is_kept_over_a_directory_on_xfs() {
    let below = Below::xfs();
    compare_with(
        &Mounted::over(Transport::Dev, below.path(), ""),
        below.path(),
    );
}

#[test]
fn posix_is_kept_over_a_directory_on_btrfs() {
    let below = Below::btrfs();
    compare_with(
        &Mounted::over(Transport::Dev, below.path(), ""),
        below.path(),
    );
}

#[test]
fn posix_is_kept_over_a_directory_whose_requests_are_all_suspended() {
    let below = Below::tmpfs();
    let mounted = Mounted::over(Transport::Dev, below.path(), "park=every");
    compare_with(&mounted, below.path());
}

fn posix_is_kept_when_every_request_is_suspended_and_resumed(transport: Transport) {
    compare(&Mounted::new(transport, "park=every"));
}

fn posix_is_kept_with_all_quotas_on(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    turn_all_quotas_on(&mounted);
    compare(&mounted);
    // Fails if the ledger is not what a walk finds.
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
}

fn posix_is_kept_while_heat_is_tracked(transport: Transport) {
    compare(&Mounted::new(transport, "hot_track"));
}

fn compare(mounted: &Mounted) {
    compare_with(mounted, Below::tmpfs().path());
}

/// What passes on `control` passes on the mount.
fn compare_with(mounted: &Mounted, control: &Path) {
    let private = Private::new();
    let configuration = private.path().join("pjdfstest.toml");
    std::fs::write(&configuration, CONFIGURATION).unwrap();

    let native = Outcome::of(&configuration, control);
    let ours = Outcome::of(&configuration, mounted.path());

    // btrfs counts no links of directories, which one case finds wrong.
    let broken: Vec<_> = ours.failed.difference(&native.failed).collect();
    assert!(broken.is_empty(), "{broken:?}\n{}", ours.text);
    let mut lost: Vec<&String> = ours.skipped.difference(&native.skipped).collect();
    let before = lost.len();
    // libc knows how many links a file of ext4 may have by the type of the filesystem.
    lost.retain(|case| *case != "link::link_count_max");
    let untold = (before - lost.len()) as u64;
    assert!(lost.is_empty(), "these run: {lost:?}\n{}", ours.text);
    assert!(ours.passed + untold >= native.passed, "{}", ours.text);
    // The suite of this version has 398 cases; a run of a few of them would prove nothing.
    assert!(ours.passed >= 380, "{}", ours.text);
    println!("passed {}, skipped {}", ours.passed, ours.skipped.len());
}

/// Every file is under limits of its user, group and project, none of which the suite reaches.
fn turn_all_quotas_on(mounted: &Mounted) {
    let quota = |words: &[&str]| succeed(hearth().arg("quota").args(words).arg(mounted.path()));
    let limits = ["--hard", "1TiB", "--inodes-hard", "1000000"];
    for kind in ["user", "group", "project"] {
        quota(&[&["default", kind], &limits[..]].concat());
    }
    succeed(
        hearth()
            .args(["quota", "project"])
            .arg(mounted.path())
            .arg("7"),
    );
}

struct Outcome {
    passed: u64,
    failed: BTreeSet<String>,
    skipped: BTreeSet<String>,
    text: String,
}

impl Outcome {
    /// Runs the suite; its last line is `Summary: F failed, S skipped, P passed, ...`.
    fn of(configuration: &Path, place: &Path) -> Outcome {
        let mut suite = registry_tool("pjdfstest");
        suite.arg("-c").arg(configuration).arg("-p").arg(place);
        let said = said(suite.current_dir(place));
        let text = format!("{}{}", said.out, said.err);
        let summary = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("Summary: "));
        let summary = summary.unwrap_or_else(|| panic!("no summary: {}\n{text}", said.status));
        let number = |word: &str| {
            let found = summary.split(", ").find_map(|part| part.strip_suffix(word));
            let number = found.and_then(|number| number.trim().parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("{word}: {summary}"))
        };
        let named = |word: &str| -> BTreeSet<String> {
            let cases = text.lines().filter_map(|line| line.strip_suffix(word));
            cases.map(|case| case.trim().to_owned()).collect()
        };
        let (failed, skipped) = (named("FAILED"), named("skipped"));
        assert_eq!(failed.len() as u64, number(" failed"), "{text}");
        assert_eq!(skipped.len() as u64, number(" skipped"), "{text}");
        Outcome {
            passed: number(" passed"),
            failed,
            skipped,
            text,
        }
    }
}

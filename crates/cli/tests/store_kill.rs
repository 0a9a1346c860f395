//! A volume in a directory whose daemon is killed, or whose disk loses its power, under a spool, a
//! database, a repository and fsx: everything that was acknowledged is there.
//!
//! `HEARTH_ROUNDS` and `HEARTH_SEED` make it long.

mod harness;
mod stored;

use harness::{demand_root, seed};
use hearth_testing::disk::SlowDisk;
use hearth_testing::forgetting::Options;
use hearth_testing::place::Place;
use hearth_testing::rounds::{self, Cut, Load, Service, Workload};
use std::path::Path;
use std::process::Command;

/// Rounds of each test in a run of all tests.
const ROUNDS: u64 = 10;
const DISK: u64 = 2 << 30;

#[test]
fn what_was_acknowledged_is_there_after_the_daemon_is_killed() {
    let place = ready();
    let kept = place.path().join("s");
    let mount = place.directory("mount").expect("a directory");
    let mut daemon = stored::daemon(&kept, &mount);
    run(&mut daemon, &kept);
}

#[test]
fn what_was_acknowledged_is_there_after_a_cut_on_a_filesystem_that_keeps_only_what_it_must() {
    let place = ready();
    let (mut service, kept) = stored::on_a_forgetting_disk(&place, false);
    run(&mut service, &kept);
}

#[test]
fn what_was_acknowledged_is_there_after_a_cut_on_a_filesystem_that_journals_names() {
    let place = ready();
    let (mut service, kept) = stored::on_a_forgetting_disk(&place, true);
    run(&mut service, &kept);
}

#[test]
fn what_was_acknowledged_is_there_after_a_cut_below_ext4() {
    let place = ready();
    let disk = SlowDisk::new(DISK, Options::default()).expect("a disk");
    let kept = disk.path().join("s");
    let mount = place.directory("mount").expect("a directory");
    let daemon = stored::daemon(&kept, &mount);
    run(&mut Cut { daemon, disk }, &kept);
}

fn ready() -> Place {
    demand_root();
    Place::new("store-kill").expect("a directory")
}

fn run(service: &mut dyn Service, kept: &Path) {
    let rounds = std::env::var("HEARTH_ROUNDS").map(|n| n.parse().expect("a number"));
    let rounds = rounds.unwrap_or(ROUNDS);
    let mount = service.path().to_owned();
    let mut workloads = rounds::workloads(seed());
    workloads.push(fsx());
    let check = |_: &Path| stored::check(kept, &mount);
    match rounds::run(service, &mut workloads, rounds, seed(), check) {
        Ok(acknowledged) => {
            println!("{rounds} rounds, {acknowledged} acknowledged");
            assert!(
                acknowledged > rounds,
                "too little was done to find anything"
            );
        }
        Err(what) => panic!(
            "{what}; again: HEARTH_SEED={} HEARTH_ROUNDS={rounds}",
            seed()
        ),
    }
}

/// Calls of all kinds beside the others; fsx reads back what it wrote itself.
fn fsx() -> Box<dyn Workload> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/fsx");
    assert!(
        tool.is_file(),
        "fsx is missing; cargo xtask test installs it"
    );
    Box::new(Load::new("fsx", move |at, turn| {
        let mut fsx = Command::new(&tool);
        let (number, seed) = (turn % 8, turn.to_string());
        fsx.args(["-N", "5000", "-S", &seed])
            .arg(at.join(format!("f{number}")));
        fsx
    }))
}

//! Random scripts of system calls on a mount must do what the model says, also while every request
//! is suspended and resumed.
//!
//! `HEARTH_SEED` and `HEARTH_MODEL_CASES` (scripts on each mount) vary and lengthen it.

use crate::harness;

// How the model's own tests drive a kernel.
#[path = "../../../model/tests/kernel/asked.rs"]
mod asked;
#[path = "../../../model/tests/kernel/calls.rs"]
mod calls;
#[path = "model/contents.rs"]
mod contents;
#[path = "../../../model/tests/kernel/lock_calls.rs"]
mod lock_calls;
#[path = "../../../model/tests/kernel/mount.rs"]
pub(crate) mod mount;
#[path = "../../../model/tests/kernel/statx.rs"]
mod statx;
#[path = "model/waiting.rs"]
mod waiting;
#[path = "../../../model/tests/kernel/worker.rs"]
mod worker;

use harness::{Mounted, Transport, seed};
use hearth_model::strategy::{Abilities, script};
use hearth_model::{Op, SetTime, compare, listing, reduced, regressions};
use mount::{Kernel, Kind};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

harness::on_both_transports!(
    scripts_do_on_a_mount_what_the_model_says,
    scripts_whose_requests_are_all_suspended_do_what_the_model_says,
    every_script_that_told_systems_apart_agrees_on_a_mount,
    a_chown_that_names_nobody_takes_setuid_away,
);

const SCRIPTS: u32 = 200;
/// Steps between two comparisons of the trees.
const TREE_EVERY: usize = 16;

fn scripts_do_on_a_mount_what_the_model_says(transport: Transport) {
    run(transport, "direct_io");
}

fn scripts_whose_requests_are_all_suspended_do_what_the_model_says(transport: Transport) {
    run(transport, "direct_io,hot_track,park=every");
}

#[test]
fn scripts_do_on_a_store_what_the_model_says() {
    run(Transport::Dev, "direct_io,create,memory=16M,commit=0.05");
}

fn run(transport: Transport, options: &str) {
    mount::check_machine();
    let mounted = Mounted::new(transport, options);
    let scripts = script(
        Abilities {
            ranges: false,
            projects: false,
            direct: true,
        },
        1..100,
    );
    let mut runner = runner();
    let number = Cell::new(0);
    let check = |steps: &[(usize, Op)]| {
        number.set(number.get() + 1);
        let mut kernel = inside(&mounted, number.get());
        compare(&mut kernel, steps, TREE_EVERY)
    };
    for _ in 0..cases(SCRIPTS) {
        let mut steps = scripts.new_tree(&mut runner).expect("a script").current();
        leave_out_what_it_is_told_otherwise(&mut steps);
        if let Err(first) = check(&steps) {
            let (why, steps) = reduced(&steps, first, check);
            panic!("seed {}: {why}\n{}", seed(), listing(&steps));
        }
    }
}

/// How many scripts a test runs, unless it is told.
pub(crate) fn cases(usual: u32) -> u32 {
    let told = std::env::var("HEARTH_MODEL_CASES");
    told.map_or(usual, |cases| cases.parse().expect("a number"))
}

/// Draws what the seed says.
pub(crate) fn runner() -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed().to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), random)
}

/// Processes in a new directory of the mount.
fn inside(mounted: &Mounted, number: usize) -> Kernel {
    let directory = mounted.at(format!("s{number}"));
    std::fs::create_dir(&directory).expect("a directory");
    let directory: &'static Path = Box::leak(directory.into_boxed_path());
    Kernel::start(Kind::Directory(directory))
}

fn every_script_that_told_systems_apart_agrees_on_a_mount(transport: Transport) {
    mount::check_machine();
    let mounted = Mounted::new(transport, "direct_io");
    for (number, (fact, mut steps)) in regressions::all().into_iter().enumerate() {
        leave_out_what_it_is_told_otherwise(&mut steps);
        if let Err(difference) = compare(&mut inside(&mounted, number), &steps, 1) {
            panic!("{fact}: {difference}\n{}", listing(&steps));
        }
    }
}

fn a_chown_that_names_nobody_takes_setuid_away(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let path = mounted.at("f");
    let file = std::fs::File::create(&path).expect("a new file");
    for gone in [0o4755, 0o2755] {
        file.set_permissions(Permissions::from_mode(gone))
            .expect("the owner");
        std::os::unix::fs::fchown(&file, None, None).expect("the owner");
        let mode = std::fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o7777, 0o755, "of {gone:o}");
    }
    // A directory keeps its own.
    let kept = mounted.at("d");
    std::fs::create_dir(&kept).expect("a directory");
    std::fs::set_permissions(&kept, Permissions::from_mode(0o2755)).expect("the owner");
    std::os::unix::fs::chown(&kept, None, None).expect("the owner");
    let mode = std::fs::metadata(&kept).expect("it is there").mode();
    assert_eq!(mode & 0o7777, 0o2755);
}

fn leave_out_what_it_is_told_otherwise(steps: &mut Vec<(usize, Op)>) {
    // What may keep the group of a file from executing it, whatever mode was asked for.
    let hides = |op: &Op| match op {
        Op::SetXattr { name, .. } => name.0.starts_with(b"system.posix_acl_"),
        Op::Umask { mask } => mask & 0o010 != 0,
        _ => false,
    };
    let is_hidden = steps.iter().any(|(_, op)| hides(op));
    steps.retain(|(_, op)| !is_told_otherwise(op, is_hidden));
}

/// What the kernel in front answers in its own way, as `docs/semantics.md` says.
fn is_told_otherwise(op: &Op, is_hidden: bool) -> bool {
    match op {
        // It does not know that a file is immutable or only grows: it looks at permissions first.
        Op::SetFlags { .. } => true,
        Op::SetProject { xflags, .. } => xflags & (IMMUTABLE | APPEND) != 0,
        // A stranger's is done and changes nothing.
        Op::Chown { uid, gid, .. } | Op::ChownFd { uid, gid, .. } => uid.is_none() && gid.is_none(),
        // It takes setgid away from what its group may execute only.
        Op::Open { mode, .. }
        | Op::MakeNode { mode, .. }
        | Op::Chmod { mode, .. }
        | Op::ChmodFd { mode, .. } => mode & 0o2000 != 0 && (is_hidden || mode & 0o010 == 0),
        // It removes an ACL without saying that setgid goes with it.
        Op::RemoveXattr { name, .. } => name.0.as_slice() == b"system.posix_acl_access",
        // It reads links from its cache, which then does not renew an old access time.
        Op::SetTimes { times, .. } | Op::SetTimesFd { times, .. } => {
            matches!(times[0], SetTime::At(..))
        }
        _ => false,
    }
}

/// `FS_XFLAG_IMMUTABLE` and `FS_XFLAG_APPEND`.
const IMMUTABLE: u32 = 0x8;
const APPEND: u32 = 0x10;

//! A program that runs, and those who open it.

use crate::harness;

use harness::{Below, Mounted, Transport};
use rustix::fs::{Mode, OFlags, open};
use std::fs;

harness::on_both_transports!(a_program_that_runs_is_not_cut_by_an_open_for_reading);

/// Once, the open had cut the program before the kernel refused it, and the program died of that.
fn a_program_that_runs_is_not_cut_by_an_open_for_reading(transport: Transport) {
    check(&Mounted::new(transport, ""));
}

#[test]
fn a_program_that_runs_on_a_store_is_not_cut_by_an_open_for_reading() {
    check(&Mounted::new(Transport::Dev, "create"));
}

#[test]
fn a_program_that_runs_in_a_directory_of_the_host_is_not_cut_by_an_open_for_reading() {
    let below = Below::tmpfs();
    check(&Mounted::over(Transport::Dev, below.path(), ""));
}

fn check(mounted: &Mounted) {
    let program = mounted.at("sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    let size = fs::metadata(&program).unwrap().len();
    let mut running = std::process::Command::new(&program)
        .arg("60")
        .spawn()
        .unwrap();
    for _ in 0..20 {
        for how in [OFlags::RDONLY | OFlags::TRUNC, OFlags::WRONLY] {
            let refused = open(&program, how, Mode::empty());
            assert_eq!(refused.unwrap_err(), rustix::io::Errno::TXTBSY);
        }
    }
    assert_eq!(fs::metadata(&program).unwrap().len(), size);
    running.kill().unwrap();
    assert!(
        running.wait().unwrap().code().is_none(),
        "it ran until then"
    );
    // The kernel closes the program a moment after its end.
    let cut = || open(&program, OFlags::RDONLY | OFlags::TRUNC, Mode::empty()).is_ok();
    harness::until("cut", cut);
    assert_eq!(fs::metadata(&program).unwrap().len(), 0);
}

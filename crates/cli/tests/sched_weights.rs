//! Weights divide a saturated daemon. A suite of its own, since what runs beside takes part.

#![allow(clippy::unwrap_used)]

mod harness;
mod tenants;

use harness::{Mounted, Transport, program, succeed};
use rustix::fs::copy_file_range;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::time::Duration;
use tenants::{done, project, race};

harness::on_both_transports!(
    weights_divide_a_saturated_core,
    weights_divide_what_is_done_in_pieces,
);

/// One at a time has the machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A tenth of what others get.
const NICE: &str = "10";

/// Lets every other program run before the daemon: then what it lacks is time, whatever else the
/// machine does, and requests wait for it.
fn yield_to_all(mounted: &Mounted) {
    let pid = mounted.daemon();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let thread = thread.unwrap().file_name();
        succeed(program("renice").args(["-n", NICE, "-p"]).arg(thread));
    }
    // A kernel that shares cores between sessions has a number for all of the daemon's.
    let group = format!("/proc/{pid}/autogroup");
    if std::fs::exists(&group).unwrap() {
        std::fs::write(group, NICE).unwrap();
    }
}

/// A copy of a megabyte inside the volume takes the daemon much longer than it takes a program
/// to ask for the next: so the daemon's cores are what is short.
fn weights_divide_a_saturated_core(transport: Transport) {
    divide(
        transport,
        1 << 20,
        48,
        &[((300, 100), 3.0), ((100, 100), 1.0)],
    );
}

/// Such a copy was done as a whole by one of eight threads that served tenants in turn.
fn weights_divide_what_is_done_in_pieces(transport: Transport) {
    divide(transport, 8 << 20, 16, &[((300, 100), 3.0)]);
}

/// Two tenants with so many streams of copies of so many bytes; for each pair of weights, what the
/// first gets for each of the second's.
fn divide(transport: Transport, copied: usize, streams: usize, weights: &[((u32, u32), f64)]) {
    let _alone = ALONE.lock();
    let mounted = Mounted::new(transport, "direct_io");
    // A file for each stream: the kernel lets one copy at a time into a file.
    let tenants = [1, 2].map(|id| {
        drop(project(&mounted, id, 1));
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let streams = (0..streams).map(|stream| {
            let file = options.open(mounted.at(format!("p{id}/{stream}")));
            let file = file.unwrap();
            file.write_all_at(&vec![7; 2 * copied], 0).unwrap();
            file
        });
        streams.collect::<Vec<_>>()
    });
    yield_to_all(&mounted);
    let copy = |file: &File| {
        let (mut from, mut to) = (0, copied as u64);
        let done = copy_file_range(file, Some(&mut from), file, Some(&mut to), copied);
        assert_eq!(done, Ok(copied));
    };
    for (weights, share) in weights {
        done(&mounted, &format!("weight project:1 {} @", weights.0));
        done(&mounted, &format!("weight project:2 {} @", weights.1));
        let tenants = [&tenants[0][..], &tenants[1][..]];
        // The first round brings the streams to where they stay. Programs that come and go beside
        // leave the daemon less to divide than it seems; who divides wrongly does it every time.
        race(&tenants, Duration::from_secs(2), copy);
        let mut seen = Vec::new();
        let divided = (0..3).any(|_| {
            let copies = race(&tenants, Duration::from_secs(6), copy);
            let ratio = copies[0] as f64 / copies[1] as f64 / share;
            println!("{transport:?} {weights:?}: {copies:?}, {ratio:.3} of what it should be");
            seen.push(copies);
            (0.9..=1.1).contains(&ratio)
        });
        let table = || done(&mounted, "@");
        assert!(divided, "{weights:?}: {seen:?}\n{}", table());
    }
}

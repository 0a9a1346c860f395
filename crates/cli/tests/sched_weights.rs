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
///
/// Weights divide processor time. A copy of a tenant that is served less often finds less of its
/// bytes in the caches and takes longer, by how much is the machine's affair. So time is held to
/// a tenth, and copies to a factor of two; what was charged is held against the kernel's count of
/// the daemon's time, so that a tenant that is charged too little does not pass.
fn divide(transport: Transport, copied: usize, streams: usize, weights: &[((u32, u32), f64)]) {
    let _alone = ALONE.lock();
    let mounted = Mounted::new(transport, "direct_io");
    // A file for each stream: the kernel lets one copy at a time into a file.
    let mut tenants = [1, 2].map(|id| {
        drop(project(&mounted, id, 1));
        Vec::new()
    });
    // In turn, that no tenant has the better memory.
    for stream in 0..streams {
        for (id, files) in (1..).zip(&mut tenants) {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = options.open(mounted.at(format!("p{id}/{stream}"))).unwrap();
            file.write_all_at(&vec![7; 2 * copied], 0).unwrap();
            files.push(file);
        }
    }
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
            let (charged, used) = (charged(&mounted), used(&mounted));
            let copies = race(&tenants, Duration::from_secs(6), copy);
            let round = Round::since(&mounted, charged, used, &copies);
            println!("{transport:?} {weights:?}, {share} to divide: {round:.3?}");
            let divided = round.divides(*share);
            seen.push(round);
            divided
        });
        let table = || done(&mounted, "@");
        assert!(divided, "{weights:?}: {seen:.3?}\n{}", table());
    }
}

/// What came of a race: the first tenant's share for each of the second's, and how much of the
/// daemon's processor time was charged to the two.
#[derive(Debug)]
struct Round {
    time: f64,
    copies: f64,
    charged: f64,
}

impl Round {
    fn since(mounted: &Mounted, before: [u64; 2], used_before: Duration, copies: &[u64]) -> Round {
        let after = charged(mounted);
        let [first, second] = [0, 1].map(|tenant| (after[tenant] - before[tenant]) as f64);
        let used = used(mounted) - used_before;
        Round {
            time: first / second,
            copies: copies[0] as f64 / copies[1] as f64,
            charged: (first + second) / used.as_nanos() as f64,
        }
    }

    fn divides(&self, share: f64) -> bool {
        (0.9..=1.1).contains(&(self.time / share))
            && (0.5..=2.0).contains(&(self.copies / share))
            && (0.7..=1.05).contains(&self.charged)
    }
}

/// Nanoseconds that the daemon charged to projects 1 and 2 so far.
fn charged(mounted: &Mounted) -> [u64; 2] {
    let shown: serde_json::Value = serde_json::from_str(&done(mounted, "--json @")).unwrap();
    [1, 2].map(|id| {
        let name = format!("project:{id}");
        let mut tenants = shown["tenants"].as_array().unwrap().iter();
        let tenant = tenants.find(|tenant| tenant["tenant"] == name.as_str());
        tenant.unwrap()["run_ns"].as_u64().unwrap()
    })
}

/// Processor time that the daemon has used so far.
fn used(mounted: &Mounted) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", mounted.daemon())).unwrap();
    // After the name, which may hold anything: the state is field 3, utime 14 and stime 15.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks =
        |field: usize| -> u64 { fields.split(' ').nth(field - 3).unwrap().parse().unwrap() };
    let a_second = rustix::param::clock_ticks_per_second();
    Duration::from_millis((ticks(14) + ticks(15)) * 1000 / a_second)
}

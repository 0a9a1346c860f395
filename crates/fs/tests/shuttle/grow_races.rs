//! A directory that grows: names that stay are found and listed once all the time, what is removed
//! meanwhile stays away, and what is made meanwhile stays there.

use hearth::{Credentials, Errno, Process, Volume};
use hearth_sync::primitive::{Arc, thread};
use std::collections::BTreeMap;

use crate::explore::explore;

const SCHEDULES: usize = 300;
/// Names that stay.
const STAY: usize = 28;
/// Names that are removed: with those that stay as many as the first table wants to hold.
const GO: usize = 4;
/// Names that are made. One of them does not fit on the line of its bucket.
const COME: usize = 32;
const LOOKS: usize = 4;

fn stays(n: usize) -> String {
    format!("/d/stays-{n}")
}

fn goes(n: usize) -> String {
    format!("/d/goes-{n}")
}

fn comes(n: usize) -> String {
    format!("/d/comes-{n}")
}

/// Bytes of all tables of names.
fn tables(process: &Process) -> u64 {
    let gauges = process.volume().gauges();
    gauges.dentry_bytes - 64 * gauges.dentries
}

/// How many of the names that come are listed; each name that stays is, once.
fn listed(process: &Process) -> usize {
    let mut seen = BTreeMap::new();
    for entry in process.read_dir("/d").unwrap() {
        *seen
            .entry(String::from_utf8(entry.name).unwrap())
            .or_insert(0) += 1;
    }
    assert!(seen.values().all(|&times| times == 1), "{seen:?}");
    let of = |prefix: &str| seen.keys().filter(|name| name.starts_with(prefix)).count();
    assert_eq!(of("stays"), STAY, "{seen:?}");
    of("comes")
}

#[test]
fn a_directory_that_grows_under_its_users_loses_no_name_and_brings_none_back() {
    let starts = ["from before the first came", "from the middle"];
    explore(SCHEDULES, &starts, || {
        let process = Arc::new(Volume::memory().process(Credentials::root()));
        let fd = process.open("/f", libc::O_CREAT | libc::O_RDWR, 0o600);
        process.close(fd.unwrap()).unwrap();
        process.mkdir("/d", 0o700).unwrap();
        let link = |process: &Process, name: String| process.link("/f", name).unwrap();
        (0..STAY).for_each(|n| link(&process, stays(n)));
        (0..GO).for_each(|n| link(&process, goes(n)));
        let small = tables(&process);

        let maker = Arc::clone(&process);
        let maker = thread::spawn(move || (0..COME).for_each(|n| link(&maker, comes(n))));
        let remover = Arc::clone(&process);
        let remover = thread::spawn(move || {
            for n in 0..GO {
                remover.unlink(goes(n)).unwrap();
                assert_eq!(remover.stat(goes(n)), Err(Errno::ENOENT));
            }
        });
        let ino = process.stat("/f").unwrap().ino;
        let mut came = Vec::new();
        for look in 0..LOOKS {
            for n in (look..STAY).step_by(LOOKS) {
                assert_eq!(process.stat(stays(n)).unwrap().ino, ino);
            }
            came.push(listed(&process));
        }
        maker.join().unwrap();
        remover.join().unwrap();
        assert!(came.is_sorted(), "{came:?}: what has come stays");
        assert_eq!(listed(&process), COME);
        (0..GO).for_each(|n| assert_eq!(process.stat(goes(n)), Err(Errno::ENOENT)));
        assert_eq!(process.stat("/f").unwrap().nlink as usize, 1 + STAY + COME);
        assert!(tables(&process) > small, "the table has grown");
        match came[0] {
            0 => "from before the first came",
            _ => "from the middle",
        }
    });
}

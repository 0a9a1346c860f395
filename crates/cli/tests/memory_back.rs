//! Memory of what was removed goes back to the machine on a daemon that nobody calls any more:
//! `docs/design/memory.md`. A program of its own, because it measures.
#![allow(clippy::unwrap_used)]

#[path = "harness/mod.rs"]
mod harness;

use harness::{Mounted, Transport};
use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// Beside what is used: the program itself, and what its threads keep.
const ALLOWANCE: u64 = 32 * MIB;
/// What is promised is 5 s; the rest is for a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

fn resident(mounted: &Mounted) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{}/statm", mounted.daemon())).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Waits, and asks the daemon for nothing meanwhile.
fn falls_to(mounted: &Mounted, used: u64, what: &str) {
    let most = used + used / 5 + ALLOWANCE;
    let begun = Instant::now();
    while resident(mounted) > most {
        let now = resident(mounted) / MIB;
        let seconds = begun.elapsed().as_secs();
        assert!(
            begun.elapsed() < PATIENCE,
            "{what}: {now} MiB after {seconds} s, may be {}",
            most / MIB
        );
        sleep(Duration::from_millis(100));
    }
    println!("{what}: {} MiB", resident(mounted) / MIB);
}

fn fill(mounted: &Mounted, name: &str, mebibytes: u64) {
    let mut file = fs::File::create(mounted.at(name)).unwrap();
    let bytes = vec![b'x'; MIB as usize];
    for _ in 0..mebibytes {
        file.write_all(&bytes).unwrap();
    }
    file.sync_all().unwrap();
}

fn check(transport: Transport) {
    let mounted = Mounted::new(transport, "size=1G");
    fill(&mounted, "kept", 32);
    fill(&mounted, "gone", 256);
    assert!(resident(&mounted) > 288 * MIB);
    fs::remove_file(mounted.at("gone")).unwrap();
    falls_to(&mounted, 32 * MIB, "removed");

    fill(&mounted, "short", 256);
    let short = fs::File::options().write(true).open(mounted.at("short"));
    short.unwrap().set_len(1).unwrap();
    falls_to(&mounted, 32 * MIB, "truncated");
    mounted.unmount();
}

#[test]
fn memory_of_a_removed_file_goes_back_while_nobody_calls_over_dev() {
    check(Transport::Dev);
}

#[test]
fn memory_of_a_removed_file_goes_back_while_nobody_calls_over_uring() {
    check(Transport::Uring);
}

#[test]
fn memory_of_many_small_files_goes_back_while_nobody_calls() {
    let mounted = Mounted::new(Transport::Dev, "");
    const FILES: u32 = 100_000;
    for number in 0..FILES {
        if number % 1000 == 0 {
            fs::create_dir(mounted.at(format!("d{}", number / 1000))).unwrap();
        }
        let name = format!("d{}/f{number}", number / 1000);
        fs::File::create(mounted.at(name)).unwrap();
    }
    let full = resident(&mounted);
    mounted.shell("rm -r d*");
    falls_to(&mounted, 0, "removed");
    assert!(full > ALLOWANCE, "the files took {} MiB", full / MIB);
    mounted.unmount();
}

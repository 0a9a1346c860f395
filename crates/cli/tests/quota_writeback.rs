//! Whatever the kernel has acknowledged, by `write(2)` or by a store through a mapping, is kept: no
//! `fsync` and no `close` fails later because of a quota, and no quota is ever passed.
//!
//! `HEARTH_ROUNDS` and `HEARTH_SEED` make the race long.

#[path = "quota_writeback/broken.rs"]
mod broken;
mod harness;
#[path = "quota_writeback/journal.rs"]
mod journal;
#[path = "quota_writeback/lost.rs"]
mod lost;
#[path = "quota_writeback/mapping.rs"]
mod mapping;
#[path = "quota_writeback/racer.rs"]
mod racer;
#[path = "quota_writeback/times.rs"]
mod times;

use harness::{Mounted, Transport, hearth, seed, succeed, until};
use journal::Journal;
use mapping::Mapping;
use racer::{Racer, page};
use rustix::io::Errno;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::time::Duration;

harness::on_both_transports!(
    sixteen_processes_that_race_to_the_limits_lose_nothing_that_was_acknowledged,
    a_file_that_was_opened_before_its_limit_is_refused_at_once_with_the_option_quota,
    a_first_limit_is_refused_while_writes_are_collected_that_it_could_lose,
    what_is_given_away_while_it_is_open_loses_nothing,
    a_volume_that_was_given_a_size_loses_nothing_when_it_is_full,
    holes_that_are_mapped_are_promised_until_the_last_close,
    a_mapping_takes_the_last_block_and_not_one_more,
);

const PAGE: u64 = 4096;
const RACERS: u32 = 16;

/// Sets a hard limit of bytes.
fn limit(mounted: &Mounted, who: &str, pages: u64) {
    let bytes = (pages * PAGE).to_string();
    succeed(
        hearth()
            .args(["quota", "set", who, "--hard", &bytes])
            .arg(mounted.path()),
    );
}

/// (used, hard) in bytes of everybody in the report whose id is `ids` or one of the next.
fn usages(mounted: &Mounted, ids: std::ops::Range<u32>) -> Vec<(String, u64, u64)> {
    let text = std::fs::read_to_string(mounted.at(".hearth/quota/report.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let mut all = Vec::new();
    for record in report["records"].as_array().expect("records") {
        let id = record["id"].as_u64().expect("a number");
        if ids.contains(&(id as u32)) {
            let used = record["bytes"]["used"].as_u64().expect("a number");
            let hard = record["bytes"]["hard"].as_u64().unwrap_or(u64::MAX);
            let kind = record["kind"].as_str().expect("a kind");
            all.push((format!("{kind}:{id}"), used, hard));
        }
    }
    all
}

fn used(mounted: &Mounted, id: u32) -> u64 {
    let all = usages(mounted, id..id + 1);
    let user = all.iter().find(|(who, ..)| who.starts_with("user"));
    user.map_or(0, |(_, used, _)| *used)
}

/// An empty file of user and group `id`.
fn file_of(mounted: &Mounted, name: &str, id: u32) -> File {
    let path = mounted.at(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("a new file");
    chown(&path, Some(id), Some(id)).expect("root gives files away");
    drop(file);
    open(mounted, name)
}

fn open(mounted: &Mounted, name: &str) -> File {
    let options = File::options().read(true).write(true).clone();
    options
        .open(mounted.at(name))
        .expect("a file that is there")
}

fn is_full(error: &io::Error) -> bool {
    let full = [Errno::DQUOT, Errno::NOSPC].map(|errno| Some(errno.raw_os_error()));
    full.contains(&error.raw_os_error())
}

fn sixteen_processes_that_race_to_the_limits_lose_nothing_that_was_acknowledged(
    transport: Transport,
) {
    let mounted = Mounted::new(transport, "");
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(3, |n| n.parse().expect("a number"));
    for round in 0..rounds {
        race(&mounted, round, seed().wrapping_add(u64::from(round)));
    }
}

fn race(mounted: &Mounted, round: u32, seed: u64) {
    let mut dice = harness::Random(seed);
    let ids = 1000 + 2 * round..1002 + 2 * round;
    for id in ids.clone() {
        let tree = mounted.at(format!("p{id}"));
        std::fs::create_dir(&tree).expect("a directory");
        let made = hearth()
            .args(["quota", "project"])
            .arg(&tree)
            .arg(id.to_string())
            .output();
        assert!(made.is_ok_and(|made| made.status.success()));
        for kind in ["user", "group", "project"] {
            let pages = 200 + dice.below(5_000);
            limit(mounted, &format!("{kind}:{id}"), pages);
        }
    }
    let journals = mounted.outside(&format!("journals{round}"));
    let racers: Vec<Racer> = (0..RACERS)
        .map(|n| {
            let name = format!("p{}/{n}", ids.start + n / 4 % 2);
            let (uid, gid) = (ids.start + n % 2, ids.start + n / 2 % 2);
            let path = mounted.at(&name);
            File::create_new(&path).expect("a new file");
            chown(&path, Some(uid), Some(gid)).expect("root gives files away");
            Racer::start(n, path, journals.join(n.to_string()), dice.below(u64::MAX))
        })
        .collect();
    let mut looks = 0;
    while racers.iter().any(Racer::is_running) {
        looks += 1;
        for (who, used, hard) in usages(mounted, ids.clone()) {
            assert!(used <= hard, "seed {seed}: {who} uses {used} of {hard}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut acknowledged = 0;
    for racer in racers {
        acknowledged += racer.finish(seed);
    }
    assert!(acknowledged > 0 && looks > 0);
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
    exactly_to_the_limit(mounted, ids, seed);
}

/// What is still free can be had, to the last block.
fn exactly_to_the_limit(mounted: &Mounted, ids: std::ops::Range<u32>, seed: u64) {
    let name = format!("p{}/rest", ids.start);
    let file = file_of(mounted, &name, ids.start);
    let mut end = 0;
    // The last promises come back with closes that are still on their way.
    until("a full quota", || {
        while file.write_all_at(&page(1), end).is_ok() {
            end += PAGE;
        }
        let all = usages(mounted, ids.start..ids.start + 1);
        all.iter().any(|(_, used, hard)| used == hard)
    });
    let refused = file.write_at(&page(1), end).expect_err("a full quota");
    assert!(is_full(&refused), "seed {seed}: {refused}");
    file.sync_all().expect("nothing that can fail");
}

fn a_file_that_was_opened_before_its_limit_is_refused_at_once_with_the_option_quota(
    transport: Transport,
) {
    let mounted = Mounted::new(transport, "quota");
    let file = file_of(&mounted, "f", 1000);
    file.write_all_at(&page(1), 0).expect("no limit yet");
    limit(&mounted, "user:1000", 10);
    let written = file.write_at(&[2; 20 * PAGE as usize], PAGE);
    assert_eq!(written.ok(), Some(9 * PAGE as usize), "as far as it fits");
    let refused = file.write_at(&page(3), 10 * PAGE).expect_err("full");
    assert_eq!(refused.raw_os_error(), Some(Errno::DQUOT.raw_os_error()));
    file.sync_all().expect("nothing that can fail");
    assert_eq!(used(&mounted, 1000), 10 * PAGE);
}

fn a_first_limit_is_refused_while_writes_are_collected_that_it_could_lose(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let quota = |words: &str| {
        let mut command = hearth();
        command
            .arg("quota")
            .args(words.split(' '))
            .arg(mounted.path());
        command
    };
    let refused = |words: &str| {
        let output = quota(words).output().expect("hearth runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{words}");
        assert!(
            said.contains("open for writing") && said.contains("-o quota"),
            "{said}"
        );
    };
    let file = file_of(&mounted, "f", 1000);
    file.write_all_at(&page(1), 0).expect("no limit yet");
    refused("set user:1000 --hard 40960");
    refused("set group:1000 --soft 40960");
    refused("default user --hard 40960");
    succeed(&mut quota("off user"));
    succeed(&mut quota("set user:1000 --hard 8192"));
    refused("on user");
    // None of them has come into force: what was acknowledged meanwhile is kept.
    file.write_all_at(&[2; 20 * PAGE as usize], PAGE)
        .expect("no limit yet");
    file.sync_all().expect("nothing that can fail");
    assert_eq!(used(&mounted, 1000), 21 * PAGE);
    succeed(&mut quota("set user:1000 --hard none"));
    succeed(&mut quota("on user"));
    // Others, and those who only read, are in nobody's way; nor are limits of inodes.
    succeed(&mut quota("set user:1000 --inodes-hard 100"));
    succeed(&mut quota("set user:1001 --hard 40960"));
    drop(file);
    let reader = File::open(mounted.at("f")).expect("it is there");
    until("the writer is gone", || {
        quota("set user:1000 --hard 102400")
            .output()
            .expect("hearth runs")
            .status
            .success()
    });
    // Who was opened under a limit is charged first, so limits change freely.
    let writer = open(&mounted, "f");
    succeed(&mut quota("set user:1000 --hard none"));
    succeed(&mut quota("set user:1000 --hard 98304"));
    let written = writer.write_at(&[3; 20 * PAGE as usize], 21 * PAGE);
    assert_eq!(written.ok(), Some(3 * PAGE as usize), "as far as it fits");
    drop((reader, writer));

    // Without any limit files are opened as at first.
    succeed(&mut quota("set user:1000 --hard none"));
    succeed(&mut quota("set user:1001 --hard none"));
    let late = file_of(&mounted, "late", 1002);
    late.write_all_at(&page(1), 0).expect("no limit yet");
    late.sync_all().expect("no limit yet");
    refused("set user:1002 --hard 4096");
    refused("set volume --hard 1000000");
    succeed(&mut quota("set volume --inodes-hard 100000"));
    succeed(&mut quota("set user:1002 --hard 4096 --force"));
    late.write_all_at(&page(2), PAGE)
        .expect("collected, as it said");
    let lost = late.sync_all().expect_err("no room");
    assert!(is_full(&lost), "{lost}");
    assert_eq!(used(&mounted, 1002), PAGE);
}

/// `cp -p`, `tar` and `logrotate` chown what they have open; some write on.
fn what_is_given_away_while_it_is_open_loses_nothing(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    // Of nobody who has a limit, and open since before there was one.
    let early = file_of(&mounted, "early", 1001);
    early.write_all_at(&page(1), 0).expect("no limit yet");
    for who in ["user:1000", "group:1000", "project:7"] {
        limit(&mounted, who, 10);
    }
    limit(&mounted, "user:1003", 100);
    let given = [(Some(1000), None), (None, Some(1000))];
    for (uid, gid) in given.into_iter().chain([(Some(1003), None)]) {
        let refused = chown(mounted.at("early"), uid, gid).expect_err("its writes are collected");
        assert_eq!(refused.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
    }
    chown(mounted.at("early"), Some(1002), Some(1002)).expect("nobody limits that");
    early
        .write_all_at(&[2; 20 * PAGE as usize], 0)
        .expect("room");
    early.sync_all().expect("nothing that can fail");
    drop(early);
    until("the writer is gone", || {
        chown(mounted.at("early"), Some(1003), None).is_ok()
    });

    // What is opened now is charged first, whoever it belongs to.
    for (n, (uid, gid)) in given.into_iter().chain([(None, None)]).enumerate() {
        let tree = mounted.at(n.to_string());
        std::fs::create_dir(&tree).expect("a directory");
        let late = File::create_new(tree.join("late")).expect("a new file");
        late.write_all_at(&page(1), 0).expect("no limit of root's");
        match uid.or(gid) {
            // Root's chown is forced; what is written after it is not.
            Some(_) => std::os::unix::fs::fchown(&late, uid, gid).expect("root gives files away"),
            None => {
                let mut project = hearth();
                succeed(project.args(["quota", "project"]).arg(&tree).arg("7"));
            }
        }
        let mut pages = 1;
        let refused = loop {
            match late.write_at(&page(3), pages * PAGE) {
                Ok(written) => assert_eq!(written, PAGE as usize),
                Err(error) => break error,
            }
            pages += 1;
            assert!(pages <= 10, "a write above the limit");
        };
        assert!(is_full(&refused), "{refused}");
        late.sync_all().expect("nothing that can fail");
        let all = usages(&mounted, 0..2000);
        assert!(all.iter().all(|(_, used, hard)| used <= hard), "{all:?}");
    }
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
}

fn a_volume_that_was_given_a_size_loses_nothing_when_it_is_full(transport: Transport) {
    let mounted = Mounted::new(transport, "size=1M");
    let file = File::create_new(mounted.at("f")).expect("a new file");
    let mut end = 0;
    let refused = loop {
        match file.write_at(&page(1), end) {
            Ok(written) => end += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    file.sync_all().expect("nothing that can fail");
    let blocks = file.metadata().expect("attributes").blocks();
    assert_eq!(blocks * 512, end);
    assert!(end > 900 << 10, "{end} bytes");
}

fn holes_that_are_mapped_are_promised_until_the_last_close(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    limit(&mounted, "user:1000", 100);
    let file = file_of(&mounted, "f", 1000);
    file.set_len(50 * PAGE).expect("a hole");
    let mut hole = vec![1; 50 * PAGE as usize];
    file.read_exact_at(&mut hole, 0).expect("zeros");
    assert_eq!(used(&mounted, 1000), 0, "reading a hole takes nothing");
    let mut mapping = Mapping::of(&file, 50 * PAGE);
    for n in 0..50 {
        assert_eq!(mapping.load(n), 0);
    }
    assert_eq!(
        used(&mounted, 1000),
        50 * PAGE,
        "each page may be written now"
    );
    assert_eq!(file.metadata().expect("attributes").blocks(), 0);
    mapping.store(7, 1);
    mapping.sync().expect("it was promised");
    assert_eq!(
        used(&mounted, 1000),
        50 * PAGE,
        "one of them is used, not one more"
    );
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
    chown(mounted.at("f"), Some(1001), None).expect("root gives files away");
    assert_eq!((used(&mounted, 1000), used(&mounted, 1001)), (0, 50 * PAGE));
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
    drop((mapping, file));
    until("what was promised and not used", || {
        used(&mounted, 1001) == PAGE
    });
}

fn a_mapping_takes_the_last_block_and_not_one_more(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    limit(&mounted, "user:1000", 40);
    File::create_new(mounted.at("f")).expect("a new file");
    chown(mounted.at("f"), Some(1000), Some(1000)).expect("root gives files away");
    let journal = mounted.outside("journal").join("f");
    // In order: the kernel reads ahead for as long as there is room, and page by page after.
    let racer = Racer::start_as("mapped in order", mounted.at("f"), journal, 1);
    while racer.is_running() {
        assert!(used(&mounted, 1000) <= 40 * PAGE);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(racer.was_refused(), "SIGBUS at the first page beyond");
    assert_eq!(racer.finish(1), 40 * PAGE, "every block was to be had");
    until("all of it used", || used(&mounted, 1000) == 40 * PAGE);
}

/// Where the racers' processes begin; nothing in a run of the tests.
#[test]
fn racer() {
    racer::run_if_asked();
}

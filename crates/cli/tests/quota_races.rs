//! Rounds of 16 processes that race on a mount to limits placed at random, of bytes and of inodes
//! and of all three kinds, with frees in between: by `write(2)`, `fallocate`, chgrp, names, and
//! stores through mappings. Never above, always up to, nothing lost that was acknowledged, and
//! every refusal is held against the log of its round.
//!
//! Some own files without a limit of bytes, and give them to others who have one.
//! `HEARTH_ROUNDS` (how many; otherwise as many as fit `SECONDS`) and `HEARTH_SEED` (the first one)
//! make it long: `cargo xtask soak` does.

mod harness;

#[path = "quota_races/bus.rs"]
mod bus;
#[path = "quota_races/kept.rs"]
mod kept;
#[path = "../../fs/tests/quota_rounds/log.rs"]
mod log;
#[path = "quota_writeback/mapping.rs"]
mod mapping;
#[path = "quota_races/notes.rs"]
mod notes;
#[path = "quota_races/racer.rs"]
mod racer;
#[path = "quota_races/site.rs"]
mod site;
#[path = "quota_races/stores.rs"]
mod stores;
#[path = "quota_races/task.rs"]
mod task;
#[path = "quota_races/worker.rs"]
mod worker;

use harness::{Random, Transport, seed};
use hearth::{QuotaId, Resource};
use hearth_testing::threads::SetOnDrop;
use log::{Log, Refusals};
use notes::End;
use racer::Crew;
use site::Site;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use task::Task;

harness::on_both_transports!(
    sixteen_processes_end_exactly_at_the_limits_and_every_refusal_is_justified,
);

const PAGE: u64 = 4096;
const RACERS: u32 = 16;
/// Racers of the user, group and project `FREE`.
const FREE_RACERS: u32 = 2;
const USERS: Range<u32> = 1001..1004;
const GROUPS: Range<u32> = 1001..1003;
const PROJECTS: Range<u32> = 1001..1004;
/// Of each kind, who never has a limit of bytes.
const FREE: u32 = 1009;
/// Pages of a file that may be mapped.
const SPAN: u64 = 256;
/// How long a run takes rounds up, without `HEARTH_ROUNDS`; never fewer than `LEAST`.
const SECONDS: u64 = 6;
const LEAST: u64 = 6;
/// Rounds on one mount. Every second one has the option `quota`.
const ROUNDS_OF_A_MOUNT: u64 = 16;

/// One transport at a time has the machine: who makes room is heard of when the daemon gets a
/// processor.
static ALONE: Mutex<()> = Mutex::new(());

/// By resource, in units of the ledger.
type Amounts = BTreeMap<QuotaId, [u64; 2]>;

fn sixteen_processes_end_exactly_at_the_limits_and_every_refusal_is_justified(
    transport: Transport,
) {
    let _alone = ALONE.lock();
    let rounds = std::env::var("HEARTH_ROUNDS").map(|n| n.parse::<u64>().expect("a number"));
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let more = |done: u64| match &rounds {
        Ok(rounds) => done < *rounds,
        Err(_) => done < LEAST || Instant::now() < end,
    };
    let (mut done, mut refusals, mut looks) = (0, Refusals::new(), 0);
    while more(done) {
        let options = ["", "quota"][(done / ROUNDS_OF_A_MOUNT % 2) as usize];
        let (site, mut crew) = (Site::new(transport, options), Crew::start());
        assert_eq!(site.collects_writes(), options.is_empty());
        for _ in 0..ROUNDS_OF_A_MOUNT {
            if more(done) {
                looks += round(&site, &mut crew, &mut refusals, seed() + done);
                done += 1;
            }
        }
    }
    assert!(!refusals.is_empty() && looks > 0);
    println!("{transport:?}: {done} rounds, {looks} samples, refusals justified: {refusals:?}");
}

/// Looks again and again until `done`; how often it looked.
fn sample(site: &Site, hard: &Amounts, before: &Amounts, done: &AtomicBool, seed: u64) -> u64 {
    let mut looks = 0;
    while !done.load(Relaxed) {
        looks += 1;
        for (who, used) in site.used() {
            for at in [0, 1] {
                // A directory of a project was there before its limit.
                let most = hard[&who][at].max(before[&who][at]);
                assert!(
                    used[at] <= most,
                    "seed {seed}: {who} has {used:?} of {most}"
                );
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    looks
}

/// One round; how many samples there were.
fn round(site: &Site, crew: &mut Crew, refusals: &mut Refusals, seed: u64) -> u64 {
    let mut dice = Random(seed.wrapping_mul(7919));
    let before = site.used();
    let hard = site.limits(&mut dice);
    let tasks = tasks(site, &hard, &mut dice);
    let done = AtomicBool::new(false);
    let ((logs, ends), looks) = std::thread::scope(|scope| {
        let end = SetOnDrop(&done);
        let sampler = scope.spawn(|| sample(site, &hard, &before, &done, seed));
        let (mut logs, _) = crew.race(&tasks);
        // From here on nobody gives anything back, and everybody wants more.
        let (more, ends) = crew.demand();
        logs.extend(more);
        drop(end);
        let looks = sampler.join();
        let looks = looks.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ((logs, ends), looks)
    });
    let mut log = Log::merged(logs);
    log.justify(&before, |who| hard[&who], refusals, seed);
    a_planted_refusal_is_found(&mut log, &tasks, (&before, &hard), seed);
    let last = log.last(&before);
    comes_to(site, &last, seed);
    for end in &ends {
        exactly_at_a_limit(end, (&before, &hard, &last), seed);
    }
    site.check(seed);
    crew.clean();
    comes_to(site, &before, seed);
    looks
}

/// Asserts that the ledger says so, when what was closed and removed is heard of.
fn comes_to(site: &Site, last: &Amounts, seed: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    while site.used() != *last && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(site.used(), *last, "seed {seed}");
}

/// The tasks of a round, and which of them a limit may refuse.
fn tasks(site: &Site, hard: &Amounts, dice: &mut Random) -> Vec<Task> {
    // A promise that is outstanding makes a refusal of anybody take a tenth of a second.
    let maps = dice.below(2) == 0;
    let task = |n: u32| {
        let of = |ids: Range<u32>, n: u32| ids.start + n % ids.len() as u32;
        let (uid, gid, project) = match n < RACERS - FREE_RACERS {
            true => (of(USERS, n), of(GROUPS, n / 3), of(PROJECTS, n / 6)),
            false => (FREE, FREE, FREE),
        };
        let is_limited = |who: QuotaId, at: Resource| hard[&who][at as usize] < u64::MAX;
        let either = |gid: u32, at: Resource| {
            is_limited(QuotaId::user(uid), at)
                || is_limited(QuotaId::group(gid), at)
                || is_limited(QuotaId::project(project), at)
        };
        let gids = if gid == FREE { FREE..FREE + 1 } else { GROUPS };
        Task {
            seed: dice.draw(),
            uid,
            gid,
            project,
            steps: if maps { 40 } else { 60 },
            maps: maps && dice.below(3) == 0,
            inodes: either(gid, Resource::Inodes),
            limited: gids.filter(|&gid| either(gid, Resource::Blocks)).collect(),
            place: site.place(project),
        }
    };
    (0..RACERS).map(task).collect()
}

/// The log could have told: before anybody has charged, a racer with room is refused nothing.
fn a_planted_refusal_is_found(
    log: &mut Log,
    tasks: &[Task],
    (before, hard): (&Amounts, &Amounts),
    seed: u64,
) {
    let with_room = tasks.iter().find_map(|task| {
        let owners = [
            QuotaId::user(task.uid),
            QuotaId::group(task.gid),
            QuotaId::project(task.project),
        ];
        let room = |who: &QuotaId| before[who][1] < hard[who][1];
        owners.iter().all(room).then_some(owners)
    });
    if let Some(owners) = with_room {
        log.refused("a planted file", (1, 2), &owners, [0, 1], None);
        let unjust = log.unjust(before, |who| hard[&who]);
        assert_eq!(unjust.len(), 1, "seed {seed}: {unjust:?}");
    }
}

/// Checks that an account that was refused one more unit is exactly at a limit.
fn exactly_at_a_limit(
    (owners, resource): &End,
    (before, hard, last): (&Amounts, &Amounts, &Amounts),
    seed: u64,
) {
    let at = *resource as usize;
    let is_full = |who: &QuotaId| last[who][at] == hard[who][at].max(before[who][at]);
    assert!(
        owners.iter().any(is_full),
        "seed {seed}: {owners:?} were refused {resource:?} below every limit: {last:?} of {hard:?}"
    );
}

/// Where the racers' processes begin; nothing in a run of the tests.
#[test]
fn racer() {
    racer::run_if_asked();
}

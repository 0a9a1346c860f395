//! Rounds of 64 threads that race to limits placed at random: never above, always up to, and every
//! refusal is held against the log of its round.
//!
//! `HEARTH_ROUNDS` (how many; otherwise as many as fit `SECONDS`) and `HEARTH_SEED` (the first one)
//! make it long: `cargo xtask soak` does.
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in what its threads share as well"
)]

#[path = "quota_rounds/log.rs"]
mod log;
#[path = "quota_rounds/worker.rs"]
mod worker;

use hearth::{Credentials, LimitChange, LimitUpdate, QuotaId, Resource, Volume};
use hearth_testing::threads::SetOnDrop;
use log::{Log, Refusals};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use worker::{Stamps, Worker};

const PAGE: u64 = 4096;
const THREADS: u64 = 64;
const USERS: u32 = 3;
const GROUPS: u32 = 2;
const PROJECTS: u32 = 3;
/// How long a run takes rounds up, without `HEARTH_ROUNDS`; never fewer than `LEAST`.
const SECONDS: u64 = 12;
const LEAST: u64 = 8;

/// Pages and inodes that everybody had before the round.
type Before = BTreeMap<QuotaId, [u64; 2]>;

/// A small generator, of the seed that a failure names.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The volume and everybody who has a limit.
fn everybody() -> Vec<QuotaId> {
    let mut all = vec![QuotaId::VOLUME];
    all.extend((1..=USERS).map(QuotaId::user));
    all.extend((1..=GROUPS).map(QuotaId::group));
    all.extend((1..=PROJECTS).map(QuotaId::project));
    all
}

fn used(volume: &Volume, who: QuotaId) -> [u64; 2] {
    let record = volume.quota().get(who).unwrap();
    [record.bytes.used / PAGE, record.inodes.used]
}

/// The hard limits of `who` as they are set, in pages and inodes.
fn hard(volume: &Volume, who: QuotaId) -> [u64; 2] {
    let record = volume.quota().get(who).unwrap();
    [
        record.bytes.hard.map_or(u64::MAX, |bytes| bytes / PAGE),
        record.inodes.hard.unwrap_or(u64::MAX),
    ]
}

/// A volume whose three project directories everybody may write in, with limits somewhere.
fn site(dice: &mut Dice) -> Volume {
    let volume = Volume::builder()
        .size((1500 + dice.below(4000)) * PAGE)
        .inodes(500 + dice.below(1500))
        .build()
        .unwrap();
    let root = volume.process(Credentials::root());
    root.umask(0);
    for project in 1..=PROJECTS {
        let tree = format!("/{project}");
        root.mkdir(&*tree, 0o777).unwrap();
        volume.quota().set_project_tree(&*tree, project).unwrap();
    }
    for who in everybody().into_iter().skip(1) {
        // Some have plenty, some little, some one page, some none at all.
        let mut place = |plenty: u64| match dice.below(6) {
            0 => LimitUpdate::Lift,
            1 => LimitUpdate::To(dice.below(3)),
            _ => LimitUpdate::To(dice.below(plenty)),
        };
        let (pages, inodes) = (place(2500), place(700));
        let bytes = match pages {
            // Not always whole pages: what is beyond the last one nobody can use.
            LimitUpdate::To(pages) => LimitUpdate::To(pages * PAGE + dice.below(2) * 1000),
            other => other,
        };
        let change = LimitChange {
            bytes_hard: bytes,
            inodes_hard: inodes,
            ..LimitChange::default()
        };
        volume.quota().set(who, &change).unwrap();
    }
    volume
}

/// Looks again and again until `done`; how often it looked.
fn sample(volume: &Volume, before: &Before, done: &AtomicBool, seed: u64) -> u64 {
    let mut looks = 0;
    while !done.load(Relaxed) {
        looks += 1;
        for record in volume.quota().report() {
            // What was there before its limit, as the directory of a project, stays.
            let [pages, inodes] = before.get(&record.who).copied().unwrap_or_default();
            for (usage, before) in [(record.bytes, pages * PAGE), (record.inodes, inodes)] {
                let limit = usage.hard.unwrap_or(u64::MAX).max(before);
                // What cores hold in advance is reserved: it has its place below the limit too.
                let over = usage.reserved > limit;
                assert!(!over, "seed {seed}, {}: {usage:?}", record.who);
                assert!(usage.used <= usage.reserved, "seed {seed}: {record:?}");
            }
        }
        std::thread::yield_now();
    }
    looks
}

/// One round; what was refused, and how many samples there were.
fn round(seed: u64) -> (Refusals, u64) {
    let mut dice = Dice(seed.wrapping_mul(7919).wrapping_add(13));
    let volume = site(&mut dice);
    let before = everybody()
        .into_iter()
        .map(|who| (who, used(&volume, who)))
        .collect::<Before>();
    let (stamps, done) = (Stamps::default(), AtomicBool::new(false));
    let barrier = Barrier::new(THREADS as usize);
    let (done_by_all, looks) = std::thread::scope(|scope| {
        let end = SetOnDrop(&done);
        let sampler = scope.spawn(|| sample(&volume, &before, &done, seed));
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let dice = Dice(dice.below(u64::MAX));
                let (volume, stamps, barrier) = (&volume, &stamps, &barrier);
                scope.spawn(move || {
                    let new = || Worker::new(volume, thread, dice, stamps);
                    let worker = catch_unwind(AssertUnwindSafe(new));
                    barrier.wait();
                    let raced = worker.and_then(|mut worker| {
                        catch_unwind(AssertUnwindSafe(|| worker.race()))?;
                        Ok(worker)
                    });
                    barrier.wait();
                    // The others wait for nobody any more.
                    let mut worker = raced.unwrap_or_else(|panic| resume_unwind(panic));
                    // From here on nobody gives anything back, and everybody wants more.
                    let ends = worker.demand();
                    (worker.into_log(), ends)
                })
            })
            .collect();
        let done_by_all: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        drop(end);
        (done_by_all, sampler.join().unwrap())
    });
    let (logs, ends): (Vec<_>, Vec<_>) = done_by_all.into_iter().unzip();
    let log = Log::merged(logs);
    let mut refusals = Refusals::new();
    log.justify(&before, |who| hard(&volume, who), &mut refusals, seed);
    for (who, last) in log.last(&before) {
        assert_eq!(used(&volume, who), last, "seed {seed}: {who}");
    }
    for (payers, resource) in ends.into_iter().flatten() {
        exactly_at_a_limit(&volume, &before, payers, resource, seed);
    }
    let check = volume.quota().check().unwrap();
    assert!(check.is_clean(), "seed {seed}: {check:?}");
    (refusals, looks)
}

/// Checks that an account that was refused one more unit is exactly at a limit.
fn exactly_at_a_limit(
    volume: &Volume,
    before: &Before,
    payers: [QuotaId; 4],
    resource: Resource,
    seed: u64,
) {
    let at = resource as usize;
    // The directory of a project was there before a limit of none.
    let full = |who| used(volume, who)[at] == hard(volume, who)[at].max(before[&who][at]);
    assert!(
        payers.into_iter().any(full),
        "seed {seed}: {payers:?} were refused {resource:?} below every limit"
    );
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

#[test]
fn sixty_four_threads_end_exactly_at_the_limits_and_every_refusal_is_justified() {
    let first = number("HEARTH_SEED").unwrap_or(1);
    let rounds = number("HEARTH_ROUNDS");
    let end = Instant::now() + Duration::from_secs(SECONDS);
    let (mut seed, mut refusals, mut looks) = (first, Refusals::new(), 0);
    while match rounds {
        Some(rounds) => seed - first < rounds,
        None => seed - first < LEAST || Instant::now() < end,
    } {
        let seen = round(seed);
        assert!(
            !seen.0.is_empty(),
            "seed {seed}: nobody was refused anything"
        );
        for (what, count) in seen.0 {
            *refusals.entry(what).or_default() += count;
        }
        looks += seen.1;
        seed += 1;
    }
    println!(
        "{} rounds, {looks} samples, refusals justified: {refusals:?}",
        seed - first
    );
}

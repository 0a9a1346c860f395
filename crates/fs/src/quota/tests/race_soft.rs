//! The race with soft limits: threads charge, free and transfer while another moves the clock over
//! the ends of grace periods, makes passes and looks at every record.

use super::race::{GIDS, PROJECTS, UIDS, limited};
use super::truth::{Dice, Truth, Truths};
use super::{
    IdSettings, Limit, NO_ACCOUNT, Owners, QuotaId, Refusal, RefusalReason, Resource, Tuning,
    owners,
};
use crate::quota::ledger::Ledger;
use crate::quota::{QuotaEvent, QuotaEventKind};
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use hearth_sync::primitive::{Arc, thread};
use hearth_testing::threads::SetOnDrop;
use std::collections::{BTreeMap, HashMap};

const THREADS: u64 = 8;
const STEPS: u64 = 500;
/// Seconds that pass while the threads work. Periods are shorter.
const SPAN: u64 = 100;
const NO_LIMIT: u64 = 1_000_000;

/// What a thread has charged.
#[derive(Clone, Copy)]
struct Held {
    account: u32,
    whose: Owners,
    amount: u64,
}

/// The deadlines of records at one moment.
struct Look {
    now: i64,
    deadlines: Vec<(QuotaId, Option<i64>)>,
}

/// How often something was seen in all rounds: a race that never meets a limit proves nothing.
#[derive(Default)]
struct Seen {
    late: AtomicU64,
    full: AtomicU64,
    transfers: AtomicU64,
    refused_transfers: AtomicU64,
}

struct SoftRound<'a> {
    ledger: Ledger,
    clock: Arc<AtomicI64>,
    truths: Truths,
    steps: AtomicU64,
    seen: &'a Seen,
}

fn whose(dice: &mut Dice) -> Owners {
    let mut id = |end: u32| 1 + dice.below(u64::from(end)) as u32;
    owners(id(UIDS), id(GIDS), id(PROJECTS))
}

impl SoftRound<'_> {
    fn new<'a>(dice: &mut Dice, seen: &'a Seen) -> SoftRound<'a> {
        let tuning = Tuning {
            batch: 1 + dice.below(64),
            least: 1 + dice.below(4),
            shares: 1 + dice.below(8),
            singly: u32::MAX,
        };
        let volume = 500 + dice.below(3000);
        let clock = Arc::new(AtomicI64::new(0));
        let cx = Arc::clone(&clock);
        let ledger = Ledger::new(tuning, (volume, volume), true, move || cx.load(SeqCst));
        let g = pin();
        let mut truths = vec![Truth::new(QuotaId::VOLUME, volume)];
        for who in limited() {
            let mut truth = Truth::new(who, NO_LIMIT);
            if dice.below(3) > 0 {
                truth.hard = dice.below(1200);
            }
            if dice.below(4) > 0 {
                truth.soft = dice.below(truth.hard.min(600) + 1);
            }
            truth.grace = 5 + dice.below(20) as i64;
            let limit = Limit {
                hard: Some(truth.hard),
                soft: Some(truth.soft).filter(|&soft| soft != u64::MAX),
            };
            let own = IdSettings {
                limits: [None, Some(limit)],
                grace: [None, Some(truth.grace as u64)],
            };
            ledger.with_state(&g, |state, cx| state.set_own(who, own, cx));
            truths.push(truth);
        }
        SoftRound {
            ledger,
            clock,
            truths: Truths(truths),
            steps: AtomicU64::new(0),
            seen,
        }
    }

    /// Charges, frees and transfers at random; at the end it holds what it answers.
    fn work(&self, mut dice: Dice) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        for _ in 0..STEPS {
            self.steps.fetch_add(1, SeqCst);
            let at = dice.below(held.len().max(1) as u64) as usize;
            match dice.below(20) {
                0..5 if !held.is_empty() => self.free(held.swap_remove(at)),
                5..9 if !held.is_empty() => held[at] = self.transfer(held[at], whose(&mut dice)),
                9 => drop(self.ledger.recall_unused(dice.below(20) as u32, 6)),
                _ => {
                    let (whose, amount) = (whose(&mut dice), 1 + dice.below(9));
                    held.extend(self.charge(whose, amount, dice.below(4) == 0));
                }
            }
        }
        held
    }

    fn free(&self, held: Held) {
        let whose = held.whose.ids();
        self.truths.begin_return(&whose);
        self.ledger
            .free(held.account, Resource::Inodes, held.amount, &pin());
        self.truths.end_return(&whose, held.amount);
    }

    fn charge(&self, whose: Owners, amount: u64, gives_up: bool) -> Option<Held> {
        let ids = whose.ids();
        let look = self.make_exact(&ids);
        let before = self.truths.ask(&ids, amount);
        let g = pin();
        let request = (Resource::Inodes, amount);
        let mut charge = match self.ledger.charge_new(NO_ACCOUNT, whose, request, &g) {
            Ok(charge) => charge,
            Err(refusal) => {
                self.refused(&refusal, &ids, &before, &look);
                self.truths.abort(&ids, amount);
                return None;
            }
        };
        self.let_through(&look);
        let account = charge.account();
        if gives_up {
            self.truths.begin_return(&ids);
            drop(charge);
            self.truths.end_return(&ids, amount);
            return None;
        }
        charge.spend(amount);
        Some(Held {
            account,
            whose,
            amount,
        })
    }

    /// Gives `held` to others, as far as it is let; who has it then.
    fn transfer(&self, held: Held, to: Owners) -> Held {
        let Held {
            account,
            whose,
            amount,
        } = held;
        let without = |these: Owners, others: Owners| -> Vec<QuotaId> {
            let ids = these.ids().into_iter();
            ids.filter(|id| !others.ids().contains(id)).collect()
        };
        let (leaves, enters) = (without(whose, to), without(to, whose));
        let look = self.make_exact(&enters);
        self.truths.begin_return(&leaves);
        let before = self.truths.ask(&enters, amount);
        let moved = self
            .ledger
            .transfer(account, to, [0, amount], false, &pin());
        match moved {
            Ok(account) => {
                self.let_through(&look);
                self.truths.end_return(&leaves, amount);
                self.seen.transfers.fetch_add(1, SeqCst);
                Held {
                    account,
                    whose: to,
                    amount,
                }
            }
            Err(refusal) => {
                self.refused(&refusal, &enters, &before, &look);
                self.truths.abort(&enters, amount);
                self.truths.end_return(&leaves, 0);
                self.seen.refused_transfers.fetch_add(1, SeqCst);
                held
            }
        }
    }

    fn make_exact(&self, ids: &[QuotaId]) -> Look {
        self.ledger.with_state(&pin(), |state, cx| {
            let deadline = |&who: &QuotaId| (who, state.sample(who).usage[1].usage.deadline);
            Look {
                now: cx.now,
                deadlines: ids.iter().map(deadline).collect(),
            }
        })
    }

    /// Something was taken after `look`: by nobody whose time was up then and is still.
    fn let_through(&self, look: &Look) {
        for &(who, deadline) in &look.deadlines {
            if deadline.is_some_and(|deadline| deadline <= look.now) {
                let (_, now) = self.make_exact(&[who]).deadlines[0];
                assert_ne!(now, deadline, "{who} was let through after the deadline");
            }
        }
    }

    /// Somebody was refused after `look`: there is no room, and if that is for a soft limit, the
    /// time was up.
    fn refused(&self, refusal: &Refusal, ids: &[QuotaId], before: &[u64], look: &Look) {
        self.truths.justify(refusal, ids, before);
        if refusal.reason == RefusalReason::Hard {
            self.seen.full.fetch_add(1, SeqCst);
            return;
        }
        self.seen.late.fetch_add(1, SeqCst);
        let now = self.clock.load(SeqCst);
        let (at, truth) = self
            .truths
            .of(ids)
            .enumerate()
            .find(|(_, t)| t.who == refusal.who)
            .expect("refused by a record of the owners");
        assert_eq!(look.deadlines[at].0, truth.who);
        // The deadline of then, or that of a crossing since.
        let next = look.now + truth.grace;
        let earliest = look.deadlines[at].1.map_or(next, |then| then.min(next));
        assert!(
            now >= earliest,
            "{refusal:?} at {now}, not before {earliest}"
        );
    }

    /// Moves the clock, makes passes and looks at every record until the threads are done.
    fn watch(&self, done: &AtomicBool) -> Watch {
        let mut watch = Watch::default();
        while !done.load(SeqCst) {
            let passed = self.steps.load(SeqCst) * SPAN / (THREADS * STEPS);
            self.clock.store(passed as i64, SeqCst);
            self.ledger.report_ended(3);
            watch.sample(self);
            thread::yield_now();
        }
        watch
    }

    /// Alone now: records hold what the threads do, and every answer can be foretold.
    fn foretell(&self, held: &[Held]) {
        let g = pin();
        let mut accounts: BTreeMap<Owners, u64> = BTreeMap::new();
        for held in held {
            *accounts.entry(held.whose).or_default() += held.amount;
        }
        let walked = self.ledger.with_state(&g, |state, cx| state.by_owners(cx));
        let walked = walked.into_iter().map(|(whose, used)| (whose, used[1]));
        let walked: BTreeMap<Owners, u64> = walked.filter(|(_, used)| *used > 0).collect();
        assert_eq!(walked, accounts);
        for truth in &self.truths.0 {
            let of = accounts
                .iter()
                .filter(|(o, _)| o.ids().contains(&truth.who));
            let used: u64 = of.map(|(_, amount)| amount).sum();
            let usage = self.ledger.usage(truth.who, &g);
            assert_eq!((usage[1].used, truth.high()), (used, used), "{}", truth.who);
        }
        for n in 0..UIDS * GIDS * PROJECTS {
            let whose = owners(1 + n % UIDS, 1 + n / UIDS % GIDS, 1 + n / (UIDS * GIDS));
            for amount in [1, 40] {
                let expected = self.answer(whose, amount);
                let request = (Resource::Inodes, amount);
                let answer = self.ledger.charge_new(NO_ACCOUNT, whose, request, &g);
                assert_eq!(answer.err(), expected, "{amount} for {whose:?}");
            }
        }
    }

    /// What a charge is refused for, by the limits and what is used.
    fn answer(&self, whose: Owners, amount: u64) -> Option<Refusal> {
        let now = self.clock.load(SeqCst);
        // The first record that refuses, in the order of the four.
        whose.ids().into_iter().find_map(|who| {
            let truth = self.truths.0.iter().find(|truth| truth.who == who)?;
            let deadline = self.make_exact(&[who]).deadlines[0].1;
            let sum = truth.high() + amount;
            let is_late = deadline.is_some_and(|deadline| now >= deadline);
            let reason = match sum {
                sum if sum > truth.hard => RefusalReason::Hard,
                sum if sum > truth.soft && is_late => RefusalReason::GraceEnded,
                _ => return None,
            };
            Some(Refusal { who, reason })
        })
    }
}

/// What the samples of a round have seen.
#[derive(Default)]
struct Watch {
    /// Of records whose deadline was past at the last sample: it, and what they used.
    late: HashMap<QuotaId, (i64, u64)>,
    /// Of records above their soft limit, as events have it: the deadline, and whether its end was
    /// told of. All records are told of until an event was missed.
    above: HashMap<QuotaId, Option<(i64, bool)>>,
    missed: bool,
    last: u64,
    time: i64,
}

impl Watch {
    fn sample(&mut self, round: &SoftRound<'_>) {
        let (now, report, events) = round.ledger.with_state(&pin(), |state, cx| {
            let events = state.events_after(self.last);
            (cx.now, state.report(cx), events)
        });
        for truth in &round.truths.0 {
            let of = report.iter().find(|sample| sample.who == truth.who);
            let usage = &of.expect("limits keep a record").usage[1];
            let (who, reserved) = (truth.who, usage.usage.reserved);
            assert!(reserved <= truth.hard, "{who}: {reserved} > {}", truth.hard);
            let deadline = usage.usage.deadline;
            assert_eq!(
                deadline.is_some(),
                reserved > truth.soft,
                "{who}: {reserved}"
            );
            assert!(
                deadline.is_none() || usage.used == reserved,
                "{who}: credit"
            );
            let before = self.late.remove(&who);
            if let Some(deadline) = deadline.filter(|&deadline| deadline <= now) {
                if let Some((then, used)) = before.filter(|(then, _)| *then == deadline) {
                    assert!(reserved <= used, "{who} grew after {then}");
                }
                self.late.insert(who, (deadline, reserved));
            }
        }
        for event in events {
            self.hear(round, &event);
        }
    }

    fn hear(&mut self, round: &SoftRound<'_>, event: &QuotaEvent) {
        if event.sequence != self.last + 1 {
            self.above.clear();
            self.missed = true;
        }
        assert!(event.time >= self.time, "{event:?}");
        (self.last, self.time) = (event.sequence, event.time);
        let known = self.above.get(&event.who).copied();
        let known = known.or((!self.missed).then_some(None));
        let truth = round.truths.0.iter().find(|t| t.who == event.who);
        let truth = truth.expect("an event of a record with limits");
        let now = match event.what {
            QuotaEventKind::SoftCrossed { deadline } => {
                assert!(known.is_none_or(|known| known.is_none()), "{event:?}");
                assert_eq!(deadline, event.time + truth.grace, "{event:?}");
                Some((deadline, false))
            }
            QuotaEventKind::SoftReturned => {
                assert!(known.is_none_or(|known| known.is_some()), "{event:?}");
                None
            }
            QuotaEventKind::GraceEnded | QuotaEventKind::Refused(RefusalReason::GraceEnded) => {
                let Some(known) = known else { return };
                let (deadline, told) = known.unwrap_or_else(|| panic!("{event:?}: not above"));
                assert!(deadline <= event.time, "{event:?}: {deadline}");
                let twice = told && event.what == QuotaEventKind::GraceEnded;
                assert!(!twice, "{event:?}: told before");
                Some((deadline, true))
            }
            QuotaEventKind::Refused(RefusalReason::Hard) => return,
            QuotaEventKind::HardCrossed
            | QuotaEventKind::WriteLost { .. }
            | QuotaEventKind::ProjectLeft { .. } => panic!("{event:?}: nobody does that"),
        };
        self.above.insert(event.who, now);
    }
}

#[test]
fn racing_threads_cross_soft_limits_with_an_event_and_grow_only_until_the_deadline() {
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(40, |n| n.parse().unwrap());
    let seen = Seen::default();
    let mut ends = 0;
    for seed in 0..rounds {
        let mut dice = Dice(seed * 6151 + 7);
        let round = SoftRound::new(&mut dice, &seen);
        let done = AtomicBool::new(false);
        let (held, mut watch) = thread::scope(|scope| {
            let end = SetOnDrop(&done);
            let watcher = scope.spawn(|| round.watch(&done));
            let workers: Vec<_> = (0..THREADS)
                .map(|_| {
                    let dice = Dice(dice.below(u64::MAX));
                    scope.spawn(|| round.work(dice))
                })
                .collect();
            let held: Vec<Held> = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap())
                .collect();
            drop(end);
            (held, watcher.join().unwrap())
        });
        watch.sample(&round);
        round.foretell(&held);
        // Whoever is above a soft limit now is late, and that is told of.
        round.clock.store(10_000, SeqCst);
        while !round.ledger.report_ended(1) {}
        watch.sample(&round);
        round.foretell(&held);
        let told = watch.above.values().flatten();
        ends += told.inspect(|(_, told)| assert!(*told)).count();
    }
    let counts = [
        &seen.late,
        &seen.full,
        &seen.transfers,
        &seen.refused_transfers,
    ];
    let counts = counts.map(|count| count.load(SeqCst));
    assert!(
        ends > 0 && counts.iter().all(|&count| count > 0),
        "{ends} {counts:?}"
    );
}

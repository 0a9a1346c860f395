//! Threads against limits at random places: never above, always up to, every refusal justified.

use super::truth::{Dice, Truth, Truths};
use super::{BLOCK, IdSettings, Limit, NO_ACCOUNT, Owners, QuotaId, Resource, Tuning, owners};
use crate::quota::ledger::Ledger;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering::SeqCst};
use hearth_sync::primitive::thread;
use hearth_testing::threads::SetOnDrop;

pub(super) const UIDS: u32 = 3;
pub(super) const GIDS: u32 = 2;
pub(super) const PROJECTS: u32 = 3;

pub(super) fn limited() -> Vec<QuotaId> {
    let users = (0..UIDS).map(|id| QuotaId::user(id + 1));
    let groups = (0..GIDS).map(|id| QuotaId::group(id + 1));
    let projects = (0..PROJECTS).map(|id| QuotaId::project(id + 1));
    users.chain(groups).chain(projects).collect()
}

struct Round {
    ledger: Ledger,
    truths: Truths,
}

impl Round {
    fn new(dice: &mut Dice) -> Round {
        let tuning = Tuning {
            batch: 1 + dice.below(64),
            least: 1 + dice.below(4),
            shares: 1 + dice.below(8),
            singly: u32::MAX,
        };
        let volume = 500 + dice.below(3000);
        let ledger = Ledger::new(tuning, (volume, volume), true, || 0);
        let g = pin();
        let mut truths = vec![Truth::new(QuotaId::VOLUME, volume)];
        for who in limited() {
            let hard = match dice.below(4) {
                0 => 1_000_000,
                _ => dice.below(1500),
            };
            let limit = Some(Limit {
                hard: Some(hard),
                soft: None,
            });
            let own = IdSettings {
                limits: [None, limit],
                grace: [None; 2],
            };
            ledger.with_state(&g, |state, cx| state.set_own(who, own, cx));
            truths.push(Truth::new(who, hard));
        }
        let truths = Truths(truths);
        Round { ledger, truths }
    }

    /// Charges and frees at random; at the end it holds what it answers.
    fn work(&self, mut dice: Dice) -> Vec<(u32, Owners, u64)> {
        let mut held: Vec<(u32, Owners, u64)> = Vec::new();
        for _ in 0..600 {
            if dice.below(3) == 0 && !held.is_empty() {
                let at = dice.below(held.len() as u64) as usize;
                let (account, whose, amount) = held.swap_remove(at);
                self.truths.begin_return(&whose.ids());
                self.ledger.free(account, Resource::Inodes, amount, &pin());
                self.truths.end_return(&whose.ids(), amount);
                continue;
            }
            let die = |dice: &mut Dice, end: u32| 1 + dice.below(u64::from(end)) as u32;
            let whose = owners(
                die(&mut dice, UIDS),
                die(&mut dice, GIDS),
                die(&mut dice, PROJECTS),
            );
            let amount = 1 + dice.below(9);
            if let Some(account) = self.charge(whose, amount, dice.below(4) == 0) {
                held.push((account, whose, amount));
            }
        }
        held
    }

    fn charge(&self, whose: Owners, amount: u64, gives_up: bool) -> Option<u32> {
        let before = self.truths.ask(&whose.ids(), amount);
        let g = pin();
        let answer = self
            .ledger
            .charge_new(NO_ACCOUNT, whose, (Resource::Inodes, amount), &g);
        match answer {
            Ok(mut charge) if !gives_up => {
                charge.spend(amount);
                Some(charge.account())
            }
            Ok(charge) => {
                // A reservation that comes back is a free like others.
                self.truths.begin_return(&whose.ids());
                drop(charge);
                self.truths.end_return(&whose.ids(), amount);
                None
            }
            Err(refusal) => {
                self.truths.justify(&refusal, &whose.ids(), &before);
                self.truths.abort(&whose.ids(), amount);
                None
            }
        }
    }

    fn sample(&self) {
        let g = pin();
        let report = self.ledger.with_state(&g, |state, cx| state.report(cx));
        for truth in &self.truths.0 {
            let record = report.iter().find(|sample| sample.who == truth.who);
            let used = record.map_or(0, |sample| sample.usage[1].used);
            assert!(used <= truth.hard, "{}: {used} > {}", truth.who, truth.hard);
        }
    }

    /// Alone now: what is left to take is exactly what the limits leave.
    fn fill(&self, held: &[(u32, Owners, u64)]) {
        let g = pin();
        let used = |who: QuotaId| -> u64 {
            let whose = held.iter().filter(|(_, o, _)| o.ids().contains(&who));
            whose.map(|(.., amount)| amount).sum()
        };
        for truth in &self.truths.0 {
            let usage = self.ledger.usage(truth.who, &g);
            assert_eq!(usage[1].used, used(truth.who), "{}", truth.who);
        }
        let whose = owners(1, 1, 1);
        let room = self
            .truths
            .of(&whose.ids())
            .map(|t| t.hard - used(t.who))
            .min()
            .expect("three records have limits");
        let charge = |amount| {
            self.ledger
                .charge_new(NO_ACCOUNT, whose, (Resource::Inodes, amount), &g)
        };
        assert!(charge(room + 1).is_err(), "one more than {room}");
        for left in (0..room).rev() {
            let mut one = charge(1).unwrap_or_else(|_| panic!("{left} + 1 are left"));
            one.spend(1);
        }
        assert!(charge(1).is_err());
    }
}

#[test]
fn racing_threads_never_pass_a_limit_and_are_never_refused_free_space() {
    let rounds = std::env::var("HEARTH_ROUNDS").map_or(60, |n| n.parse().unwrap());
    for seed in 0..rounds {
        let mut dice = Dice(seed * 7919 + 13);
        let round = Round::new(&mut dice);
        let done = AtomicBool::new(false);
        let held = thread::scope(|scope| {
            let end = SetOnDrop(&done);
            let sampler = scope.spawn(|| {
                while !done.load(SeqCst) {
                    round.sample();
                    thread::yield_now();
                }
            });
            let workers: Vec<_> = (0..8)
                .map(|_| {
                    let dice = Dice(dice.below(u64::MAX));
                    scope.spawn(|| round.work(dice))
                })
                .collect();
            let held: Vec<_> = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap())
                .collect();
            drop(end);
            sampler.join().unwrap();
            held
        });
        for truth in &round.truths.0 {
            let whose = held.iter().filter(|(_, o, _)| o.ids().contains(&truth.who));
            let used: u64 = whose.map(|(.., amount)| amount).sum();
            assert_eq!(truth.high(), used, "the test counts right");
        }
        round.fill(&held);
    }
}

/// Many short-lived owners: accounts are ended and made again under the threads.
#[test]
fn accounts_that_come_and_go_lose_nothing() {
    let tuning = Tuning {
        batch: 16,
        least: 1,
        shares: 2,
        singly: u32::MAX,
    };
    let ledger = Ledger::new(tuning, (u64::MAX / BLOCK, 100_000), true, || 0);
    thread::scope(|scope| {
        for seed in 0..4 {
            let ledger = &ledger;
            scope.spawn(move || {
                let mut dice = Dice(seed);
                for _ in 0..4000 {
                    let whose = owners(dice.below(200) as u32, 7, dice.below(3) as u32);
                    let g = pin();
                    let request = (Resource::Inodes, 1);
                    let mut charge = ledger.charge_new(NO_ACCOUNT, whose, request, &g).unwrap();
                    charge.spend(1);
                    let account = charge.account();
                    match dice.below(50) {
                        0 => ledger.with_state(&g, |state, cx| state.sweep(cx)),
                        1..4 => drop(ledger.recall_unused(dice.below(200) as u32, 20)),
                        _ => (),
                    }
                    ledger.free(account, Resource::Inodes, 1, &g);
                }
            });
        }
    });
    let g = pin();
    let left = ledger.with_state(&g, |state, cx| {
        state.sweep(cx);
        (state.accounts(), state.report(cx))
    });
    assert_eq!(left.0, 0);
    assert!(left.1.iter().all(|sample| sample.usage[1].used == 0));
    assert_eq!(left.1.len(), 1, "only the volume's record is left");
}

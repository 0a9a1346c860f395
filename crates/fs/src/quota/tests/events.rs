//! What is told of limits that are crossed and of grace periods that end: when, and how often.

use super::{Bench, bench, owners};
use crate::quota::QuotaEventKind::{GraceEnded, HardCrossed, Refused, SoftCrossed, SoftReturned};
use crate::quota::state::Refusal;
use crate::quota::{
    IdSettings, Limit, NO_ACCOUNT, Owners, QuotaEventKind, QuotaId, QuotaKind, RefusalReason,
};
use crate::quota::{KindSettings, Resource};
use hearth_sync::epoch::pin;
use hearth_sync::primitive::atomic::Ordering::Relaxed;

const ONE: QuotaId = QuotaId {
    kind: QuotaKind::User,
    id: 1,
};
const TWO: QuotaId = QuotaId {
    kind: QuotaKind::User,
    id: 2,
};

/// A bench and one of the resources; its clock begins at 1000.
struct Site {
    bench: Bench,
    resource: Resource,
}

/// Checks a fact for blocks and for inodes.
fn for_both(fact: impl Fn(&Site)) {
    for resource in Resource::ALL {
        let bench = bench(10_000, 10_000);
        fact(&Site { bench, resource });
    }
}

fn user(uid: u32) -> Owners {
    owners(uid, 7, 0)
}

impl Site {
    /// In blocks or inodes, and seconds.
    fn limit(&self, who: QuotaId, hard: Option<u64>, soft: Option<u64>, grace: u64) {
        let mut own = IdSettings::default();
        own.limits[self.resource as usize] = Some(self.amounts(hard, soft));
        own.grace[self.resource as usize] = Some(grace);
        let g = pin();
        let ledger = &self.bench.ledger;
        ledger.with_state(&g, |state, cx| state.set_own(who, own, cx));
    }

    fn amounts(&self, hard: Option<u64>, soft: Option<u64>) -> Limit {
        let amount = |units: u64| units * self.resource.unit();
        Limit {
            hard: hard.map(amount),
            soft: soft.map(amount),
        }
    }

    fn rules(&self, rules: KindSettings) {
        let g = pin();
        let ledger = &self.bench.ledger;
        ledger.with_state(&g, |state, cx| state.set_rules(QuotaKind::User, rules, cx));
    }

    fn take(&self, whose: Owners, amount: u64) -> Result<u32, Refusal> {
        let g = pin();
        let request = (self.resource, amount);
        let mut charge = self
            .bench
            .ledger
            .charge_new(NO_ACCOUNT, whose, request, &g)?;
        charge.spend(amount);
        Ok(charge.account())
    }

    fn free(&self, account: u32, amount: u64) {
        let ledger = &self.bench.ledger;
        ledger.free(account, self.resource, amount, &pin());
    }

    /// As root's chown does.
    fn force(&self, from: u32, to: Owners, amount: u64) {
        let mut amounts = [0; 2];
        amounts[self.resource as usize] = amount;
        let ledger = &self.bench.ledger;
        let forced = ledger.transfer(from, to, amounts, true, &pin());
        assert!(forced.is_ok(), "{forced:?}");
    }

    /// A pass of the background at this time.
    fn pass(&self, now: i64) {
        self.bench.clock.store(now, Relaxed);
        assert!(self.bench.ledger.report_ended(64));
    }

    #[track_caller]
    fn told(&self, expected: &[QuotaEventKind]) {
        let events = self.bench.events();
        let told: Vec<QuotaEventKind> = events.iter().map(|event| event.what).collect();
        assert_eq!(told, expected, "{:?}", self.resource);
        assert!(events.iter().all(|event| event.resource == self.resource));
    }
}

#[test]
fn the_end_of_a_grace_period_is_reported_once_when_it_comes() {
    for_both(|site| {
        site.limit(ONE, Some(100), Some(5), 100);
        let account = site.take(user(1), 6).unwrap();
        site.pass(1099);
        site.told(&[SoftCrossed { deadline: 1100 }]);
        site.pass(1100);
        site.pass(1100);
        site.pass(5000);
        let ended = [SoftCrossed { deadline: 1100 }, GraceEnded];
        site.told(&ended);
        let event = site.bench.events().remove(1);
        let unit = site.resource.unit();
        assert_eq!((event.who, event.time), (ONE, 1100));
        assert_eq!((event.used, event.limit), (6 * unit, 5 * unit));
        // Who is refused later is told of too, and the next crossing has its own end.
        assert!(site.take(user(1), 1).is_err());
        site.free(account, 1);
        site.take(user(1), 1).unwrap();
        site.pass(5099);
        site.pass(5100);
        let again = [
            Refused(RefusalReason::GraceEnded),
            SoftReturned,
            SoftCrossed { deadline: 5100 },
            GraceEnded,
        ];
        site.told(&[&ended[..], &again[..]].concat());
    });
}

#[test]
fn the_end_of_a_grace_period_is_not_reported_after_a_refusal() {
    for_both(|site| {
        site.limit(ONE, Some(100), Some(5), 100);
        site.take(user(1), 6).unwrap();
        site.bench.clock.store(1100, Relaxed);
        assert!(site.take(user(1), 1).is_err());
        site.pass(1100);
        site.pass(2000);
        let refused = Refused(RefusalReason::GraceEnded);
        site.told(&[SoftCrossed { deadline: 1100 }, refused]);
    });
}

#[test]
fn no_end_is_reported_when_use_came_back_within_the_period() {
    for_both(|site| {
        site.limit(ONE, Some(100), Some(5), 100);
        let account = site.take(user(1), 6).unwrap();
        site.free(account, 1);
        site.pass(2000);
        let back = [SoftCrossed { deadline: 1100 }, SoftReturned];
        site.told(&back);
        // Nor of one that is not enforced any more, or whose limit was lifted.
        for end in [1, 2] {
            let taken = site.take(user(1), 1).unwrap();
            if end == 1 {
                site.rules(KindSettings {
                    enforced: false,
                    ..KindSettings::default()
                });
            } else {
                site.limit(ONE, Some(100), None, 100);
            }
            site.pass(2000 + 1000 * end);
            site.free(taken, 1);
            site.rules(KindSettings::default());
        }
        let deadlines = [2100, 3100];
        let more = deadlines.map(|deadline| [SoftCrossed { deadline }, SoftReturned]);
        site.told(&[back, more[0], more[1]].concat());
    });
}

#[test]
fn a_period_that_is_changed_is_told_at_its_new_end() {
    for_both(|site| {
        site.limit(ONE, None, Some(5), 100);
        site.take(user(1), 6).unwrap();
        site.pass(1050);
        site.limit(ONE, None, Some(5), 500);
        site.pass(1549);
        site.told(&[SoftCrossed { deadline: 1100 }]);
        site.pass(1550);
        site.limit(ONE, None, Some(5), 600);
        site.take(user(1), 1).unwrap();
        site.pass(2149);
        site.told(&[SoftCrossed { deadline: 1100 }, GraceEnded]);
        site.pass(2150);
        site.told(&[SoftCrossed { deadline: 1100 }, GraceEnded, GraceEnded]);
    });
}

#[test]
fn many_periods_that_end_at_once_are_reported_in_slices() {
    for_both(|site| {
        let mut rules = KindSettings::default();
        rules.defaults[site.resource as usize] = site.amounts(None, Some(1));
        site.rules(rules);
        for uid in 1..=100 {
            site.take(user(uid), 2).unwrap();
        }
        // One of them owns nothing any more, and its record is another's.
        let gone = site.take(user(101), 2).unwrap();
        site.free(gone, 2);
        let g = pin();
        let ledger = &site.bench.ledger;
        ledger.with_state(&g, |state, cx| state.sweep(cx));
        site.take(user(102), 1).unwrap();
        site.bench.clock.store(i64::MAX, Relaxed);
        let slices = [30, 30, 30, 30].map(|most| ledger.report_ended(most));
        assert_eq!(slices, [false, false, false, true]);
        let events = site.bench.events();
        let ended = events.iter().filter(|event| event.what == GraceEnded);
        let mut whose: Vec<u32> = ended.map(|event| event.who.id).collect();
        whose.sort_unstable();
        assert_eq!(whose, (1..=100).collect::<Vec<u32>>());
    });
}

#[test]
fn use_forced_above_a_hard_limit_is_reported_once_until_it_is_within() {
    for_both(|site| {
        site.limit(TWO, Some(3), None, 0);
        let account = site.take(user(1), 10).unwrap();
        site.force(account, user(2), 3);
        site.told(&[]);
        site.force(account, user(2), 1);
        site.force(account, user(2), 1);
        site.told(&[HardCrossed]);
        let event = site.bench.events().remove(0);
        let unit = site.resource.unit();
        assert_eq!(
            (event.who, event.used, event.limit),
            (TWO, 4 * unit, 3 * unit)
        );
        let other = site.bench.ledger.number_of(user(2), &pin());
        site.free(other, 1);
        site.force(account, user(2), 1);
        site.told(&[HardCrossed]);
        // Back at the limit: the next time is another.
        site.free(other, 2);
        site.force(account, user(2), 1);
        site.told(&[HardCrossed, HardCrossed]);
    });
}

#[test]
fn existing_objects_and_a_lowered_limit_are_reported_above_the_limit_too() {
    for_both(|site| {
        site.limit(TWO, Some(8), Some(5), 100);
        let mut amounts = [0; 2];
        amounts[site.resource as usize] = 9;
        let ledger = &site.bench.ledger;
        ledger.charge_forced(user(2), amounts, &pin());
        let both = [SoftCrossed { deadline: 1100 }, HardCrossed];
        site.told(&both);
        site.limit(TWO, Some(6), Some(5), 100);
        site.told(&both);
        site.limit(TWO, Some(9), Some(5), 100);
        site.told(&both);
        site.limit(TWO, Some(8), Some(5), 100);
        site.told(&[&both[..], &[HardCrossed]].concat());
        // Nothing of it lets anybody take more.
        assert_eq!(
            site.take(user(2), 1).unwrap_err().reason,
            RefusalReason::Hard
        );
    });
}

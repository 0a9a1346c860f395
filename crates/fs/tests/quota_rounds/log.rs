//! What everybody did in a round, and whether it explains what was refused.
//!
//! Every operation has two stamps of a clock that all share: one of before it began and one of
//! after it ended. A charge counts from its first stamp on, a free until its second: at every
//! stamp, what the log counts is at least what was really used. A refusal is just if, at some stamp
//! between its own, what it asked for would have gone above the limit of somebody who may refuse
//! with that error.

use hearth::{Errno, QuotaId, QuotaKind, Resource};
use std::collections::{BTreeMap, HashMap};

struct Refusal {
    what: String,
    owners: Vec<QuotaId>,
    asked: [u64; 2],
    /// None of a write that was cut short, or of a signal: it does not say why.
    errno: Option<Errno>,
    begin: u64,
    end: u64,
}

/// How often what was refused.
pub(crate) type Refusals = BTreeMap<String, u64>;

/// Changes of usage by their stamps, with the accounts concerned, and what was refused.
#[derive(Default)]
pub(crate) struct Log {
    changes: Vec<(u64, Vec<QuotaId>, [i64; 2])>,
    refusals: Vec<Refusal>,
}

impl Log {
    /// More was used from `begin` on.
    pub(crate) fn charged(&mut self, begin: u64, owners: &[QuotaId], amounts: [u64; 2]) {
        let amounts = amounts.map(|amount| amount as i64);
        self.changes.push((begin, owners.to_vec(), amounts));
    }

    /// Less was used from `end` on.
    pub(crate) fn freed(&mut self, end: u64, owners: &[QuotaId], amounts: [u64; 2]) {
        let amounts = amounts.map(|amount| -(amount as i64));
        self.changes.push((end, owners.to_vec(), amounts));
    }

    /// `asked` on top of everything that the log has was refused in between.
    pub(crate) fn refused(
        &mut self,
        what: impl Into<String>,
        (begin, end): (u64, u64),
        owners: &[QuotaId],
        asked: [u64; 2],
        errno: Option<Errno>,
    ) {
        self.refusals.push(Refusal {
            what: what.into(),
            owners: owners.to_vec(),
            asked,
            errno,
            begin,
            end,
        });
    }

    pub(crate) fn merged(logs: Vec<Log>) -> Log {
        let mut all = Log::default();
        for log in logs {
            all.changes.extend(log.changes);
            all.refusals.extend(log.refusals);
        }
        // A unit is given back at a later stamp than it was charged, so no sum is below zero.
        all.changes.sort_by_key(|change| change.0);
        all
    }

    /// Asserts that every refusal is just, and counts them in `refusals` by what was refused.
    pub(crate) fn justify(
        &self,
        before: &BTreeMap<QuotaId, [u64; 2]>,
        hard: impl Fn(QuotaId) -> [u64; 2],
        refusals: &mut Refusals,
        seed: u64,
    ) {
        let unjust = self.unjust(before, hard);
        assert!(unjust.is_empty(), "seed {seed}: {}", unjust.join("\n"));
        for refusal in &self.refusals {
            *refusals.entry(refusal.what.clone()).or_default() += 1;
        }
    }

    /// The refusals that nothing explains, in words.
    pub(crate) fn unjust(
        &self,
        before: &BTreeMap<QuotaId, [u64; 2]>,
        hard: impl Fn(QuotaId) -> [u64; 2],
    ) -> Vec<String> {
        let courses = self.courses(before);
        let limits: HashMap<QuotaId, [u64; 2]> =
            before.keys().map(|&who| (who, hard(who))).collect();
        let unjust = |refusal: &Refusal| refusal.held_against(&courses, &limits).err();
        self.refusals.iter().filter_map(unjust).collect()
    }

    /// What everybody has after it.
    pub(crate) fn last(&self, before: &BTreeMap<QuotaId, [u64; 2]>) -> BTreeMap<QuotaId, [u64; 2]> {
        let courses = self.courses(before).into_iter();
        courses.map(|(who, course)| (who, course.last())).collect()
    }

    fn courses(&self, before: &BTreeMap<QuotaId, [u64; 2]>) -> HashMap<QuotaId, Course> {
        let mut courses: HashMap<QuotaId, Course> = before
            .iter()
            .map(|(&who, &used)| (who, Course::from(used)))
            .collect();
        for (stamp, owners, amounts) in &self.changes {
            for who in owners {
                let course = courses.get_mut(who).expect("everybody was asked before");
                course.go(*stamp, *amounts);
            }
        }
        courses
    }
}

impl Refusal {
    /// Whether somebody could have had no room for it; if not, what there was.
    fn held_against(
        &self,
        courses: &HashMap<QuotaId, Course>,
        limits: &HashMap<QuotaId, [u64; 2]>,
    ) -> Result<(), String> {
        let mut seen = Vec::new();
        for &who in &self.owners {
            let space = matches!(who.kind, QuotaKind::Volume | QuotaKind::Project);
            let theirs = match self.errno {
                None => true,
                Some(Errno::ENOSPC) => space,
                Some(Errno::EDQUOT) => !space,
                Some(_) => false,
            };
            for resource in Resource::ALL {
                let at = resource as usize;
                let most = courses[&who].most(self.begin, self.end, at);
                let limit = limits[&who][at];
                if theirs && self.asked[at] > 0 && most + self.asked[at] > limit {
                    return Ok(());
                }
                seen.push(format!("{who} had {most} {resource:?} of {limit}"));
            }
        }
        Err(format!(
            "{} of {:?} was refused with {:?} between {} and {} although there was room: {}",
            self.what,
            self.asked,
            self.errno,
            self.begin,
            self.end,
            seen.join(", ")
        ))
    }
}

/// What one record counted at most, from each stamp on.
struct Course(Vec<(u64, [u64; 2])>);

impl Course {
    fn from(used: [u64; 2]) -> Course {
        Course(vec![(0, used)])
    }

    fn last(&self) -> [u64; 2] {
        self.0[self.0.len() - 1].1
    }

    fn go(&mut self, stamp: u64, amounts: [i64; 2]) {
        let now = self.last();
        let next = [0, 1].map(|at| {
            let sum = now[at] as i64 + amounts[at];
            u64::try_from(sum).expect("nobody gives back what he has not got")
        });
        self.0.push((stamp, next));
    }

    /// The most between two stamps.
    fn most(&self, begin: u64, end: u64, at: usize) -> u64 {
        let first = self.0.partition_point(|(stamp, _)| *stamp <= begin) - 1;
        let inside = self.0[first..]
            .iter()
            .take_while(|(stamp, _)| *stamp <= end);
        inside.map(|(_, used)| used[at]).max().unwrap_or(0)
    }
}

mod tests {
    use super::*;

    const USER: QuotaId = QuotaId {
        kind: QuotaKind::User,
        id: 7,
    };
    const PROJECT: QuotaId = QuotaId {
        kind: QuotaKind::Project,
        id: 3,
    };

    /// Whether a refusal of one block between stamps 10 and 20 is just: the user has a limit of 5
    /// blocks and has 4, the project has none.
    fn is_just(errno: Option<Errno>, more: impl FnOnce(&mut Log)) -> bool {
        let mut log = Log::default();
        log.charged(1, &[USER, PROJECT], [4, 1]);
        log.refused("a write", (10, 20), &[USER, PROJECT], [1, 0], errno);
        more(&mut log);
        let before = BTreeMap::from([(USER, [0, 0]), (PROJECT, [0, 0])]);
        let limits = BTreeMap::from([(USER, [5, 1]), (PROJECT, [u64::MAX, u64::MAX])]);
        let unjust = Log::merged(vec![log]).unjust(&before, |who| limits[&who]);
        assert!(unjust.len() <= 1);
        unjust.is_empty()
    }

    fn charged(begin: u64) -> impl FnOnce(&mut Log) {
        move |log| log.charged(begin, &[USER], [1, 0])
    }

    #[test]
    fn a_refusal_beside_room_is_unjust() {
        assert!(!is_just(None, |_| {}));
        assert!(!is_just(Some(Errno::EDQUOT), |_| {}));
    }

    #[test]
    fn a_charge_explains_a_refusal_that_did_not_end_before_it_began() {
        assert!(is_just(None, charged(5)));
        assert!(is_just(None, charged(20)));
        assert!(!is_just(None, charged(21)));
    }

    #[test]
    fn what_was_given_back_before_explains_nothing_and_what_was_given_back_meanwhile_does() {
        let with_free = |end| {
            is_just(None, |log| {
                log.charged(5, &[USER], [1, 0]);
                log.freed(end, &[USER], [1, 0]);
            })
        };
        assert!(!with_free(9));
        assert!(with_free(11));
        assert!(with_free(30));
    }

    #[test]
    fn only_who_refuses_with_that_error_explains_it() {
        assert!(is_just(Some(Errno::EDQUOT), charged(5)));
        assert!(!is_just(Some(Errno::ENOSPC), charged(5)));
        assert!(!is_just(Some(Errno::EPERM), charged(5)));
    }

    #[test]
    fn a_full_resource_explains_no_refusal_of_the_other() {
        // One inode of one: the user is full of them all the time.
        assert!(!is_just(None, |_| {}));
        let inode = |log: &mut Log| {
            log.charged(6, &[USER], [1, 0]);
            log.refused("a file", (10, 20), &[USER], [0, 1], Some(Errno::EDQUOT));
        };
        assert!(is_just(None, inode));
    }

    #[test]
    fn others_explain_nothing() {
        assert!(!is_just(None, |log| log.charged(5, &[PROJECT], [9, 9])));
    }
}

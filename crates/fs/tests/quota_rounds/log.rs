//! What everybody did in a round, and whether it explains what was refused.
//!
//! Every operation takes a number of one counter before it begins and after it ends. A charge
//! counts from its first number on, a free until its second: at every number, what the log counts
//! is at least what was really used. A refusal is just if, at some number of its own, what it asked
//! for would have gone above the limit of somebody who may refuse with that error.

use super::{QuotaId, Resource};
use hearth::{Errno, QuotaKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The counter of a round.
#[derive(Default)]
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    pub(crate) fn next(&self) -> u64 {
        // SeqCst: the numbers order what threads did before and after taking them.
        self.0.fetch_add(1, SeqCst)
    }
}

struct Refusal {
    owners: Vec<QuotaId>,
    asked: [u64; 2],
    /// None of a write that was cut short: it does not say why.
    errno: Option<Errno>,
    begin: u64,
    end: u64,
}

/// Who had how much more or less from which number on, and what was refused.
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
        (begin, end): (u64, u64),
        owners: &[QuotaId],
        asked: [u64; 2],
        errno: Option<Errno>,
    ) {
        self.refusals.push(Refusal {
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
        // One operation has at most one change of a number, so the order is whole.
        all.changes.sort_by_key(|change| change.0);
        all
    }

    /// Asserts that every refusal is just; how many there were.
    pub(crate) fn justify(
        &self,
        before: &BTreeMap<QuotaId, [u64; 2]>,
        hard: impl Fn(QuotaId) -> [u64; 2],
        seed: u64,
    ) -> usize {
        let courses = self.courses(before);
        let limits: HashMap<QuotaId, [u64; 2]> =
            before.keys().map(|&who| (who, hard(who))).collect();
        for refusal in &self.refusals {
            let mut seen = Vec::new();
            let just = refusal.owners.iter().any(|&who| {
                let space = matches!(who.kind, QuotaKind::Volume | QuotaKind::Project);
                let theirs = match refusal.errno {
                    None => true,
                    Some(Errno::ENOSPC) => space,
                    Some(Errno::EDQUOT) => !space,
                    Some(errno) => panic!("seed {seed}: {errno:?}"),
                };
                theirs
                    && Resource::ALL.into_iter().any(|resource| {
                        let at = resource as usize;
                        let most = courses[&who].most(refusal.begin, refusal.end, at);
                        seen.push((who, resource, most, limits[&who][at]));
                        refusal.asked[at] > 0 && most + refusal.asked[at] > limits[&who][at]
                    })
            });
            assert!(
                just,
                "seed {seed}: {:?} were refused {:?} with {:?} although there was room: {seen:?}",
                refusal.owners, refusal.asked, refusal.errno
            );
        }
        self.refusals.len()
    }

    /// Asserts that the ledger is what the log adds up to, for everybody.
    pub(crate) fn agree(
        &self,
        before: &BTreeMap<QuotaId, [u64; 2]>,
        used: impl Fn(QuotaId) -> [u64; 2],
        seed: u64,
    ) {
        for (&who, course) in &self.courses(before) {
            assert_eq!(used(who), course.last(), "seed {seed}: {who}");
        }
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

/// What one record counted at most, from each number on.
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

    /// The most between two numbers.
    fn most(&self, begin: u64, end: u64, at: usize) -> u64 {
        let first = self.0.partition_point(|(stamp, _)| *stamp <= begin) - 1;
        let inside = self.0[first..]
            .iter()
            .take_while(|(stamp, _)| *stamp <= end);
        inside.map(|(_, used)| used[at]).max().unwrap_or(0)
    }
}

//! The plan: which commuting cases run, all or a sample.

use super::case::Case;
use super::commute::{Commutes, Errnos, commutes};
use super::enumerate;
use super::reference::TreeModels;
use super::tally::Tally;

/// The commuting cases, with the results that the library must give.
pub struct Plan {
    /// The cases.
    pub cases: Vec<(Case, [Errnos; 2])>,
    /// The counts of the others.
    pub tally: Tally,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// One case of this many.
    pub cases: usize,
    /// Long windows for one of this many of these.
    pub long: usize,
    /// Layouts of the short windows.
    pub layouts: usize,
}

impl Extent {
    /// Everything.
    pub const WHOLE: Extent = Extent {
        cases: 1,
        long: 1,
        layouts: 3,
    };
    /// The extent of the tests.
    pub const QUICK: Extent = Extent {
        cases: 16,
        long: 4,
        layouts: 1,
    };

    /// Returns an extent of one case of `cases`, in every layout.
    pub fn sample(cases: usize) -> Extent {
        Extent {
            cases,
            ..Extent::WHOLE
        }
    }
}

impl Plan {
    /// Asks the model about the cases of `extent` whose text contains `only`, on as many threads as
    /// there are cores.
    ///
    /// # Panics
    /// When the model does.
    pub fn new(extent: Extent, only: Option<&str>) -> Plan {
        let all = enumerate::cases().into_iter();
        let mut cases: Vec<Case> = all.step_by(extent.cases).collect();
        if let Some(only) = only {
            cases.retain(|case| case.to_string().contains(only));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let part = cases.len().div_ceil(threads).max(1);
        let answers: Vec<(Commutes, [Errnos; 2])> = std::thread::scope(|scope| {
            let parts = cases.chunks(part).map(|part| scope.spawn(|| ask(part)));
            let parts: Vec<_> = parts.collect();
            let each = parts.into_iter();
            each.flat_map(|part| part.join().expect("the model knows every call"))
                .collect()
        });
        let mut plan = Plan {
            cases: Vec::new(),
            tally: Tally {
                cases: cases.len(),
                ..Tally::default()
            },
        };
        for (case, (commutes, errnos)) in cases.into_iter().zip(answers) {
            plan.add(case, commutes, errnos);
        }
        plan
    }

    fn add(&mut self, case: Case, commutes: Commutes, errnos: [Errnos; 2]) {
        let is_noatime = match commutes {
            Commutes::Yes => false,
            Commutes::WithoutAtime => true,
            Commutes::No => {
                self.tally.depend += 1;
                return;
            }
            Commutes::Unspecified => {
                self.tally.open += 1;
                return;
            }
        };
        self.tally.commute += 1;
        let case = Case { is_noatime, ..case };
        self.cases.push((case, errnos));
    }
}

fn ask(cases: &[Case]) -> Vec<(Commutes, [Errnos; 2])> {
    let mut trees = TreeModels::default();
    cases
        .iter()
        .map(|case| commutes(&mut trees, case))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that sv6 was judged on.
    const ENOUGH: usize = 13_664;

    #[test]
    fn a_quick_plan_keeps_every_commuting_case() {
        let Plan { cases, tally } = Plan::new(Extent::WHOLE, None);
        assert!(tally.commute >= ENOUGH, "{tally:?}");
        assert_eq!(cases.len(), tally.commute);
        assert_eq!(tally.commute + tally.depend + tally.open, tally.cases);
        let distinct: std::collections::HashSet<Case> = cases.iter().map(|it| it.0).collect();
        assert_eq!(distinct.len(), tally.commute);
    }
}

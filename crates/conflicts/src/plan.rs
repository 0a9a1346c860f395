//! Which cases run: those that commute, all of them or a sample.

use super::case::Case;
use super::commute::{Commutes, Errnos, commutes};
use super::enumerate;
use super::reference::Grounds;
use super::tally::Tally;

/// Cases that commute, with the results that the library must give.
pub struct Plan {
    /// The cases.
    pub cases: Vec<(Case, [Errnos; 2])>,
    /// What became of the others.
    pub tally: Tally,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// One case of so many.
    pub cases: usize,
    /// Long windows for one of so many of these.
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
    /// What the tests run.
    pub const QUICK: Extent = Extent {
        cases: 16,
        long: 4,
        layouts: 1,
    };

    /// One case of `cases`, in every layout.
    pub fn sample(cases: usize) -> Extent {
        Extent {
            cases,
            ..Extent::WHOLE
        }
    }
}

impl Plan {
    /// Asks the model about the cases of `extent`; only those whose text has `only` in it. On as
    /// many threads as there are cores.
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
    let mut grounds = Grounds::default();
    cases
        .iter()
        .map(|case| commutes(&mut grounds, case))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sv6 was judged on.
    const ENOUGH: usize = 13_664;

    #[test]
    fn enough_cases_commute_and_none_is_dropped() {
        let Plan { cases, tally } = Plan::new(Extent::WHOLE, None);
        assert!(tally.commute >= ENOUGH, "{tally:?}");
        assert_eq!(cases.len(), tally.commute);
        assert_eq!(tally.commute + tally.depend + tally.open, tally.cases);
        let distinct: std::collections::HashSet<Case> = cases.iter().map(|it| it.0).collect();
        assert_eq!(distinct.len(), tally.commute);
    }
}

//! Which cases run: those that commute, all of them or a sample.

use super::case::Case;
use super::commute::{Commutes, Errnos, commutes};
use super::enumerate;
use super::reference::Grounds;
use super::report::Tally;

/// Cases that commute, with the results that the library must give.
pub struct Plan {
    /// The cases.
    pub cases: Vec<(Case, Errnos)>,
    /// What became of the others.
    pub tally: Tally,
}

/// A quick run takes one case of so many.
const SAMPLE: usize = 16;

impl Plan {
    /// Asks the model about every case, or about every so-many-th; only those whose text has
    /// `only` in it. On as many threads as there are cores.
    ///
    /// # Panics
    /// When the model does.
    pub fn new(is_quick: bool, only: Option<&str>) -> Plan {
        let step = if is_quick { SAMPLE } else { 1 };
        let mut cases: Vec<Case> = enumerate::cases().into_iter().step_by(step).collect();
        if let Some(only) = only {
            cases.retain(|case| case.to_string().contains(only));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let part = cases.len().div_ceil(threads).max(1);
        let answers: Vec<(Commutes, Errnos)> = std::thread::scope(|scope| {
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

    fn add(&mut self, case: Case, commutes: Commutes, errnos: Errnos) {
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

fn ask(cases: &[Case]) -> Vec<(Commutes, Errnos)> {
    let mut grounds = Grounds::default();
    cases
        .iter()
        .map(|case| commutes(&mut grounds, case))
        .collect()
}

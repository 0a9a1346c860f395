//! The verdict on a case.

use super::case::Case;
use super::overlap::Conflict;
use std::collections::BTreeMap;

/// A commuting case, and the lines that its sides shared in a window.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The case.
    pub case: Case,
    /// Calls a side.
    pub window: usize,
    /// The most conflicting lines of a layout.
    pub lines: usize,
    /// Those lines, if they are more than the case may have.
    pub conflicts: Vec<Conflict>,
    /// The rule of the allow-list that explains them.
    pub rule: Option<String>,
}

/// Sums over verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Cases.
    pub total: usize,
    /// Of these, free of conflicts.
    pub free: usize,
    /// Not free, and explained by a rule.
    pub allowed: usize,
}

impl Verdict {
    /// Returns the verdict on one layout.
    pub fn new(case: Case, window: usize, conflicts: Vec<Conflict>) -> Verdict {
        let lines = conflicts.len();
        let keeps = lines > case.budget(window);
        Verdict {
            case,
            window,
            lines,
            conflicts: if keeps { conflicts } else { Vec::new() },
            rule: None,
        }
    }

    /// Returns whether the windows shared no more than the case may.
    pub fn is_free(&self) -> bool {
        self.lines <= self.case.budget(self.window)
    }

    /// Returns whether it is free, or a rule explains it.
    pub fn is_explained(&self) -> bool {
        self.is_free() || self.rule.is_some()
    }

    /// Keeps the worse of two layouts or windows: an unexplained one, even with few lines; then one
    /// that is not free; then the one with more lines.
    pub fn worsen(&mut self, other: Verdict) {
        let badness = |it: &Verdict| (!it.is_explained(), !it.is_free(), it.lines);
        if badness(&other) > badness(self) {
            *self = other;
        }
    }
}

/// Returns one verdict for each case, in order. It is free if all its windows are, and explained if
/// all are.
pub fn by_case(verdicts: &[Verdict]) -> Vec<Verdict> {
    let mut worst: BTreeMap<Case, Verdict> = BTreeMap::new();
    for verdict in verdicts {
        let known = worst.entry(verdict.case).or_insert_with(|| verdict.clone());
        known.worsen(verdict.clone());
    }
    worst.into_values().collect()
}

impl Sum {
    /// Returns the sums over `verdicts`.
    pub fn of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Sum {
        let mut sum = Sum::default();
        verdicts.into_iter().for_each(|verdict| sum.add(verdict));
        sum
    }

    /// Adds one.
    pub fn add(&mut self, verdict: &Verdict) {
        self.total += 1;
        if verdict.is_free() {
            self.free += 1;
        } else if verdict.rule.is_some() {
            self.allowed += 1;
        }
    }

    /// Returns the share of free cases; allowed ones are not free.
    pub fn share(self) -> f64 {
        share(self.free, self.total)
    }

    /// Returns the share of free cases among those that no rule explains.
    pub fn share_but_allowed(self) -> f64 {
        share(self.free, self.total - self.allowed)
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enumerate;

    fn verdict(lines: usize, rule: Option<&str>) -> Verdict {
        let case = enumerate::cases()[0];
        Verdict {
            case,
            window: 1,
            lines,
            conflicts: Vec::new(),
            rule: rule.map(str::to_owned),
        }
    }

    #[test]
    fn an_allowed_layout_does_not_hide_an_unexplained_one_with_fewer_lines() {
        let (free, allowed) = (verdict(0, None), verdict(3, Some("mode")));
        let unexplained = verdict(1, None);
        for order in [
            [&free, &allowed, &unexplained],
            [&unexplained, &allowed, &free],
            [&allowed, &unexplained, &free],
        ] {
            let mut worst = order[0].clone();
            order[1..].iter().for_each(|&one| worst.worsen(one.clone()));
            assert_eq!((worst.lines, worst.is_explained()), (1, false));
        }
        let mut worst = free;
        worst.worsen(allowed);
        assert_eq!((worst.lines, worst.is_explained()), (3, true));
    }

    #[test]
    fn a_case_is_free_only_if_all_its_windows_are() {
        let many = |lines| Verdict {
            window: 256,
            ..verdict(lines, None)
        };
        let told = |verdicts: &[Verdict]| {
            let cases = by_case(verdicts);
            assert_eq!(cases.len(), 1);
            (cases[0].is_free(), cases[0].is_explained())
        };
        // A few lines are free in a long window, and not in a short one.
        assert_eq!(told(&[verdict(0, None), many(3)]), (true, true));
        assert_eq!(told(&[verdict(1, None), many(3)]), (false, false));
        assert_eq!(told(&[verdict(1, Some("mode")), many(3)]), (false, true));
        assert_eq!(told(&[verdict(1, Some("mode")), many(40)]), (false, false));
    }
}

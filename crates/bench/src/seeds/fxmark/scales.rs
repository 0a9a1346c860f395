//! What two tasks do of what one does, test by test.

use super::{MANY, NAMES, SCALES};
use crate::row::median;
use crate::seeds::ask::Ask;
use crate::seeds::grid::Grid;
use crate::table::Table;

/// The ratios of one target: of every test that was measured, one for each round.
pub struct Scales(Vec<(&'static str, Vec<f64>)>);

impl Scales {
    /// Those of `target`.
    pub fn of(grid: &Grid, target: &str) -> Scales {
        let ratios = |name: &'static str| (name, grid.ratios(name, (target, 2), (target, 1)));
        let all = NAMES.into_iter().map(ratios);
        Scales(all.filter(|(_, ratios)| !ratios.is_empty()).collect())
    }

    /// Whether all tests were measured: a part of them proves nothing.
    pub fn is_complete(&self) -> bool {
        self.0.len() == NAMES.len()
    }

    /// Asks that enough of them scale by their medians; the range is that of the rounds, each
    /// counted by itself.
    pub fn ask(&self, target: &str) -> Ask {
        let scale = |ratios: &[f64]| median(&mut ratios.to_vec()).0;
        let below = self.0.iter().filter(|(_, ratios)| scale(ratios) < SCALES);
        let below = below.map(|(name, ratios)| format!("{name} {:.2}", scale(ratios)));
        let below: Vec<String> = below.collect();
        let what = match &*below.join(", ") {
            "" => String::new(),
            names => format!(" (not {names})"),
        };
        let many = (self.0.len() - below.len()) as f64;
        let what = format!("{target}, FxMark: how many do {SCALES} times with 2 tasks{what}");
        let rounds = Ask::at_least("", MANY, &self.by_round()).range;
        Ask {
            range: rounds,
            ..Ask::at_least(what, MANY, &[many])
        }
    }

    /// How many scale in each round.
    fn by_round(&self) -> Vec<f64> {
        let rounds = self.0.iter().map(|(_, ratios)| ratios.len()).min();
        let count = |round: usize| {
            let scales = |ratios: &&(&str, Vec<f64>)| ratios.1[round] >= SCALES;
            self.0.iter().filter(scales).count() as f64
        };
        (0..rounds.unwrap_or(0)).map(count).collect()
    }

    fn cell(&self, name: &str) -> String {
        let Some((_, ratios)) = self.0.iter().find(|(own, _)| *own == name) else {
            return String::new();
        };
        let ask = Ask::at_least("", SCALES, ratios);
        let (low, high) = ask.range;
        let got = ask.got.unwrap_or(f64::NAN);
        format!("{got:.2} ({low:.2} to {high:.2})")
    }
}

/// The median of each test on each target, and its smallest and largest round.
pub fn table(grid: &Grid, targets: &[String]) -> String {
    let all: Vec<Scales> = targets.iter().map(|name| Scales::of(grid, name)).collect();
    let heading = ["2 tasks / 1".to_owned()];
    let mut table = Table::new(heading.into_iter().chain(targets.iter().cloned()));
    for name in grid.workloads() {
        let cells = all.iter().map(|scales| scales.cell(&name));
        table.row([name.clone()].into_iter().chain(cells));
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rounds in which every test doubles, but for those named.
    fn grid(others: &[(&str, [f64; 2])]) -> Grid {
        let mut grid = Grid::default();
        for name in NAMES {
            let other = others.iter().find(|(other, _)| *other == name);
            for two in other.map_or([2.0, 2.0], |(_, ratios)| *ratios) {
                grid.push(name, "lib", 1, 1.0);
                grid.push(name, "lib", 2, two);
            }
        }
        grid
    }

    #[test]
    fn the_range_of_the_count_is_that_of_the_rounds() {
        let grid = grid(&[
            ("DWAL", [1.5, 2.0]),
            ("MWRM", [1.0, 2.5]),
            ("MRPH", [1.2, 1.3]),
        ]);
        let scales = Scales::of(&grid, "lib");
        assert!(scales.is_complete());
        let ask = scales.ask("lib");
        assert_eq!((ask.got, ask.range), (Some(18.0), (16.0, 18.0)));
        assert!(ask.what.ends_with("(not MRPH 1.25)"), "{}", ask.what);
    }

    #[test]
    fn every_test_has_a_line_with_its_median_and_its_rounds() {
        let targets = ["lib".to_owned(), "tmpfs".to_owned()];
        let text = table(&grid(&[("DWAL", [1.5, 2.0])]), &targets);
        assert_eq!(text.lines().count(), 2 + NAMES.len());
        let line = text.lines().find(|line| line.starts_with("| DWAL"));
        assert!(line.is_some_and(|line| line.contains("1.75 (1.50 to 2.00)")));
    }

    #[test]
    fn a_part_of_the_tests_is_not_complete() {
        let mut part = Grid::default();
        part.push("DWAL", "lib", 1, 1.0);
        part.push("DWAL", "lib", 2, 2.0);
        assert!(!Scales::of(&part, "lib").is_complete());
    }
}

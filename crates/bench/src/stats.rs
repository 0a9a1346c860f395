//! Statistics: medians, intervals and ratios of samples that are taken round by round.

/// The lower end of the 95 % interval of the median, the median, and the upper end: order
/// statistics, which for fewer than nine samples are the whole range.
pub fn interval(samples: &[f64]) -> [f64; 3] {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let middle = (sorted[n / 2] + sorted[(n - 1) / 2]) / 2.0;
    // The same number of ranks from either end; 0.98 is half of the normal distribution's 1.96.
    let half = 0.98 * (n as f64).sqrt();
    let low = ((n as f64 / 2.0 - half).round() as usize).saturating_sub(1);
    [sorted[low], middle, sorted[n - 1 - low]]
}

/// The median and half of its interval. Fewer than three samples have no interval: not a number.
pub fn median(samples: &[f64]) -> (f64, f64) {
    let [low, middle, high] = interval(samples);
    let half = if samples.len() < 3 {
        f64::NAN
    } else {
        (high - low) / 2.0
    };
    (middle, half)
}

/// The median; `None` without samples.
pub fn middle(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| median(samples).0)
}

/// The smallest and the largest sample.
pub fn range(samples: &[f64]) -> (f64, f64) {
    let low = samples.iter().copied().reduce(f64::min);
    let high = samples.iter().copied().reduce(f64::max);
    low.zip(high).unwrap_or((f64::NAN, f64::NAN))
}

/// `of` over `to`, round by round.
pub fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// The mean and half of its 95 % confidence interval by Student's t.
pub fn mean(samples: &[f64]) -> (f64, f64) {
    let n = samples.len();
    let mean = samples.iter().sum::<f64>() / n.max(1) as f64;
    if n < 2 {
        return (mean, f64::INFINITY);
    }
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let deviation = (squares / (n - 1) as f64).sqrt();
    (mean, student_t(n - 1) * deviation / (n as f64).sqrt())
}

/// Whether the interval of the mean of at least five samples is within 1 % of it.
pub fn is_confident(samples: &[f64]) -> bool {
    let (mean, half) = mean(samples);
    samples.len() >= 5 && half <= 0.01 * mean
}

/// The 97.5 % quantile of Student's distribution.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    // Beyond the table, this is within 0.3 % of the quantile.
    let beyond = 1.96 + 2.5 / freedom as f64;
    TABLE.get(freedom - 1).copied().unwrap_or(beyond)
}

/// The Hodges-Lehmann estimate between the ends of its 95 % interval by Wilcoxon's signed ranks.
/// The estimate is the median of the Walsh averages: the means of every two samples, each sample
/// with itself included. A few outliers hardly move it. Without outliers it is as precise as the
/// mean. (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and 3.3, in the normal
/// approximation. Fewer than six samples have their whole range as the interval.)
pub fn hodges_lehmann(samples: &[f64]) -> [f64; 3] {
    let mut walsh: Vec<f64> = Vec::new();
    for (at, one) in samples.iter().enumerate() {
        walsh.extend(samples[at..].iter().map(|other| (one + other) / 2.0));
    }
    walsh.sort_by(f64::total_cmp);
    let count = walsh.len();
    let middle = (walsh[count / 2] + walsh[(count - 1) / 2]) / 2.0;
    let n = samples.len() as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = (mean * (2.0 * n + 1.0) / 6.0).sqrt();
    // The cast turns a negative number into 0.
    let outside = (mean - 1.96 * deviation) as usize;
    [walsh[outside], middle, walsh[count - 1 - outside]]
}

/// One side of an A/B comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    With,
    Without,
}

impl Side {
    /// Both sides. The first one alternates, so that the machine is not always warm for one of
    /// them.
    pub fn both(run: u32) -> [Side; 2] {
        match run % 2 {
            0 => [Side::Without, Side::With],
            _ => [Side::With, Side::Without],
        }
    }

    /// The name of the side of `what` as a target of rows.
    pub fn target(self, what: &str) -> String {
        let side = if self == Side::With { "on" } else { "off" };
        format!("{what}, {side}")
    }
}

/// Samples of both sides; run number n of one was made next to run number n of the other.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    with: Vec<f64>,
    without: Vec<f64>,
}

impl Pair {
    /// Adds the next run of a side.
    pub fn push(&mut self, side: Side, value: f64) {
        match side {
            Side::With => self.with.push(value),
            Side::Without => self.without.push(value),
        }
    }

    /// All samples of a side, in the order of the runs.
    pub fn all(&self, side: Side) -> &[f64] {
        match side {
            Side::With => &self.with,
            Side::Without => &self.without,
        }
    }

    pub fn of(&self, side: Side) -> f64 {
        median(self.all(side)).0
    }

    /// With / without, run by run.
    pub fn ratios(&self) -> Vec<f64> {
        ratios(&self.with, &self.without)
    }

    /// The median of the ratios.
    pub fn ratio(&self) -> f64 {
        median(&self.ratios()).0
    }

    /// `f` of each run and of the same run of `other`.
    pub fn zip(&self, other: &Pair, f: impl Fn(f64, f64) -> f64) -> Pair {
        let both = |own: &[f64], other: &[f64]| {
            let pairs = own.iter().zip(other);
            pairs.map(|(own, other)| f(*own, *other)).collect()
        };
        Pair {
            with: both(&self.with, &other.with),
            without: both(&self.without, &other.without),
        }
    }
}

/// What a value is, and its unit.
pub type Metric = (&'static str, &'static str);

/// Samples of several metrics, in the order in which they were measured first.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<(Metric, Grid)>);

impl Samples {
    /// Adds the next run of a cell: workload, target and number of tasks.
    pub fn push(&mut self, metric: Metric, cell: (&str, &str, usize), value: f64) {
        let at = self.0.iter().position(|(known, _)| *known == metric);
        let at = at.unwrap_or_else(|| {
            self.0.push((metric, Grid::default()));
            self.0.len() - 1
        });
        self.0[at].1.push(cell.0, cell.1, cell.2, value);
    }

    /// The samples of a metric; none if it was not measured.
    pub fn of(&self, metric: Metric) -> &Grid {
        static NONE: Grid = Grid { cells: Vec::new() };
        let found = self.iter().find(|(known, _)| *known == metric);
        found.map_or(&NONE, |(_, grid)| grid)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Metric, &Grid)> {
        self.0.iter().map(|(metric, grid)| (*metric, grid))
    }
}

/// Samples by workload, target and number of tasks.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    cells: Vec<(Key, Vec<f64>)>,
}

/// What a cell of a [`Grid`] stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub workload: String,
    pub target: String,
    pub tasks: usize,
}

impl Key {
    fn is(&self, workload: &str, target: &str, tasks: usize) -> bool {
        self.workload == workload && self.target == target && self.tasks == tasks
    }
}

impl Grid {
    /// Adds the next run of a cell. Run number n of all cells is from the same round.
    pub fn push(&mut self, workload: &str, target: &str, tasks: usize, value: f64) {
        let mut cells = self.cells.iter_mut();
        match cells.find(|(key, _)| key.is(workload, target, tasks)) {
            Some((_, values)) => values.push(value),
            None => {
                let (workload, target) = (workload.to_owned(), target.to_owned());
                let key = Key {
                    workload,
                    target,
                    tasks,
                };
                self.cells.push((key, vec![value]));
            }
        }
    }

    /// Takes over the cells of another grid.
    pub fn absorb(&mut self, other: Grid) {
        self.cells.extend(other.cells);
    }

    /// Brings the workloads into the order of `names`.
    pub fn sort_workloads(&mut self, names: &[&str]) {
        let place = |key: &Key| names.iter().position(|name| *name == key.workload);
        self.cells.sort_by_key(|(key, _)| place(key));
    }

    /// All cells, in the order of their first runs.
    pub fn cells(&self) -> impl Iterator<Item = (&Key, &[f64])> {
        self.cells.iter().map(|(key, values)| (key, &**values))
    }

    /// The runs of a cell; empty if it was not measured.
    pub fn runs(&self, workload: &str, target: &str, tasks: usize) -> &[f64] {
        let found = self
            .cells
            .iter()
            .find(|(key, _)| key.is(workload, target, tasks));
        found.map_or(&[], |(_, values)| values)
    }

    /// The workloads, in the order in which they were measured.
    pub fn workloads(&self) -> Vec<String> {
        self.distinct(|_| true, |key| key.workload.clone())
    }

    /// Those of the targets that were measured.
    pub fn known<'n>(&self, targets: impl Iterator<Item = &'n str>) -> Vec<String> {
        let is_there = |name: &&str| self.cells.iter().any(|(key, _)| key.target == **name);
        targets.filter(is_there).map(str::to_owned).collect()
    }

    /// The targets on which `tasks` tasks ran the workload.
    pub fn targets(&self, workload: &str, tasks: usize) -> Vec<String> {
        let is_it = |key: &Key| key.workload == workload && key.tasks == tasks;
        self.distinct(is_it, |key| key.target.clone())
    }

    /// The numbers of tasks of a workload.
    pub fn tasks(&self, workload: &str) -> Vec<usize> {
        self.distinct(|key| key.workload == workload, |key| key.tasks)
    }

    fn distinct<T: PartialEq>(&self, is_it: impl Fn(&Key) -> bool, f: fn(&Key) -> T) -> Vec<T> {
        let mut all: Vec<T> = Vec::new();
        for (key, _) in self.cells.iter().filter(|(key, _)| is_it(key)) {
            let one = f(key);
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// The median of a cell and half its confidence interval.
    pub fn median(&self, workload: &str, target: &str, tasks: usize) -> Option<(f64, f64)> {
        let runs = self.runs(workload, target, tasks);
        (!runs.is_empty()).then(|| median(runs))
    }

    /// The ratio of two cells (target, tasks) of a workload in each round.
    pub fn ratios(&self, workload: &str, cell: (&str, usize), base: (&str, usize)) -> Vec<f64> {
        let runs = |(target, tasks)| self.runs(workload, target, tasks);
        ratios(runs(cell), runs(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_the_interval_around_it() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), (2.0, 1.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]).0, 2.5);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        // The 40th and the 61st of a hundred, the second and the eighth of nine, all of eight.
        assert_eq!(median(&many), (49.5, 10.5));
        let nine = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0];
        assert_eq!(median(&nine), (5.0, 3.0));
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 80.0]).1, 39.5);
        for few in [&[1.0][..], &[1.0, 3.0]] {
            assert!(median(few).1.is_nan());
        }
    }

    #[test]
    fn the_interval_of_the_mean_is_that_of_the_textbook() {
        // Mean 3, deviation sqrt(2.5), t(4) = 2.776.
        let (_, half) = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((half - 1.963).abs() < 0.001, "{half}");
        assert!((student_t(60) - 2.000).abs() < 0.006);
        assert!(!is_confident(&[1.0; 4]) && is_confident(&[1.0; 5]));
        assert!(is_confident(&[1.0, 1.01, 0.99, 1.0, 1.0]));
        assert!(!is_confident(&[1.0, 1.1, 0.9, 1.0, 1.0]));
    }

    #[test]
    fn the_hodges_lehmann_estimate_is_that_of_the_textbook() {
        // Walsh averages: 1, 1.5, 2, 2, 2.5, 3.
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        let mut ten: Vec<f64> = (1..=10).map(f64::from).collect();
        // n = 10: eight of the 55 averages lie outside at either end.
        assert_eq!(hodges_lehmann(&ten), [3.0, 5.5, 8.0]);
        ten[9] = 1e6;
        assert!(hodges_lehmann(&ten)[1] < 6.5, "an outlier moves it little");
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut pair = Pair::default();
        let mut grid = Grid::default();
        for (without, with) in [(1.0, 2.0), (10.0, 10.0), (100.0, 50.0)] {
            pair.push(Side::Without, without);
            pair.push(Side::With, with);
            grid.push("stat", "lib", 1, without);
            grid.push("stat", "lib", 2, with);
        }
        assert_eq!((pair.ratio(), pair.of(Side::With)), (1.0, 10.0));
        assert_eq!(pair.zip(&pair, |a, b| a / b).of(Side::With), 1.0);
        assert_eq!(grid.ratios("stat", ("lib", 2), ("lib", 1)), [2.0, 1.0, 0.5]);
        assert_eq!(grid.median("stat", "lib", 1).unwrap().0, 10.0);
        assert_eq!(grid.median("stat", "tmpfs", 1), None);
        assert!(grid.ratios("stat", ("lib", 2), ("tmpfs", 1)).is_empty());
        assert_eq!((grid.tasks("stat"), grid.cells().count()), (vec![1, 2], 2));
    }
}

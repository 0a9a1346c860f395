//! What was measured: one row per cell, as a JSON line.

use std::io::Write;
use std::path::Path;

/// Metric and unit of a rate.
pub const PER_SECOND: (&str, &str) = ("ops_per_s", "1/s");

/// One measured cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which benchmark: `lib`, `mount`, `memory`, `conflicts`.
    pub bench: &'static str,
    /// What was done.
    pub workload: String,
    /// On what.
    pub target: String,
    /// Threads or processes that did it at once.
    pub tasks: u32,
    /// What the value is.
    pub metric: &'static str,
    /// The median of the runs.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// How many runs.
    pub runs: u32,
    /// Half the width of the 95 % confidence interval of the median; not a number, `null` in JSON,
    /// where there are too few runs for one.
    pub ci95: f64,
}

impl Row {
    /// The row as one line of JSON.
    pub fn json(&self) -> String {
        serde_json::json!({
            "bench": self.bench,
            "workload": self.workload,
            "target": self.target,
            "tasks": self.tasks,
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "runs": self.runs,
            "ci95": self.ci95,
        })
        .to_string()
    }
}

/// Writes one line per row.
///
/// # Errors
/// The file cannot be written.
pub fn write_json(path: &Path, rows: &[Row]) -> Result<(), String> {
    let written = std::fs::File::create(path).and_then(|mut file| {
        rows.iter()
            .try_for_each(|row| writeln!(file, "{}", row.json()))
    });
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The median and half the width of its 95 % confidence interval, which fewer than three samples
/// tell nothing of: then it is not a number.
///
/// # Panics
/// Without samples.
pub fn median(samples: &mut [f64]) -> (f64, f64) {
    let (middle, half) = middle(samples);
    match samples.len() < 3 {
        true => (middle, f64::NAN),
        false => (middle, half),
    }
}

/// The median and half of what lies around it: the interval of the order statistics; for fewer than
/// nine samples it is their whole range.
///
/// # Panics
/// Without samples.
pub fn middle(samples: &mut [f64]) -> (f64, f64) {
    let [low, middle, high] = interval(samples);
    (middle, (high - low) / 2.0)
}

/// The lower end of what lies around the median, the median, and the upper end.
///
/// # Panics
/// Without samples.
pub fn interval(samples: &mut [f64]) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    let n = samples.len();
    let middle = (samples[n / 2] + samples[(n - 1) / 2]) / 2.0;
    // As many ranks from either end; 0.98 is half of the normal distribution's 1.96.
    let half = 0.98 * (n as f64).sqrt();
    let low = ((n as f64 / 2.0 - half).round() as usize).saturating_sub(1);
    [samples[low], middle, samples[n - 1 - low]]
}

/// For tables: `half` of an interval in percent of the value, or a dash if there is none.
pub fn percent(value: f64, half: f64) -> String {
    match half.is_nan() {
        true => "-".to_owned(),
        false => format!("{:.0}%", 100.0 * half / value),
    }
}

/// The same in the unit of the value, with so many digits.
pub fn width(half: f64, digits: usize) -> String {
    match half.is_nan() {
        true => "-".to_owned(),
        false => format!("{half:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_three_runs_have_no_interval() {
        for samples in [&mut [1.0][..], &mut [1.0, 3.0]] {
            let (value, half) = median(samples);
            assert!(value >= 1.0 && half.is_nan());
            assert_eq!(percent(value, half), "-");
            let row = Row {
                bench: "sched",
                workload: "sdet".into(),
                target: "mount".into(),
                tasks: 1,
                metric: "scripts_per_hour",
                value,
                unit: "1/h",
                runs: samples.len() as u32,
                ci95: half,
            };
            assert!(row.json().contains("\"ci95\":null"), "{}", row.json());
        }
        assert_eq!(percent(2.0, 0.5), "25%");
    }

    #[test]
    fn the_median_is_in_the_middle_and_the_interval_around_it() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), (2.0, 1.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]).0, 2.5);
        let mut many: Vec<f64> = (0..100).map(f64::from).collect();
        // The 40th and the 61st of a hundred, the second and the eighth of nine, all of eight.
        assert_eq!(median(&mut many), (49.5, 10.5));
        assert_eq!(
            median(&mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0]),
            (5.0, 3.0)
        );
        assert_eq!(
            median(&mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 80.0]).1,
            39.5
        );
    }

    #[test]
    fn a_row_is_one_line_with_the_agreed_names() {
        let row = Row {
            bench: "lib",
            workload: "stat".into(),
            target: "tmpfs".into(),
            tasks: 2,
            metric: "ops_per_s",
            value: 1.5,
            unit: "1/s",
            runs: 5,
            ci95: 0.1,
        };
        let json: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
        for name in [
            "bench", "workload", "target", "tasks", "metric", "value", "unit", "runs", "ci95",
        ] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert!(!row.json().contains('\n'));
    }
}

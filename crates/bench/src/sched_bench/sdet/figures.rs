//! The table, the curve and what is asked.

use super::{Plan, Rates, WORKLOAD};
use crate::chart::Chart;
use crate::row::percent;
use crate::sched_bench::Report;
use crate::seeds::ask::Ask;
use crate::seeds::contender::Contender;
use crate::seeds::grid::Grid;
use crate::table::Table;
use std::path::Path;

/// How much of its best a target keeps with the most scripts, at least, of what it has to.
const KEPT: f64 = 0.98;

/// Prints the table and draws the curve.
///
/// # Errors
/// The curve cannot be written.
pub fn report(
    plan: &Plan,
    contenders: &[Contender],
    rates: &Rates,
    json: Option<&Path>,
) -> Result<Report, String> {
    let names: Vec<&str> = contenders.iter().map(|one| &*one.name).collect();
    println!("{}", table(plan, &names, rates));
    let mut chart = Chart::new("SDET", "scripts per hour");
    for name in &names {
        let rate = |&count| (count, rate(&rates.per_hour, name, count));
        chart.curve(*name, plan.counts.iter().map(rate).collect());
    }
    let path = chart.draw("sdet", json, "target/sched")?;
    println!("Drawn: {}\n", path.display());
    let mut rows = rates.per_hour.rows("sched", "scripts_per_hour", "1/h");
    rows.extend(rates.per_cpu.rows("sched", "scripts_per_cpu_s", "1/s"));
    let asks = vec![ask(plan, rates)];
    Ok(Report { rows, asks })
}

fn table(plan: &Plan, names: &[&str], rates: &Rates) -> String {
    let mut heading = vec!["scripts".to_owned()];
    for (n, name) in names.iter().enumerate() {
        heading.push(format!("{name}, scripts/h"));
        heading.push("±".to_owned());
        if n > 0 {
            heading.push(format!("{} / {name}", names[0]));
            heading.push("by CPU time".to_owned());
        }
    }
    let mut table = Table::new(heading);
    for &count in &plan.counts {
        let mut line = vec![count.to_string()];
        for (n, name) in names.iter().enumerate() {
            let Some((value, half)) = rates.per_hour.median(WORKLOAD, name, count) else {
                continue;
            };
            line.push(format!("{value:.1}"));
            line.push(percent(value, half));
            if n > 0 {
                for grid in [&rates.per_hour, &rates.per_cpu] {
                    let [own, other] = [names[0], name].map(|name| rate(grid, name, count));
                    let ratio = own.zip(other).map(|(own, other)| own / other);
                    line.push(ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
                }
            }
        }
        table.row(line);
    }
    table.text()
}

/// What the mount keeps of its best rate with the most scripts, by what tmpfs keeps if it is less.
fn ask(plan: &Plan, rates: &Rates) -> Ask {
    let most = plan.counts.iter().copied().max().unwrap_or(1);
    let what = format!("sdet at {most}: share of the peak kept, by that of tmpfs if it is lower");
    let by = |grid: &Grid| {
        let own = kept(plan, grid, "mount")?;
        let other = kept(plan, grid, "tmpfs").unwrap_or(1.0);
        Some(own / other.min(1.0))
    };
    let ask = Ask::at_least(what, KEPT, by(&rates.per_hour).as_slice());
    ask.by_cpu(by(&rates.per_cpu).as_slice())
}

fn kept(plan: &Plan, rates: &Grid, name: &str) -> Option<f64> {
    let all: Option<Vec<f64>> = plan.counts.iter().map(|&n| rate(rates, name, n)).collect();
    let all = all?;
    let peak = all.iter().copied().fold(0.0, f64::max);
    Some(all.last()? / peak)
}

fn rate(rates: &Grid, name: &str, count: usize) -> Option<f64> {
    rates.median(WORKLOAD, name, count).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched_bench::sdet::script::Multiset;

    fn plan() -> Plan {
        Plan {
            set: Multiset::published(true).unwrap(),
            counts: vec![1, 10, 250],
            rounds: 1,
            locks_at: 1,
        }
    }

    fn grid(mount: [f64; 3], tmpfs: [f64; 3]) -> Grid {
        let mut grid = Grid::default();
        for (n, &count) in plan().counts.iter().enumerate() {
            grid.push(WORKLOAD, "mount", count, mount[n]);
            grid.push(WORKLOAD, "tmpfs", count, tmpfs[n]);
        }
        grid
    }

    #[test]
    fn what_is_kept_is_judged_by_the_lower_of_the_peak_and_tmpfs() {
        let judge = |mount, tmpfs| {
            let per_hour = grid(mount, tmpfs);
            let per_cpu = per_hour.clone();
            ask(&plan(), &Rates { per_hour, per_cpu }).got.unwrap()
        };
        assert_eq!(judge([1.0, 4.0, 3.0], [1.0, 2.0, 2.0]), 0.75);
        assert_eq!(judge([1.0, 4.0, 3.0], [1.0, 4.0, 2.0]), 1.5);
    }

    #[test]
    fn the_table_has_the_ratio_at_each_number_of_scripts() {
        let rates = Rates {
            per_hour: grid([1.0; 3], [2.0, 4.0, 5.0]),
            per_cpu: grid([3.0; 3], [4.0; 3]),
        };
        let text = table(&plan(), &["mount", "tmpfs"], &rates);
        assert!(text.contains("mount / tmpfs"), "{text}");
        for (count, ratio) in [(1, "0.50"), (10, "0.25"), (250, "0.20")] {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("| {count} ")));
            let line = line.unwrap();
            assert!(line.contains(ratio) && line.contains("0.75"), "{text}");
        }
    }
}

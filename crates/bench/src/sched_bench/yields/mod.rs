//! `sched_test_yield`: tasks that do nothing but step back.
//!
//! Every target runs the same loop: look at the phase, count, yield. The value is the time that a
//! core spends per yield: length of the window times cores, over the yields of all tasks in it.
//! Beside it stands the processor time that was used per yield, which is the same on a machine that
//! nobody else uses.

pub mod counted;
mod gauge;
mod targets;

use super::Report;
use super::confidence::Samples;
use crate::options::Options;
use crate::patience::beat;
use crate::pinned::allowed_cores;
use crate::row::Row;
use crate::seeds::ask::Ask;
use crate::table::Table;
use gauge::{Gauge, Window};
use std::time::Duration;
use targets::{TARGETS, Target};

/// On this many cores.
struct Setting {
    workload: &'static str,
    cores: usize,
}

/// Runs both settings.
///
/// # Errors
/// A target cannot be set up.
pub fn run(options: &Options) -> Result<Report, String> {
    let all = Setting {
        workload: "sched_test_yield",
        cores: allowed_cores().len(),
    };
    let one = Setting {
        workload: "sched_test_yield_one_core",
        cores: 1,
    };
    let mut report = one_setting(&all, options)?;
    let one = one_setting(&one, options)?;
    report.rows.extend(one.rows);
    report.asks.extend(one.asks);
    Ok(report)
}

fn one_setting(setting: &Setting, options: &Options) -> Result<Report, String> {
    println!(
        "{}: microseconds of a core per yield, {} core(s); 95 % interval within 1 % or FRC\n",
        setting.workload, setting.cores
    );
    let sizes = sizes(options.quick);
    let cells = measure(setting, &sizes, options.quick)?;
    let mut heading = vec!["tasks".to_owned()];
    heading.extend(TARGETS.iter().map(|target| target.name.to_owned()));
    heading.push("lib / 16 tasks".to_owned());
    let mut table = Table::new(heading);
    let mut rows = Vec::new();
    for (&tasks, line) in sizes.iter().zip(&cells) {
        let shown =
            |cell: &Option<Cell>| cell.as_ref().map_or("-".into(), |cell| shown(&cell.clock));
        let mut texts = vec![tasks.to_string()];
        texts.extend(line.iter().map(shown));
        let lib = |line: &[Option<Cell>]| line[0].as_ref().map(|cell| cell.clock.mean());
        let ratio = lib(line).zip(lib(&cells[0]));
        texts.push(ratio.map_or(String::new(), |(own, few)| format!("{:.2}", own / few)));
        table.row(texts);
        for (target, cell) in TARGETS.iter().zip(line) {
            let Some(cell) = cell else { continue };
            rows.push(row(setting, target, tasks, "us_per_op", &cell.clock));
            rows.push(row(setting, target, tasks, "cpu_us_per_op", &cell.cpu));
        }
    }
    println!("{}", table.text());
    let asks = asks(setting, &sizes, &cells);
    Ok(Report { rows, asks })
}

/// What a target takes per yield, in microseconds: by the clock, and of processor time.
#[derive(Default)]
struct Cell {
    clock: Samples,
    cpu: Samples,
}

/// The cells of one size, a target each.
type Line = Vec<Option<Cell>>;

/// Sizes and targets in turn, until all are known well enough: what is compared is measured side by
/// side in every round, so that a machine whose speed changes does so for all.
fn measure(setting: &Setting, sizes: &[usize], quick: bool) -> Result<Vec<Line>, String> {
    let (window, most) = match quick {
        true => (Duration::from_millis(60), 5),
        false => (Duration::from_millis(250), 40),
    };
    let bears = |tasks: usize| move |target: &Target| tasks <= target.most_tasks;
    let line = |&tasks: &usize| -> Line {
        let cell = |target| bears(tasks)(target).then(Cell::default);
        TARGETS.iter().map(cell).collect()
    };
    let mut cells: Vec<_> = sizes.iter().map(line).collect();
    for _ in 0..most {
        if cells.iter().flatten().flatten().all(is_confident) {
            break;
        }
        for (&tasks, line) in sizes.iter().zip(&mut cells) {
            for (target, cell) in TARGETS.iter().zip(line) {
                let Some(cell) = cell else { continue };
                beat();
                let yields = (target.run)(&Gauge::new(), setting.cores, tasks, window)?;
                if yields.count == 0 {
                    return Err(format!("{}: {tasks} tasks never yielded", target.name));
                }
                let per_yield = 1e6 / yields.count as f64;
                let Window { seconds, cpu } = yields.window;
                cell.clock.add(seconds * setting.cores as f64 * per_yield);
                cell.cpu.add(cpu * per_yield);
            }
        }
    }
    Ok(cells)
}

fn is_confident(cell: &Cell) -> bool {
    cell.clock.is_confident()
}

fn sizes(quick: bool) -> Vec<usize> {
    let all = (4..=12).map(|power| 1 << power).chain([100_000]);
    match quick {
        true => all
            .filter(|&tasks| [16, 256, 4096, 100_000].contains(&tasks))
            .collect(),
        false => all.collect(),
    }
}

/// Flat in the number of tasks, at most tokio's at every size, at most 150 ns on one core: by the
/// ratios of each round.
fn asks(setting: &Setting, sizes: &[usize], cells: &[Line]) -> Vec<Ask> {
    let ratios = |of: (usize, usize), to: (usize, usize), kind: Kind| -> Vec<f64> {
        let [of, to] = [of, to].map(|(tasks, target)| {
            let at = sizes.iter().position(|&size| size == tasks)?;
            cells[at][target].as_ref().map(|cell| kind(cell).all())
        });
        let pairs = of.into_iter().flatten().zip(to.into_iter().flatten());
        pairs.map(|(of, to)| of / to).collect()
    };
    let mut asks = Vec::new();
    for (tasks, most) in [(4096, 1.1), (100_000, 1.5)] {
        let by = |kind| ratios((tasks, LIB), (16, LIB), kind);
        let what = format!("{}: {tasks} tasks / 16", setting.workload);
        asks.push(Ask::at_most(what, most, &by(CLOCK)).by_cpu(&by(CPU)));
    }
    let beside_tokio = |&tasks: &usize| {
        let by = |kind| ratios((tasks, LIB), (tasks, TOKIO), kind);
        let what = format!("{}: lib / tokio, worst at {tasks}", setting.workload);
        Ask::at_most(what, 1.0, &by(CLOCK)).by_cpu(&by(CPU))
    };
    let worst = sizes.iter().map(beside_tokio);
    asks.extend(worst.max_by(|one, other| {
        let got = |ask: &Ask| ask.got.unwrap_or(0.0);
        got(one).total_cmp(&got(other))
    }));
    if setting.cores == 1
        && let Some(cell) = &cells[0][LIB]
    {
        let what = "one core, 16 tasks: microseconds per yield";
        asks.push(Ask::at_most(what, 0.15, cell.clock.all()).by_cpu(cell.cpu.all()));
    }
    asks
}

/// By which measure.
type Kind = fn(&Cell) -> &Samples;
const CLOCK: Kind = |cell| &cell.clock;
const CPU: Kind = |cell| &cell.cpu;
/// Columns of [`TARGETS`].
const LIB: usize = 0;
const TOKIO: usize = 1;

fn shown(cell: &Samples) -> String {
    match cell.is_confident() {
        true => format!("{:.4}", cell.mean()),
        false => {
            let spread = 100.0 * cell.half_width() / cell.mean();
            format!("FRC ({:.4} ±{spread:.1}%)", cell.mean())
        }
    }
}

fn row(
    setting: &Setting,
    target: &Target,
    tasks: usize,
    metric: &'static str,
    cell: &Samples,
) -> Row {
    Row {
        bench: "sched",
        workload: setting.workload.to_owned(),
        target: target.name.to_owned(),
        tasks: tasks as u32,
        metric,
        value: cell.mean(),
        unit: "us",
        runs: cell.count() as u32,
        ci95: cell.half_width(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rounds of (lib, tokio, threads), of which the machine was three times slower in one.
    fn line(micros: [f64; 3]) -> Line {
        let cell = |micros: &f64| {
            let mut cell = Cell::default();
            for slower in [1.0, 3.0, 1.0] {
                cell.clock.add(micros * slower);
                cell.cpu.add(*micros);
            }
            Some(cell)
        };
        micros.iter().map(cell).collect()
    }

    #[test]
    fn ratios_are_of_one_round() {
        let setting = Setting {
            workload: "sched_test_yield_one_core",
            cores: 1,
        };
        let lines = [[0.1, 0.13, 9.0], [0.12, 0.13, 9.0], [0.14, 0.13, 9.0]].map(line);
        let asks = asks(&setting, &[16, 4096, 100_000], &lines);
        let met: Vec<_> = asks.iter().map(|ask| ask.is_met().unwrap()).collect();
        assert_eq!(met, [false, true, false, true]);
        assert!((asks[0].got.unwrap() - 1.2).abs() < 1e-9, "{asks:?}");
        assert!((asks[0].range.1 - 1.2).abs() < 1e-9, "{asks:?}");
        assert!(asks[2].what.ends_with("worst at 100000"), "{asks:?}");
    }

    #[test]
    fn rows_have_the_agreed_names() {
        let setting = Setting {
            workload: "sched_test_yield",
            cores: 2,
        };
        let line = line([0.1, 0.13, 9.0]);
        let cell = line[LIB].as_ref().unwrap();
        let row = row(&setting, &TARGETS[LIB], 16, "us_per_op", &cell.clock);
        let json: serde_json::Value = serde_json::from_str(&row.json()).unwrap();
        assert_eq!(
            (&json["workload"], &json["target"]),
            (&"sched_test_yield".into(), &"lib".into())
        );
        assert_eq!(
            (&json["metric"], &json["tasks"]),
            (&"us_per_op".into(), &16.into())
        );
        assert_eq!(TARGETS[TOKIO].name, "tokio");
    }
}

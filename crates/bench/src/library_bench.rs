//! `hearth-bench lib`: the library in process against system calls on the kernel's tmpfs.

use crate::activity::Activity;
use crate::compare::{Contestant, compare, table};
use crate::measure::Effort;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::row::{PER_SECOND, Row, write_json};
use crate::target::{Fresh, Library, Sharing};
use crate::workload::Workload;

/// What the libraries are held against.
const BASE: &str = "tmpfs";

/// Runs the benchmark and prints its table.
///
/// # Errors
/// A target refuses, or a library is not faster than tmpfs on a metadata row.
pub fn run(options: &Options) -> Result<(), String> {
    let library = |name, sharing| Contestant::<Box<dyn Fresh>> {
        name,
        make: Box::new(move || Ok(Box::new(Library::new(sharing)?))),
    };
    let contestants = [
        library("lib", Sharing::Processes),
        library("lib-shared", Sharing::PerCore),
        library("lib-lowest", Sharing::Lowest),
        Contestant {
            name: BASE,
            make: Box::new(|| Ok(Box::new(Mounted::tmpfs()?))),
        },
    ];
    let effort = Effort::new(options.quick);
    let workloads: Vec<Workload> = Workload::ALL
        .into_iter()
        .filter(|w| options.wants(&w.name()))
        .collect();
    let cells = compare(&contestants, &workloads, &[1, 2], effort, |_| true)?;
    let rows = cells.iter().flat_map(|cell| cell.rows("lib", PER_SECOND));
    let rows: Vec<Row> = rows.collect();
    println!("{}", table(&rows, &[BASE]));
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    let slower = not_faster(&rows);
    if slower.is_empty() {
        println!("the library is faster than tmpfs on every metadata row");
        return Ok(());
    }
    Err(format!("not faster than tmpfs: {}", slower.join("; ")))
}

/// The metadata rows on which a library is not faster than tmpfs, or cannot be compared.
fn not_faster(rows: &[Row]) -> Vec<String> {
    let metadata = Workload::ALL.into_iter().filter(|w| w.is_metadata());
    let metadata: Vec<String> = metadata.map(|w| w.name()).collect();
    let base = |row: &Row| {
        let is_same =
            |r: &&Row| r.target == BASE && r.workload == row.workload && r.tasks == row.tasks;
        rows.iter().find(is_same).map(|base| base.value)
    };
    let judge = |row: &Row| {
        let name = format!("{}, {} x{}", row.target, row.workload, row.tasks);
        match base(row) {
            Some(base) if row.value > base => None,
            Some(base) => Some(format!("{name}: {:.2} of it", row.value / base)),
            None => Some(format!("{name}: no figure of it")),
        }
    };
    rows.iter()
        .filter(|row| row.target != BASE && metadata.contains(&row.workload))
        .filter_map(judge)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, tasks: u32, value: f64) -> Row {
        Row {
            bench: "lib",
            workload: "stat".into(),
            target: target.into(),
            tasks,
            metric: PER_SECOND.0,
            value,
            unit: PER_SECOND.1,
            runs: 5,
            ci95: 0.1,
        }
    }

    #[test]
    fn every_kind_of_library_is_held_against_tmpfs() {
        for target in ["lib", "lib-shared", "lib-lowest"] {
            let judged = |value| not_faster(&[row(target, 2, value), row("tmpfs", 2, 2.0)]);
            assert!(judged(2.5).is_empty());
            for value in [2.0, 1.0, f64::NAN] {
                let said = judged(value);
                assert!(said.len() == 1 && said[0].contains(target), "{said:?}");
            }
        }
    }

    #[test]
    fn a_row_without_tmpfs_is_not_faster() {
        let said = not_faster(&[row("lib", 2, 9.0), row("tmpfs", 1, 1.0)]);
        assert_eq!(said, ["lib, stat x2: no figure of it"]);
    }
}

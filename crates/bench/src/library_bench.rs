//! `hearth-bench lib`: the library in process against system calls on the kernel's tmpfs.

use crate::activity::Activity;
use crate::compare::{Contestant, compare, table};
use crate::measure::Effort;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::row::{PER_SECOND, Row, write_json};
use crate::target::{Fresh, Library, Sharing};
use crate::workload::Workload;

/// Runs the benchmark and prints its table.
///
/// # Errors
/// A target refuses, or the library is slower than tmpfs on a metadata row.
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
            name: "tmpfs",
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
    println!("{}", table(&rows, &["tmpfs"]));
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    let slower = slower(&rows);
    if slower.is_empty() {
        println!("lib is faster than tmpfs on every metadata row");
        return Ok(());
    }
    Err(format!("slower than tmpfs: {}", slower.join("; ")))
}

/// The metadata rows on which the library is not faster than tmpfs.
fn slower(rows: &[Row]) -> Vec<String> {
    let metadata: Vec<String> = Workload::ALL
        .into_iter()
        .filter(|w| w.is_metadata())
        .map(|w| w.name())
        .collect();
    let of = |target: &str, row: &Row| {
        let same =
            |r: &&Row| r.target == target && r.workload == row.workload && r.tasks == row.tasks;
        rows.iter().find(same).map_or(f64::NAN, |row| row.value)
    };
    rows.iter()
        .filter(|row| row.target == "lib" && metadata.contains(&row.workload))
        .filter(|row| row.value <= of("tmpfs", row))
        .map(|row| format!("{} x{}", row.workload, row.tasks))
        .collect()
}

//! A volume that keeps what it is given beside one in memory, both in process.

use super::disk::Disk;
use crate::ask::Ask;
use crate::contender::{Contender, names};
use crate::failure::Context;
use crate::options::Options;
use crate::report::{Report, table};
use crate::row::OPS_PER_SECOND;
use crate::stats::Samples;
use crate::suites::basic::{TASKS, effort};
use crate::workloads::BASIC;
use std::sync::atomic::{AtomicU32, Ordering};

const MEMORY: &str = "memory";
const STORE: &str = "store";
/// The least share of the speed in memory: of reads and lookups, and of what changes something.
const READS: f64 = 0.97;
const CHANGES: f64 = 0.8;

/// Operations per second of the plain calls of the library.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let disk = Disk::cheap(options)?;
    let root = disk.path().to_owned();
    let number = AtomicU32::new(0);
    let open = move || {
        // Relaxed: a number by itself.
        let number = number.fetch_add(1, Ordering::Relaxed);
        let volume = |number: u32| root.join(format!("v{number}"));
        if let Some(before) = number.checked_sub(1).map(volume).filter(|v| v.exists()) {
            // The run before has closed it; all of them would fill the disk.
            std::fs::remove_dir_all(&before).at(&before)?;
        }
        let source = format!("store:{}?create", volume(number).display());
        hearth::open(&source).text()
    };
    let mut contenders = Contender::all(&["lib"], 1)?;
    contenders[0].name = MEMORY.into();
    match open() {
        Ok(_) => contenders.push(Contender::volume(STORE, open)),
        Err(what) => println!("without store: {what}"),
    }
    let effort = effort(options)?;
    let mut rates = Samples::default();
    for script in &BASIC {
        effort.rates(&contenders, &script.repeated(), &TASKS, &mut rates, |_| {
            true
        })?;
    }
    let grid = rates.of(OPS_PER_SECOND);
    let corner = "operations per second, in process";
    let targets = names(&contenders);
    println!(
        "{}",
        table([corner, "tasks"], grid, &targets, &[MEMORY], None)
    );
    report.bench = "store-lib";
    report.add_grid(grid, OPS_PER_SECOND);
    for script in &BASIC {
        let changes = ["create", "write", "rename", "unlink"];
        let least = match changes.iter().any(|word| script.name.contains(word)) {
            true => CHANGES,
            false => READS,
        };
        let ratios = grid.ratios(script.name, (STORE, 1), (MEMORY, 1));
        if !ratios.is_empty() {
            let what = format!("{}, in process: store / memory", script.name);
            report.asks.push(Ask::at_least(what, least, &ratios));
        }
    }
    Ok(())
}

//! The families that are rates of one operation: one task against tmpfs; `file-ops-test`; the same
//! file and the same path by all.

use super::Family;
use super::session::{MANY_TASKS, Session};
use crate::script::Script;
use crate::stats::{Grid, middle};
use crate::table::Table;
use crate::workloads::{FILE_OPS, PATHS, SINGLE};

/// One task: the library against system calls on tmpfs.
pub const ONE_TASK: Family = Family {
    name: "single",
    about: || {
        format!("One task, everything warm; beside it two, and {MANY_TASKS} that take turns.")
    },
    scripts: || SINGLE.iter().map(|(script, _)| script).collect(),
    others: Vec::new,
    also_counted: Vec::new,
    run: run_single,
};

fn run_single(session: &mut Session) -> Result<(), String> {
    let grid = session.rates(&(ONE_TASK.scripts)(), &[1, 2, MANY_TASKS])?;
    session.print_rates(&grid);
    for (script, times) in &SINGLE {
        if session.wants(script.name) {
            // Only tmpfs is what was asked for; without it the ask is not measured.
            session.ask_against(&grid, script.name, ["lib", "tmpfs"], *times);
            session.ask_of_two(&grid, script.name);
            session.ask_of_many(&grid, script.name);
        }
    }
    Ok(())
}

/// Open and close, or create and remove, each task its own file, in one working directory or each
/// in its own.
pub const DIRECTORIES: Family = Family {
    name: "file-ops",
    about: || {
        "Each task opens and closes its own file (oc), or creates, closes and removes it (cu), in \
         one working\ndirectory (same) or in its own (diff). Percent of what one task does on the \
         baseline; the sum of all\ntasks, so that N tasks on as many cores would ideally do N \
         times 100."
            .to_owned()
    },
    scripts: || FILE_OPS.iter().map(|(script, _)| script).collect(),
    others: Vec::new,
    also_counted: Vec::new,
    run: run_file_ops,
};

fn run_file_ops(session: &mut Session) -> Result<(), String> {
    let tasks = session.tasks();
    let grid = session.rates(&(DIRECTORIES.scripts)(), &tasks)?;
    let names = session.names();
    let base = session.baseline().to_owned();
    let percents = percents(&grid, &base);
    for name in names
        .iter()
        .filter(|&name| *name != base || names.len() == 1)
    {
        println!("{}", seed_table(&percents, &base, name, &tasks));
    }
    session.print_rates(&grid);
    let unit = format!("% of one task on {base}");
    let pictures = FILE_OPS
        .iter()
        .map(|(script, short)| (script, short.replace(' ', "-")));
    curves(session, &grid, (&percents, &unit), pictures)
}

/// Percent of what one task does on the baseline.
fn percents(grid: &Grid, base: &str) -> Grid {
    let mut percents = Grid::default();
    for (key, _) in grid.cells() {
        let ratios = grid.ratios(&key.workload, (&key.target, key.tasks), (base, 1));
        if let Some(ratio) = middle(&ratios) {
            percents.push(&key.workload, &key.target, key.tasks, ratio * 100.0);
        }
    }
    percents
}

/// The table of the seed: the baseline and one other target, mode by mode.
fn seed_table(percents: &Grid, base: &str, name: &str, tasks: &[usize]) -> String {
    let mut heading = vec!["tasks".to_owned()];
    for (_, short) in &FILE_OPS {
        heading.extend([format!("{short} {base}"), format!("{short} {name}")]);
    }
    let mut table = Table::new(heading);
    for &tasks in tasks {
        let mut line = vec![tasks.to_string()];
        for (script, _) in &FILE_OPS {
            for target in [base, name] {
                let percent = percents.median(script.name, target, tasks);
                line.push(percent.map_or(String::new(), |(percent, _)| format!("{percent:.1}")));
            }
        }
        table.row(line);
    }
    table.text()
}

/// One file opened by all, one path asked for by all, and long paths whose beginning all
/// have in common.
pub const COMMON: Family = Family {
    name: "paths",
    about: || {
        "All tasks open and close one file, ask for one path, or each for a file of its own 8 \
         elements deep,\nwhose directories they have in common."
            .to_owned()
    },
    scripts: || PATHS.iter().map(|(script, _)| script).collect(),
    others: Vec::new,
    also_counted: Vec::new,
    run: run_paths,
};

fn run_paths(session: &mut Session) -> Result<(), String> {
    let tasks = session.tasks();
    let grid = session.rates(&(COMMON.scripts)(), &tasks)?;
    session.print_rates(&grid);
    let pictures = PATHS
        .iter()
        .map(|(script, name)| (script, (*name).to_owned()));
    curves(session, &grid, (&grid, "operations per second"), pictures)
}

/// Draws each workload and asks that it scales.
fn curves(
    session: &mut Session,
    grid: &Grid,
    (drawn, unit): (&Grid, &str),
    pictures: impl Iterator<Item = (&'static Script, String)>,
) -> Result<(), String> {
    let tasks = session.tasks();
    for (Script { name, .. }, picture) in pictures {
        if session.wants(name) {
            let picture = format!("{}-{picture}", session.report.bench);
            session.draw(&picture, (name, unit), (drawn, name), &tasks)?;
            session.ask_of_two(grid, name);
            session.ask_of_many(grid, name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::cells_of;

    #[test]
    fn the_table_is_laid_out_as_the_seed_s() {
        let mut grid = Grid::default();
        for (script, _) in &FILE_OPS {
            grid.push(script.name, "tmpfs", 1, 2.0);
            grid.push(script.name, "tmpfs", 2, 1.5);
            grid.push(script.name, "lib", 1, 10.0);
        }
        let text = seed_table(&percents(&grid, "tmpfs"), "tmpfs", "lib", &[1, 2]);
        let heading = cells_of(&text, 0);
        assert_eq!(heading[..3], ["tasks", "oc same tmpfs", "oc same lib"]);
        assert_eq!(heading[7..], ["cu diff tmpfs", "cu diff lib"]);
        assert_eq!(cells_of(&text, 2)[..3], ["1", "100.0", "500.0"]);
        // What was not measured is left empty.
        assert_eq!(cells_of(&text, 3)[..3], ["2", "75.0", ""]);
    }
}

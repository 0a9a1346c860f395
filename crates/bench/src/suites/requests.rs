//! `hearth-bench requests`: programs of many small calls, on tmpfs, on a FUSE server that does
//! nothing (the example `floor` of `hearth-fuse`), and on mounts. What the second one takes is the
//! kernel's.

use crate::ask::Ask;
use crate::children::{Waiting, own, ready};
use crate::contender::{Contender, names};
use crate::daemons::{example, hearth};
use crate::failure::Context;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::pinned::OnFirstCore;
use crate::report::{self, Report};
use crate::row::SECONDS;
use crate::runner;
use crate::stats::Grid;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Processes of the first workload, and how often each of them writes and reads a block.
const PROCESSES: usize = 20;
const TURNS: u64 = 400;
const BLOCK: usize = 4096;
/// Size of each filesystem, and how often it is filled and emptied.
const BYTES: u64 = 64 << 20;
const FILLS: usize = 5;
/// Size of each file that fills it: less than a block, and it takes a whole one.
const FILE_BYTES: usize = 4000;
const ROUNDS: usize = 5;
const FLOOR: &str = "floor";
/// Server and programs on one core: no other one has to be woken for a request, which is the best
/// placement for one client.
const FLOOR_ON_ONE_CORE: &str = "floor-one-core";
/// What a mount may take of the time of the server that does nothing, wherever that runs.
const MOST: f64 = 1.5;

/// The verb by which this program is one of the processes of the first workload.
pub const DIRECT: &str = "requests-direct";

/// Measures in a fresh directory, and returns seconds.
type TimedRun = fn(&Path) -> Result<f64, String>;

const WORKLOADS: [(&str, usize, TimedRun); 2] = [
    ("small direct I/O", PROCESSES, direct),
    ("fill and remove", 1, fill_and_remove),
];

/// A block where `O_DIRECT` takes it from.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// Measures and prints the table.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let contenders = contenders()?;
    let mut grid = Grid::default();
    let wanted = WORKLOADS.iter().filter(|one| options.wants(one.0));
    let wanted: Vec<_> = wanted.collect();
    let run = |&&(name, tasks, workload): &&(&str, usize, TimedRun), on: &Contender, _| {
        let seconds = measure(on, workload).context(format_args!("{}, {name}", on.name))?;
        grid.push(name, &on.name, tasks, seconds);
        Ok(())
    };
    runner::rounds(options.rounds_or(1, ROUNDS), &wanted, &contenders, run)?;
    let targets = names(&contenders);
    let bases = &["tmpfs", FLOOR_ON_ONE_CORE];
    let text = report::table(["seconds", "tasks"], &grid, &targets, bases, None);
    println!("{text}");
    report.add_grid(&grid, SECONDS);
    for (name, tasks, _) in WORKLOADS {
        for target in targets.iter().filter(|name| name.starts_with("mount")) {
            for floor in [FLOOR, FLOOR_ON_ONE_CORE] {
                let ratios = grid.ratios(name, (target, tasks), (floor, tasks));
                if !ratios.is_empty() {
                    let what = format!("{name}, time: {target} / {floor}");
                    report.asks.push(Ask::at_most(what, MOST, &ratios));
                }
            }
        }
    }
    Ok(())
}

/// Runs a workload on a fresh mount. Server and programs that are to share a core inherit it from
/// the thread that starts them.
fn measure(contender: &Contender, workload: TimedRun) -> Result<f64, String> {
    let is_on_one_core = contender.name == FLOOR_ON_ONE_CORE;
    let _on_one_core = is_on_one_core.then(OnFirstCore::new).transpose()?;
    workload(contender.fresh_mount()?.directory())
}

fn contenders() -> Result<Vec<Contender>, String> {
    let program = example(FLOOR).ok_or("no example floor beside this program")?;
    let mut all = vec![Contender::mount("tmpfs", || Mounted::tmpfs_of(BYTES))];
    for name in [FLOOR, FLOOR_ON_ONE_CORE] {
        let program = program.clone();
        all.push(Contender::mount(name, move || {
            Mounted::served_with(FLOOR, Command::new(&program), &[&BYTES.to_string()])
        }));
    }
    for transport in ["dev", "uring"] {
        let options = format!("size={BYTES},transport={transport}");
        let mount = Contender::mount(&format!("mount-{transport}"), move || hearth(&options));
        all.push(mount);
    }
    Ok(all)
}

/// Processes that each write and read back blocks of their own part of one file, past the page
/// cache.
fn direct(place: &Path) -> Result<f64, String> {
    let path = place.join("file");
    let all = PROCESSES as u64 * TURNS * BLOCK as u64;
    let made = File::create(&path).and_then(|file| file.set_len(all));
    made.text()?;
    let program = |part: usize| {
        let mut program = own(DIRECT)?;
        program.arg(&path).arg(part.to_string());
        Ok(program)
    };
    let programs: Result<Vec<_>, String> = (0..PROCESSES).map(program).collect();
    let mut waiting = Waiting::start(programs?)?;
    let begun = Instant::now();
    waiting.go()?;
    let seconds = begun.elapsed().as_secs_f64();
    waiting.end()?;
    std::fs::remove_file(&path).text()?;
    Ok(seconds)
}

/// The verb [`DIRECT`]: the file, the number of the process.
pub fn run_direct(args: &[String]) -> Result<(), String> {
    let [path, part] = args else {
        return Err(format!("{DIRECT} FILE PART"));
    };
    let part: u64 = part.parse().map_err(|_| format!("'{part}': no number"))?;
    let mut options = File::options();
    let direct = options.read(true).write(true);
    let file = direct.custom_flags(libc::O_DIRECT).open(path).at(path)?;
    let mut block = Box::new(Aligned([part as u8; BLOCK]));
    ready()?;
    for turn in 0..TURNS {
        let at = (part * TURNS + turn) * BLOCK as u64;
        file.write_all_at(&block.0, at).at(path)?;
        file.read_exact_at(&mut block.0, at).at(path)?;
    }
    println!("done");
    Ok(())
}

/// Makes small files until there is no room, removes them, and does it again.
fn fill_and_remove(place: &Path) -> Result<f64, String> {
    let bytes = [7; FILE_BYTES];
    let begun = Instant::now();
    for _ in 0..FILLS {
        let mut made = 0;
        loop {
            let path = place.join(made.to_string());
            let written = File::create(&path).and_then(|mut file| file.write_all(&bytes));
            match written {
                Ok(()) => made += 1,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        // The last one may be there, without contents.
        for number in 0..=made {
            match std::fs::remove_file(place.join(number.to_string())) {
                Err(error) if number < made || error.kind() != ErrorKind::NotFound => {
                    return Err(format!("{number}: {error}"));
                }
                _ => {}
            }
        }
        let room = (BYTES / BLOCK as u64) as usize;
        if !(room / 10 * 9..=room).contains(&made) {
            return Err(format!("{made} files fitted, of some {room}"));
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

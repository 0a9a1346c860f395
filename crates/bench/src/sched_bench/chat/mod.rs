//! Chat: rooms of 20 users who each send messages of 100 bytes to all others of their room.
//!
//! In memory it is a load for a scheduler: two tasks a user, by this scheduler, tokio's and threads
//! of the system. Over fifos and sockets that lie on a mount it is the classic program: three
//! threads a user, and the mount is asked when they connect.

mod mailbox;
mod memory;
mod message;
mod wire;

use super::Report;
use crate::options::Options;
use crate::patience::beat;
use crate::row::percent;
use crate::seeds::contender::Contender;
use crate::seeds::grid::Grid;
use crate::table::{Table, short};
use crate::target::Subdirectory;
use message::Size;
use wire::Kind;

/// What is compared where the messages go over a mount.
const TARGETS: [&str; 3] = ["mount", "tmpfs", "ext4"];

/// Runs the benchmark.
///
/// # Errors
/// There is no mount, or a message is lost.
pub fn run(options: &Options) -> Result<Report, String> {
    let (messages, rounds, rooms) = match options.quick {
        true => (30, 3, &[1, 4][..]),
        false => (300, 7, &[1, 4, 10][..]),
    };
    let sizes: Vec<Size> = rooms
        .iter()
        .map(|&rooms| Size { rooms, messages })
        .collect();
    println!(
        "chat: {} users a room, {messages} messages of {} bytes each; messages that arrive per \
         second, medians of {rounds}\n",
        message::USERS,
        message::LENGTH
    );
    let memory = in_memory(&sizes, rounds)?;
    print(&memory, &sizes, "rooms in memory");
    let (over, connects) = over_files(&sizes, rounds)?;
    print(&over, &sizes, "rooms over files");
    print(&connects, &sizes, "users who connect per second, rooms");
    let mut rows = memory.rows("sched", "messages_per_s", "1/s");
    rows.extend(over.rows("sched", "messages_per_s", "1/s"));
    rows.extend(connects.rows("sched", "connects_per_s", "1/s"));
    Ok(Report {
        rows,
        asks: Vec::new(),
    })
}

fn in_memory(sizes: &[Size], rounds: usize) -> Result<Grid, String> {
    let mut grid = Grid::default();
    for _ in 0..rounds {
        for size in sizes {
            for (name, chat) in memory::TARGETS {
                beat();
                let seconds = chat(*size).map_err(|what| format!("{name}: {what}"))?;
                let rate = size.delivered() as f64 / seconds;
                grid.push("chat", name, size.rooms, rate);
            }
        }
    }
    Ok(grid)
}

/// Messages, and users who connect, per second.
fn over_files(sizes: &[Size], rounds: usize) -> Result<(Grid, Grid), String> {
    let mut contenders = vec![Contender::new(TARGETS[0])?];
    for name in &TARGETS[1..] {
        match Contender::new(name) {
            Ok(contender) => contenders.push(contender),
            Err(what) => println!("without {name}: {what}"),
        }
    }
    let (mut messages, mut connects) = (Grid::default(), Grid::default());
    for round in 0..rounds {
        for size in sizes {
            for kind in Kind::ALL {
                for turn in 0..contenders.len() {
                    let contender = &contenders[(round + turn) % contenders.len()];
                    let named = |what| format!("{}, {}: {what}", contender.name, kind.name());
                    let Some(place) = contender.directory() else {
                        continue;
                    };
                    beat();
                    let place = Subdirectory::new(place, true).map_err(named)?;
                    let took = wire::chat(place.path(), kind, *size).map_err(named)?;
                    let users = size.rooms * message::USERS;
                    let rate = size.delivered() as f64 / took.talk;
                    messages.push(kind.name(), &contender.name, size.rooms, rate);
                    let rate = users as f64 / took.connect;
                    connects.push(kind.name(), &contender.name, size.rooms, rate);
                }
            }
        }
    }
    Ok((messages, connects))
}

fn print(grid: &Grid, sizes: &[Size], corner: &str) {
    let workloads = grid.workloads();
    let targets = |size: &Size| grid.targets(&workloads[0], size.rooms);
    let names = sizes.first().map(targets).unwrap_or_default();
    let mut heading = vec![corner.to_owned(), String::new()];
    heading.extend(names.iter().cloned());
    let mut table = Table::new(heading);
    for workload in &workloads {
        for size in sizes {
            let mut line = vec![workload.clone(), size.rooms.to_string()];
            for name in &names {
                let cell = grid.median(workload, name, size.rooms);
                let shown = |(value, half)| format!("{} ±{}", short(value), percent(value, half));
                line.push(cell.map_or(String::new(), shown));
            }
            table.row(line);
        }
    }
    println!("{}", table.text());
}

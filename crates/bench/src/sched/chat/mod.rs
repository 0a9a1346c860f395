//! Chat: rooms of 20 users who each send messages of 100 bytes to all others of their room.
//!
//! In memory it is a load for a scheduler: two tasks a user, by this scheduler, tokio's and threads
//! of the system. Over fifos and sockets that lie on a mount it is the classic program: three
//! threads a user, and the mount is asked when they connect.

mod mailbox;
mod memory;
mod message;
mod wire;

use crate::contender::Contender;
use crate::options::Options;
use crate::report::{Report, with_interval};
use crate::stats::Grid;
use crate::table::Table;
use crate::target::Subdirectory;
use crate::watchdog::beat;
use message::Size;
use wire::Link;

/// What is compared where the messages go over a mount.
const TARGETS: [&str; 3] = ["mount", "tmpfs", "ext4"];

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
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
    report.add_grid(&memory, ("messages_per_s", "1/s"));
    report.add_grid(&over, ("messages_per_s", "1/s"));
    report.add_grid(&connects, ("connects_per_s", "1/s"));
    Ok(())
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
    let contenders = Contender::all(&TARGETS, 1)?;
    let (mut messages, mut connects) = (Grid::default(), Grid::default());
    for round in 0..rounds {
        for size in sizes {
            for link in Link::ALL {
                for turn in 0..contenders.len() {
                    let contender = &contenders[(round + turn) % contenders.len()];
                    let named = |what| format!("{}, {}: {what}", contender.name, link.name());
                    let Some(place) = contender.directory() else {
                        continue;
                    };
                    beat();
                    let place = Subdirectory::new(place, true).map_err(named)?;
                    let elapsed = wire::chat(place.path(), link, *size).map_err(named)?;
                    let users = size.rooms * message::USERS;
                    let rate = size.delivered() as f64 / elapsed.talk;
                    messages.push(link.name(), &contender.name, size.rooms, rate);
                    let rate = users as f64 / elapsed.connect;
                    connects.push(link.name(), &contender.name, size.rooms, rate);
                }
            }
        }
    }
    Ok((messages, connects))
}

fn print(grid: &Grid, sizes: &[Size], corner: &str) {
    let workloads = grid.workloads();
    let names = grid.targets(&workloads[0], sizes[0].rooms);
    let mut table = Table::new(
        [corner, ""]
            .into_iter()
            .chain(names.iter().map(|name| &**name)),
    );
    for workload in &workloads {
        for Size { rooms, .. } in sizes {
            let cell = |name: &String| with_interval(grid.median(workload, name, *rooms));
            let line = [workload.clone(), rooms.to_string()];
            table.row(line.into_iter().chain(names.iter().map(cell)));
        }
    }
    println!("{}", table.text());
}

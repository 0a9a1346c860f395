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
use crate::failure::Context;
use crate::options::Options;
use crate::report::{Report, table};
use crate::runner;
use crate::stats::{Grid, Metric, Samples};
use crate::target::Subdirectory;
use message::Size;
use wire::Link;

/// What is compared where the messages go over a mount.
const TARGETS: [&str; 3] = ["mount", "tmpfs", "ext4"];
const MESSAGES: Metric = ("messages_per_s", "1/s");
const CONNECTS: Metric = ("connects_per_s", "1/s");

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let (messages, rounds) = options.pick((30, 3), (300, 7));
    let rooms = options.pick(&[1, 4][..], &[1, 4, 10]).iter();
    let sizes: Vec<Size> = rooms.map(|&rooms| Size { rooms, messages }).collect();
    println!(
        "chat: {} users a room, {messages} messages of {} bytes each; messages that arrive per \
         second, medians of {rounds}\n",
        message::USERS,
        message::LENGTH
    );
    let mut memory = Samples::default();
    runner::rounds(rounds, &sizes, &memory::TARGETS, |size, (name, chat), _| {
        let rate = size.delivered() as f64 / chat(*size).context(name)?;
        memory.push(MESSAGES, ("chat", name, size.rooms), rate);
        Ok(())
    })?;
    print(memory.of(MESSAGES), "messages per second, in memory");
    let over = over_files(&sizes, rounds)?;
    print(over.of(MESSAGES), "messages per second, over files");
    print(over.of(CONNECTS), "users who connect per second");
    report.add_samples(&memory);
    report.add_samples(&over);
    Ok(())
}

/// Messages, and users who connect, per second.
fn over_files(sizes: &[Size], rounds: usize) -> Result<Samples, String> {
    let contenders = Contender::all(&TARGETS, 1)?;
    let over = |&size: &Size| Link::ALL.map(|link| (size, link));
    let chats: Vec<(Size, Link)> = sizes.iter().flat_map(over).collect();
    let mut samples = Samples::default();
    runner::rounds(
        rounds,
        &chats,
        &contenders,
        |&(size, link), contender, _| {
            let named = format_args!("{}, {}", contender.name, link.name());
            let Some(place) = contender.directory() else {
                return Ok(());
            };
            let place = Subdirectory::new(place, true).context(named)?;
            let elapsed = wire::chat(place.path(), link, size).context(named)?;
            let cell = (link.name(), &*contender.name, size.rooms);
            samples.push(MESSAGES, cell, size.delivered() as f64 / elapsed.talk);
            let users = size.rooms * message::USERS;
            samples.push(CONNECTS, cell, users as f64 / elapsed.connect);
            Ok(())
        },
    )?;
    Ok(samples)
}

/// A line for each chat and number of rooms.
fn print(grid: &Grid, what: &str) {
    let targets = grid.targets(&grid.workloads()[0], 1);
    println!("{}", table([what, "rooms"], grid, &targets, &[], None));
}

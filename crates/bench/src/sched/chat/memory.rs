//! Rooms in memory: a task that talks and one that listens for each user.

use super::mailbox::{Mailbox, block_on};
use super::message::{Ear, Size, USERS, message};
use crate::failure::joined;
use crate::pinned::allowed_cores;
use crate::sched::executors::{self, Executor};
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

/// Seconds that a chat takes.
type Chat = fn(Size) -> Result<f64, String>;

/// By whom tasks are run.
#[cfg(feature = "tokio")]
pub const TARGETS: [(&str, Chat); 3] = [("lib", library), ("tokio", tokio), ("threads", threads)];
/// By whom tasks are run; `cargo xtask bench` builds with tokio.
#[cfg(not(feature = "tokio"))]
pub const TARGETS: [(&str, Chat); 2] = [("lib", library), ("threads", threads)];

/// The mailboxes of a room, by user.
type Room = Arc<[Mailbox; USERS]>;

fn room() -> Room {
    Arc::new(std::array::from_fn(|_| Mailbox::default()))
}

async fn talk(room: Room, user: usize, size: Size) -> Result<(), String> {
    for number in 0..size.messages {
        for other in (0..USERS).filter(|&other| other != user) {
            room[other].put(message(user, number)).await;
        }
    }
    Ok(())
}

async fn listen(room: Room, user: usize, size: Size) -> Result<(), String> {
    let mut ear = Ear::new(user);
    for _ in 0..size.heard() {
        ear.hear(&room[user].take().await)?;
    }
    Ok(())
}

/// Spawns what all users do, each in two parts.
fn users(executor: &mut impl Executor, size: Size) {
    for _ in 0..size.rooms {
        let room = room();
        for user in 0..USERS {
            executor.spawn(listen(Arc::clone(&room), user, size));
            executor.spawn(talk(Arc::clone(&room), user, size));
        }
    }
}

fn library(size: Size) -> Result<f64, String> {
    let cores = allowed_cores().len();
    executors::library(cores, |library| users(library, size)).map(|((), seconds)| seconds)
}

#[cfg(feature = "tokio")]
fn tokio(size: Size) -> Result<f64, String> {
    let cores = allowed_cores().len();
    executors::tokio(cores, |tokio| users(tokio, size)).map(|((), seconds)| seconds)
}

fn threads(size: Size) -> Result<f64, String> {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let mut threads = Threads {
            scope,
            tasks: Vec::new(),
        };
        users(&mut threads, size);
        let mut tasks = threads.tasks.into_iter();
        tasks.try_for_each(|thread| joined(thread.join()))
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

/// A thread of the system for each task.
struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    tasks: Vec<ScopedJoinHandle<'scope, Result<(), String>>>,
}

impl Executor for Threads<'_, '_> {
    fn spawn(&mut self, task: impl Future<Output = Result<(), String>> + Send + 'static) {
        self.tasks.push(self.scope.spawn(|| block_on(task)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_said_is_heard_whoever_runs_the_tasks() {
        let size = Size {
            rooms: 2,
            messages: 9,
        };
        for (name, chat) in TARGETS {
            let seconds = chat(size).unwrap_or_else(|what| panic!("{name}: {what}"));
            assert!(seconds > 0.0);
        }
    }
}

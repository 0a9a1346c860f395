//! Rooms in memory: a task that talks and one that listens for each user.

use super::mailbox::{Mailbox, block_on};
use super::message::{Ear, Size, USERS, message};
use crate::pinned::allowed_cores;
use hearth_sched::{Scheduler, Spec};
use std::sync::Arc;
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

fn library(size: Size) -> Result<f64, String> {
    let scheduler = Scheduler::builder().workers(allowed_cores().len()).start();
    let scheduler = scheduler.map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..size.rooms {
        let room = room();
        for user in 0..USERS {
            let listens = listen(Arc::clone(&room), user, size);
            tasks.push(scheduler.spawn(Spec::default(), listens));
            let talks = talk(Arc::clone(&room), user, size);
            tasks.push(scheduler.spawn(Spec::default(), talks));
        }
    }
    for task in tasks {
        task.join().map_err(|error| error.to_string())??;
    }
    Ok(begin.elapsed().as_secs_f64())
}

#[cfg(feature = "tokio")]
fn tokio(size: Size) -> Result<f64, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(allowed_cores().len())
        .build()
        .map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..size.rooms {
        let room = room();
        for user in 0..USERS {
            tasks.push(runtime.spawn(listen(Arc::clone(&room), user, size)));
            tasks.push(runtime.spawn(talk(Arc::clone(&room), user, size)));
        }
    }
    runtime.block_on(async {
        for task in tasks {
            task.await.map_err(|error| error.to_string())??;
        }
        Ok::<_, String>(())
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

fn threads(size: Size) -> Result<f64, String> {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..size.rooms {
            let room = room();
            for user in 0..USERS {
                let (heard, said) = (Arc::clone(&room), Arc::clone(&room));
                threads.push(scope.spawn(move || block_on(listen(heard, user, size))));
                threads.push(scope.spawn(move || block_on(talk(said, user, size))));
            }
        }
        let mut joined = threads.into_iter().map(|thread| thread.join());
        joined.try_for_each(|ended| ended.map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(begin.elapsed().as_secs_f64())
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

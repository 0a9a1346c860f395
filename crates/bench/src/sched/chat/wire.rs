//! Rooms over fifos or sockets that lie in a directory.
//!
//! A user has a connection to the room's server: a fifo for each direction, or a socket. Three
//! threads serve it: the user's that talks, the user's that listens, and the server's, which
//! passes on what comes to all others.

use super::message::{Ear, LENGTH, Message, Size, USERS, message};
use crate::failure::Context;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What connects a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Fifo,
    Socket,
}

impl Link {
    pub const ALL: [Link; 2] = [Link::Fifo, Link::Socket];

    pub fn name(self) -> &'static str {
        match self {
            Link::Fifo => "chat fifo",
            Link::Socket => "chat socket",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ChatTime {
    /// Until all users were connected.
    pub connect: f64,
    /// From there until everything was heard.
    pub talk: f64,
}

/// The four ends of a connection.
struct Connection {
    talks: File,
    listens: File,
    server_reads: File,
    server_writes: Mutex<File>,
}

/// Lets everybody talk.
pub fn chat(place: &Path, link: Link, size: Size) -> Result<ChatTime, String> {
    let begin = Instant::now();
    let rooms: std::io::Result<Vec<Vec<Connection>>> = (0..size.rooms)
        .map(|room| {
            let directory = place.join(format!("room-{room}"));
            std::fs::create_dir(&directory)?;
            match link {
                Link::Fifo => (0..USERS).map(|user| fifos(&directory, user)).collect(),
                Link::Socket => sockets(&directory),
            }
        })
        .collect();
    let rooms = rooms.at(place)?;
    let connect = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for room in &rooms {
            for user in 0..USERS {
                threads.push(scope.spawn(move || listen(&room[user].listens, user, size)));
                threads.push(scope.spawn(move || pass_on(room, user, size)));
                threads.push(scope.spawn(move || talk(&room[user].talks, user, size)));
            }
        }
        let mut joined = threads.into_iter().map(|thread| thread.join());
        joined.try_for_each(|ended| ended.map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(ChatTime {
        connect,
        talk: begin.elapsed().as_secs_f64(),
    })
}

fn fifos(directory: &Path, user: usize) -> std::io::Result<Connection> {
    let [up, down] = ["up", "down"].map(|way| directory.join(format!("{way}-{user}")));
    for path in [&up, &down] {
        mkfifoat(CWD, path, Mode::from_raw_mode(0o600))?;
    }
    // For both, because an end by itself would wait for the other one.
    let both = OpenOptions::new().read(true).write(true).clone();
    let (server_reads, server_writes) = (both.open(&up)?, both.open(&down)?);
    Ok(Connection {
        talks: OpenOptions::new().write(true).open(&up)?,
        listens: File::open(&down)?,
        server_reads,
        server_writes: Mutex::new(server_writes),
    })
}

fn sockets(directory: &Path) -> std::io::Result<Vec<Connection>> {
    let path = directory.join("server");
    let listener = UnixListener::bind(&path)?;
    (0..USERS)
        .map(|_| {
            let user = UnixStream::connect(&path)?;
            let (server, _) = listener.accept()?;
            let file = |socket: UnixStream| File::from(OwnedFd::from(socket));
            Ok(Connection {
                talks: file(user.try_clone()?),
                listens: file(user),
                server_reads: file(server.try_clone()?),
                server_writes: Mutex::new(file(server)),
            })
        })
        .collect()
}

fn talk(mut to: &File, user: usize, size: Size) -> Result<(), String> {
    (0..size.messages)
        .try_for_each(|number| to.write_all(&message(user, number)))
        .context(format_args!("user {user} talks"))
}

/// The server's part: everything that the user says goes to all others.
fn pass_on(room: &[Connection], user: usize, size: Size) -> Result<(), String> {
    let failed = |error| format!("the server of user {user}: {error}");
    let mut from = buffered(&room[user].server_reads);
    let mut message: Message = [0; LENGTH];
    for _ in 0..size.messages {
        from.read_exact(&mut message).map_err(failed)?;
        let others = room.iter().enumerate().filter(|(other, _)| *other != user);
        for (_, other) in others {
            let to = other.server_writes.lock();
            let mut to = to.unwrap_or_else(PoisonError::into_inner);
            to.write_all(&message).map_err(failed)?;
        }
    }
    Ok(())
}

fn listen(from: &File, user: usize, size: Size) -> Result<(), String> {
    let mut from = buffered(from);
    let (mut ear, mut message): (_, Message) = (Ear::new(user), [0; LENGTH]);
    for _ in 0..size.heard() {
        from.read_exact(&mut message)
            .context(format_args!("user {user} listens"))?;
        ear.hear(&message)?;
    }
    Ok(())
}

/// Some messages at a time, as chat programs read.
fn buffered(file: &File) -> BufReader<&File> {
    BufReader::with_capacity(16 * LENGTH, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Subdirectory;

    #[test]
    fn everything_that_is_said_is_heard_over_fifos_and_sockets() {
        let size = Size {
            rooms: 2,
            messages: 7,
        };
        for link in Link::ALL {
            let place = Subdirectory::new(&std::env::temp_dir(), true).unwrap();
            let elapsed = chat(place.path(), link, size).unwrap();
            assert!(elapsed.connect > 0.0 && elapsed.talk > 0.0);
            let room = place.path().join("room-1");
            let files = std::fs::read_dir(room).unwrap().count();
            assert_eq!(files, if link == Link::Fifo { 2 * USERS } else { 1 });
        }
    }
}

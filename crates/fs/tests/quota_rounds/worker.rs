//! One of the threads: files of its own, grown and cut at random, and what it did.

use super::log::Log;
use super::{Dice, GROUPS, PAGE, PROJECTS, QuotaId, USERS};
use hearth::{Credentials, Errno, Process, Resource, Volume};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Operations of the race.
const STEPS: usize = 120;
/// Pages of a large charge.
const LARGE: u64 = 96;

/// The clock of a round: a counter.
#[derive(Default)]
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    fn next(&self) -> u64 {
        // SeqCst: the numbers order what threads did before and after taking them.
        self.0.fetch_add(1, SeqCst)
    }
}

/// The accounts that are charged for what a thread makes.
fn owners(thread: u64) -> [QuotaId; 4] {
    let (uid, gid, project) = ids(thread);
    [
        QuotaId::VOLUME,
        QuotaId::user(uid),
        QuotaId::group(gid),
        QuotaId::project(project),
    ]
}

fn ids(thread: u64) -> (u32, u32, u32) {
    let thread = thread as u32;
    (
        1 + thread % USERS,
        1 + thread / USERS % GROUPS,
        1 + thread / (USERS * GROUPS) % PROJECTS,
    )
}

struct File {
    name: String,
    fd: i32,
    /// All of them at the front.
    pages: u64,
    /// The group that pays, which changes.
    gid: u32,
}

pub(crate) struct Worker<'a> {
    process: Process,
    thread: u64,
    dice: Dice,
    stamps: &'a Stamps,
    files: Vec<File>,
    made: u64,
    log: Log,
    bytes: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(volume: &Volume, thread: u64, dice: Dice, stamps: &'a Stamps) -> Worker<'a> {
        let (uid, gid, _) = ids(thread);
        let credentials = Credentials {
            uid,
            gid,
            groups: (1..=GROUPS).collect(),
        };
        Worker {
            process: volume.process(credentials),
            thread,
            dice,
            stamps,
            files: Vec::new(),
            made: 0,
            log: Log::default(),
            bytes: vec![7; (LARGE * PAGE) as usize],
        }
    }

    /// Small and large charges of every kind, and frees in between.
    pub(crate) fn race(&mut self) {
        for _ in 0..STEPS {
            if self.files.is_empty() {
                let _ = self.create();
                continue;
            }
            let at = self.dice.below(self.files.len() as u64) as usize;
            match self.dice.below(16) {
                0..4 => drop(self.create()),
                4..8 => drop(self.append(at, 1)),
                8..10 => {
                    let pages = 1 + self.dice.below(LARGE);
                    let _ = self.append(at, pages);
                }
                10 | 11 => self.allocate(at),
                12 => self.give_to_another_group(at),
                13 => self.cut(at),
                _ => self.remove(at),
            }
        }
    }

    /// Takes one by one until there is no more, and gives nothing back. Who refused him: of these
    /// payers, one is at the limit of this resource.
    pub(crate) fn demand(&mut self) -> Vec<([QuotaId; 4], Resource)> {
        let (_, gid, _) = ids(self.thread);
        while self.create().is_ok() {}
        let mut ends = vec![(self.payers(gid), Resource::Inodes)];
        // Every file may be paid by another group. Who could make none does not ask for pages.
        for at in 0..self.files.len() {
            while self.append(at, 1).is_ok() {}
            ends.push((self.payers(self.files[at].gid), Resource::Blocks));
        }
        ends
    }

    pub(crate) fn into_log(self) -> Log {
        self.log
    }

    fn payers(&self, gid: u32) -> [QuotaId; 4] {
        let [volume, user, _, project] = owners(self.thread);
        [volume, user, QuotaId::group(gid), project]
    }

    fn create(&mut self) -> Result<(), Errno> {
        let (_, gid, project) = ids(self.thread);
        let name = format!("/{project}/{}-{}", self.thread, self.made);
        self.made += 1;
        let begin = self.stamps.next();
        let made = self
            .process
            .open(&*name, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o600);
        let span = (begin, self.stamps.next());
        match made {
            Ok(fd) => {
                self.log.charged(begin, &self.payers(gid), [0, 1]);
                self.files.push(File {
                    name,
                    fd,
                    pages: 0,
                    gid,
                });
                Ok(())
            }
            Err(errno) => {
                self.log
                    .refused("a file", span, &self.payers(gid), [0, 1], Some(errno));
                Err(errno)
            }
        }
    }

    /// As many of `pages` as fit.
    fn append(&mut self, at: usize, pages: u64) -> Result<(), Errno> {
        let File {
            fd,
            pages: off,
            gid,
            ..
        } = self.files[at];
        let payers = self.payers(gid);
        let bytes = &self.bytes[..(pages * PAGE) as usize];
        let begin = self.stamps.next();
        let written = self.process.pwrite(fd, bytes, off * PAGE);
        let span = (begin, self.stamps.next());
        let (done, errno) = match written {
            Ok(bytes) => (bytes as u64, None),
            Err(errno) => (0, Some(errno)),
        };
        assert!(done.is_multiple_of(PAGE), "{done} bytes were written");
        let done = done / PAGE;
        self.files[at].pages += done;
        if done > 0 {
            self.log.charged(begin, &payers, [done, 0]);
        }
        if done < pages {
            self.log.refused("a write", span, &payers, [1, 0], errno);
        }
        errno.map_or(Ok(()), Err)
    }

    /// All or nothing.
    fn allocate(&mut self, at: usize) {
        let File {
            fd,
            pages: off,
            gid,
            ..
        } = self.files[at];
        let pages = 1 + self.dice.below(LARGE);
        let begin = self.stamps.next();
        let done = self.process.fallocate(fd, 0, off * PAGE, pages * PAGE);
        let span = (begin, self.stamps.next());
        let payers = self.payers(gid);
        match done {
            Ok(()) => {
                self.files[at].pages += pages;
                self.log.charged(begin, &payers, [pages, 0]);
            }
            Err(errno) => {
                self.log
                    .refused("fallocate", span, &payers, [pages, 0], Some(errno));
            }
        }
    }

    /// Only the groups see it: one more, one less.
    fn give_to_another_group(&mut self, at: usize) {
        let File { fd, pages, gid, .. } = self.files[at];
        let to = 1 + gid % GROUPS;
        let begin = self.stamps.next();
        let done = self.process.fchown(fd, None, Some(to));
        let span = (begin, self.stamps.next());
        let entered = [QuotaId::group(to)];
        match done {
            Ok(()) => {
                self.files[at].gid = to;
                self.log.charged(begin, &entered, [pages, 1]);
                self.log.freed(span.1, &[QuotaId::group(gid)], [pages, 1]);
            }
            Err(errno) => {
                self.log
                    .refused("chgrp", span, &entered, [pages, 1], Some(errno));
            }
        }
    }

    fn cut(&mut self, at: usize) {
        let File { fd, pages, gid, .. } = self.files[at];
        let rest = self.dice.below(pages + 1);
        self.process.ftruncate(fd, rest * PAGE).unwrap();
        let end = self.stamps.next();
        self.files[at].pages = rest;
        let payers = self.payers(gid);
        self.log.freed(end, &payers, [pages - rest, 0]);
    }

    fn remove(&mut self, at: usize) {
        let file = self.files.swap_remove(at);
        self.process.unlink(&*file.name).unwrap();
        self.process.close(file.fd).unwrap();
        let end = self.stamps.next();
        let payers = self.payers(file.gid);
        self.log.freed(end, &payers, [file.pages, 1]);
    }
}

//! What a racer does in a round: files of its own, made, grown, cut and removed at random, and what
//! came of it.

use super::harness::Random;
use super::kept::{Kept, refusal, timed};
use super::notes::{Notes, now};
use super::task::Task;
use super::{PAGE, SPAN};
use hearth::{Errno, QuotaId, Resource};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Pages of a large charge.
const LARGE: u64 = 64;
/// Refusals after which a worker waits for what is to come: each may take a tenth of a second.
const PATIENCE: usize = 10;
/// Pages that are asked for at once when everything is asked for.
const DEMAND: u64 = 40;

pub(crate) struct Worker {
    task: Task,
    pub(crate) dice: Random,
    pub(crate) files: Vec<Kept>,
    /// Files that are not written any more.
    pub(crate) retired: Vec<Kept>,
    /// Directories and symbolic links.
    others: Vec<(PathBuf, bool)>,
    made: u64,
    pub(crate) notes: Notes,
}

impl Worker {
    pub(crate) fn new(task: Task) -> Worker {
        Worker {
            dice: Random(task.seed),
            task,
            files: Vec::new(),
            retired: Vec::new(),
            others: Vec::new(),
            made: 0,
            notes: Notes::default(),
        }
    }

    /// Small and large charges of both resources, and frees in between.
    pub(crate) fn race(&mut self) {
        for _ in 0..self.task.steps {
            if self.notes.refusals >= PATIENCE {
                break;
            }
            if self.files.is_empty() {
                self.create();
                continue;
            }
            let at = self.dice.below(self.files.len() as u64) as usize;
            match self.dice.below(25) {
                0..3 => self.create(),
                3 => drop(self.make_other()),
                4 => {
                    self.remove_other();
                    self.remove_retired();
                }
                5..8 => drop(self.append(at, 2 * PAGE)),
                8..10 => drop(self.append(at, LARGE * PAGE)),
                10 => drop(self.write_somewhere(at)),
                11 => self.allocate(at),
                12 => self.give_to_another_group(at),
                13 => self.cut(at),
                14 => self.punch(at),
                15..19 => self.remove(at),
                _ if !self.task.maps => drop(self.append(at, PAGE)),
                19..22 => self.store(at),
                22 => self.look(at),
                23 => self.retire(at),
                _ => self.store_ahead(),
            }
        }
    }

    /// Everything that was acknowledged is with the volume.
    pub(crate) fn settle(&mut self) {
        self.files.iter_mut().for_each(Kept::sync);
    }

    /// Takes until there is no more, and gives nothing back.
    pub(crate) fn demand(&mut self) {
        if self.task.inodes {
            while self.make_other() {}
            let owners = self.payers(self.task.gid);
            self.notes.ended(&owners, Resource::Inodes);
        }
        for gid in self.task.limited.clone() {
            // Who could make no file does not ask for pages.
            let Some(at) = self.files.iter().position(|file| file.gid == gid) else {
                continue;
            };
            if !(self.task.maps && self.fill_by_stores(at)) {
                while self.append(at, DEMAND * PAGE) > 0 {}
            }
            let owners = self.payers(gid);
            self.notes.ended(&owners, Resource::Blocks);
        }
        let all = self.files.iter_mut().chain(&mut self.retired);
        all.for_each(Kept::verify);
    }

    /// What has happened since the last time that this was asked.
    pub(crate) fn take_notes(&mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }

    /// Removes everything.
    pub(crate) fn clean(&mut self) {
        while !self.files.is_empty() {
            self.remove(0);
        }
        while !self.retired.is_empty() {
            self.remove_retired();
        }
        while !self.others.is_empty() {
            self.remove_other();
        }
    }

    pub(crate) fn payers(&self, gid: u32) -> [QuotaId; 3] {
        let Task { uid, project, .. } = self.task;
        [
            QuotaId::user(uid),
            QuotaId::group(gid),
            QuotaId::project(project),
        ]
    }

    /// Whether each write is charged before it is acknowledged.
    pub(crate) fn is_charged(&self) -> bool {
        self.task.limited.contains(&self.task.gid)
    }

    fn name(&mut self) -> PathBuf {
        self.made += 1;
        PathBuf::from(format!(
            "{}/{}-{}",
            self.task.place,
            std::process::id(),
            self.made
        ))
    }

    pub(crate) fn create(&mut self) {
        let (made, span) = Kept::create(self.name(), self.task.gid);
        let owners = self.payers(self.task.gid);
        match made {
            Ok(file) => {
                self.notes.charged(span.0, &owners, [0, 1]);
                self.files.push(file);
            }
            Err(errno) => {
                let asked = [0, 1];
                self.notes
                    .refused("a file", span, &owners, asked, Some(errno));
            }
        }
    }

    /// A directory or a symbolic link; whether there was room.
    fn make_other(&mut self) -> bool {
        let (path, is_directory) = (self.name(), self.dice.below(2) == 0);
        let (made, span) = timed(|| match is_directory {
            true => fs::create_dir(&path),
            false => symlink("nowhere", &path),
        });
        let owners = self.payers(self.task.gid);
        let Err(error) = made else {
            self.notes.charged(span.0, &owners, [0, 1]);
            self.others.push((path, is_directory));
            return true;
        };
        let (what, errno) = ("a directory or link", Some(refusal(error)));
        self.notes.refused(what, span, &owners, [0, 1], errno);
        false
    }

    fn remove_other(&mut self) {
        let Some((path, is_directory)) = self.others.pop() else {
            return;
        };
        let removed = match is_directory {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        };
        removed.expect("it is there");
        let owners = self.payers(self.task.gid);
        self.notes.freed(now(), &owners, [0, 1]);
    }

    /// Up to so many bytes at the end, at a page's beginning or not; how many were written.
    fn append(&mut self, at: usize, most: u64) -> u64 {
        let size = self.files[at].size();
        match self.dice.below(2) {
            0 => {
                let len = 1 + self.dice.below(most);
                self.write(at, size, len)
            }
            _ => self.write(at, size.next_multiple_of(PAGE), most),
        }
    }

    /// Over what is there, and into holes.
    fn write_somewhere(&mut self, at: usize) -> u64 {
        let off = self.dice.below(SPAN * PAGE);
        let len = 1 + self.dice.below(9 * PAGE);
        self.write(at, off, len)
    }

    fn write(&mut self, at: usize, off: u64, len: u64) -> u64 {
        let tag = self.tag();
        let file = &mut self.files[at];
        let ((done, errno), span) = file.write(off, len, tag);
        let new = file.has_written(off, done, tag);
        let owners = self.payers(self.files[at].gid);
        self.notes.charged(span.0, &owners, [new, 0]);
        if done < len {
            self.refused_a_page(("a write", errno), span, at, (off + done) / PAGE);
        }
        done
    }

    /// A page for which there was no room, so it had none before.
    pub(crate) fn refused_a_page(
        &mut self,
        (what, errno): (&str, Option<Errno>),
        span: (u64, u64),
        at: usize,
        page: u64,
    ) {
        let file = &self.files[at];
        assert!(!file.holds(page), "{what} was refused a page that it had");
        let owners = self.payers(file.gid);
        self.notes.refused(what, span, &owners, [1, 0], errno);
    }

    /// All or nothing.
    fn allocate(&mut self, at: usize) {
        let pages = self.range();
        let lacks = self.files[at].lacks(pages.clone());
        let (allocated, span) = self.files[at].allocate(pages);
        let owners = self.payers(self.files[at].gid);
        match allocated {
            Ok(new) => self.notes.charged(span.0, &owners, [new, 0]),
            Err(errno) => {
                let asked = [lacks, 0];
                self.notes
                    .refused("fallocate", span, &owners, asked, Some(errno));
            }
        }
    }

    /// Only the groups see it: one more, one less.
    fn give_to_another_group(&mut self, at: usize) {
        let from = self.files[at].gid;
        let to = super::GROUPS.clone().find(|&gid| gid != from);
        let to = to.expect("there are two groups");
        if self.task.gid == super::FREE {
            return;
        }
        let has = [self.files[at].pages(), 1];
        let (given, span) = self.files[at].give(to);
        match given {
            Ok(()) => {
                self.files[at].gid = to;
                self.notes.charged(span.0, &[QuotaId::group(to)], has);
                self.notes.freed(span.1, &[QuotaId::group(from)], has);
            }
            Err(errno) => {
                let entered = [QuotaId::group(to)];
                self.notes
                    .refused("chgrp", span, &entered, has, Some(errno));
            }
        }
    }

    fn cut(&mut self, at: usize) {
        let pages = self.files[at].size() / PAGE;
        let rest = self.dice.below(pages + 1);
        let freed = self.files[at].cut(rest);
        self.gave_back(at, freed);
    }

    /// Anywhere, or over a page that is only promised.
    fn punch(&mut self, at: usize) {
        let mut files = self.files.iter().enumerate();
        let promised = files.find_map(|(at, file)| Some((at, file.promised()?)));
        let pages = self.range();
        let (at, pages) = match (promised, self.dice.below(2)) {
            (Some((at, first)), 0) => (at, first..first + pages.end - pages.start),
            _ => (at, pages),
        };
        let freed = self.files[at].punch(pages);
        self.gave_back(at, freed);
    }

    fn gave_back(&mut self, at: usize, pages: u64) {
        let end = now();
        let owners = self.payers(self.files[at].gid);
        self.notes.freed(end, &owners, [pages, 0]);
    }

    fn remove(&mut self, at: usize) {
        let file = self.files.swap_remove(at);
        self.remove_file(file);
    }

    fn remove_retired(&mut self) {
        if let Some(file) = self.retired.pop() {
            self.remove_file(file);
        }
    }

    fn remove_file(&mut self, mut file: Kept) {
        if self.dice.below(4) == 0 {
            file.verify();
        }
        let (has, owners) = ([file.pages(), 1], self.payers(file.gid));
        file.remove(self.dice.below(2) == 0);
        self.notes.freed(now(), &owners, has);
    }

    fn range(&mut self) -> Range<u64> {
        let first = self.dice.below(SPAN);
        first..first + 1 + self.dice.below(LARGE)
    }

    pub(crate) fn tag(&mut self) -> u8 {
        1 + self.dice.below(255) as u8
    }
}

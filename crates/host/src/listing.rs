//! Listings: entries of an open directory, in the host's order. Positions are the host's; what is
//! shown for them fits 31 bits (`cookies.rs`).

use crate::cookies::{Cookies, END, Remembered};
use crate::errno::PassOn;
use hearth::{DirEntry, Errno, Kind, Result};
use hearth_sync::primitive::Arc;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use std::collections::VecDeque;
use std::mem::MaybeUninit;

/// Bytes that are read at a time.
const READ: usize = 32 << 10;
/// Bytes that tell the form of positions.
const FIRST: usize = 4 << 10;
/// Names that are looked for by a shortened position: others may remove some meanwhile.
const TRIED: usize = 3;

/// What was read of an open directory and not asked for yet.
#[derive(Debug)]
pub struct Listing {
    entries: VecDeque<Entry>,
    /// The position at which `entries` begins.
    at: u64,
    /// The position of the descriptor.
    position: u64,
    cookies: Cookies,
    /// Whether positions can be shortened, once that was asked.
    are_ordered: Option<bool>,
}

#[derive(Debug)]
struct Entry {
    ino: u64,
    kind: Option<Kind>,
    name: Box<[u8]>,
    /// The position behind it, and what is shown for that.
    next: u64,
    cookie: u64,
}

impl Listing {
    /// Of a directory that was opened just now. `all` bounds what all open ones remember.
    pub fn new(all: &Arc<Remembered>) -> Listing {
        Listing {
            entries: VecDeque::new(),
            at: 0,
            position: 0,
            cookies: Cookies::new(all),
            are_ordered: None,
        }
    }

    /// Calls `take` for the entries behind `cookie`, until it returns false for one, which was not
    /// taken. `number` says what number is shown, `kind_of` finds the type where the host does not
    /// tell it.
    ///
    /// # Errors
    /// Those of `getdents(2)` and `lseek(2)`.
    pub fn read(
        &mut self,
        fd: BorrowedFd<'_>,
        cookie: u64,
        number: impl Fn(u64) -> u64,
        kind_of: impl Fn(&[u8]) -> Kind,
        take: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if cookie != 0 && self.are_ordered.is_none() {
            // A position that another descriptor has shown.
            self.ask_form(fd)?;
        }
        let position = self.cookies.position(cookie);
        // From the start on everything is read again: that is how a program asks for what is new.
        if position != self.at || cookie == 0 {
            self.entries.clear();
            self.at = position;
        }
        if cookie == 0 {
            // A directory of overlayfs has other positions once it is merged.
            self.are_ordered = None;
        }
        loop {
            while let Some(entry) = self.entries.front() {
                let kind = entry.kind.unwrap_or_else(|| kind_of(&entry.name));
                let taken = take(DirEntry {
                    ino: number(entry.ino),
                    kind,
                    name: &entry.name,
                    cookie: entry.cookie,
                });
                if !taken {
                    return Ok(());
                }
                self.at = entry.next;
                self.entries.pop_front();
            }
            if !self.fill(fd)? {
                return Ok(());
            }
        }
    }

    /// Reads on behind `self.at`. False at the end.
    fn fill(&mut self, fd: BorrowedFd<'_>) -> Result<bool> {
        if self.cookies.is_end(self.at) {
            return Ok(false);
        }
        if self.position != self.at || self.at == 0 {
            self.seek(fd, self.at)?;
        }
        let mut read = self.read_on::<READ>(fd)?;
        if self.are_ordered.is_none() {
            // From the start: a listing from elsewhere has asked.
            self.learn_form(fd, &read);
        }
        let mut at = self.at;
        for entry in &mut read {
            entry.cookie = self.cookies.shown(at, entry.next);
            at = entry.next;
        }
        self.entries.extend(read);
        Ok(!self.entries.is_empty())
    }

    /// Finds out by the first entries whether positions can be shortened. They can in the whole
    /// directory, or nowhere in it.
    fn ask_form(&mut self, fd: BorrowedFd<'_>) -> Result<()> {
        self.seek(fd, 0)?;
        let read = self.read_on::<FIRST>(fd)?;
        self.learn_form(fd, &read);
        Ok(())
    }

    /// Learns by the first entries of the directory whether positions can be shortened. What is
    /// empty says nothing.
    fn learn_form(&mut self, fd: BorrowedFd<'_>, first: &[Entry]) {
        if first.is_empty() {
            return;
        }
        let ordered = self.is_ordered(fd, first);
        self.are_ordered = Some(ordered);
        self.cookies.set_ordered(ordered);
    }

    /// Whether positions have the form, and the directory finds a name by the shortened one as by
    /// its own. What is below is not asked who it is: a filesystem above ext4 may pass on what it
    /// gets.
    fn is_ordered(&mut self, fd: BorrowedFd<'_>, first: &[Entry]) -> bool {
        if !Cookies::have_form(first.iter().map(|entry| entry.next)) {
            return false;
        }
        if self.cookies.shortens() {
            return true;
        }
        let befores = std::iter::once(0).chain(first.iter().map(|entry| entry.next));
        let known = befores.zip(first.windows(2)).filter_map(|(before, two)| {
            Some((Cookies::shortened(before, two[0].next)?, &two[0], &two[1]))
        });
        let mut tried = known.take(TRIED).peekable();
        if tried.peek().is_none() {
            return first.last().is_some_and(|entry| entry.next == END);
        }
        tried.any(|(shortened, entry, behind)| {
            let found = self.first_behind(fd, shortened);
            let is_it = |name: &Option<Box<[u8]>>| name.as_ref() == Some(&behind.name);
            match found {
                Ok(name) if is_it(&name) => true,
                // Others have changed it meanwhile, or there is no order.
                Ok(name) => self.first_behind(fd, entry.next) == Ok(name),
                Err(_) => false,
            }
        })
    }

    /// The name that lies at a position or first behind it.
    fn first_behind(&mut self, fd: BorrowedFd<'_>, position: u64) -> Result<Option<Box<[u8]>>> {
        self.seek(fd, position)?;
        let read = self.read_on::<FIRST>(fd)?;
        // The rest of the buffer is not looked at: what comes next seeks.
        self.position = u64::MAX;
        Ok(read.into_iter().next().map(|entry| entry.name))
    }

    fn seek(&mut self, fd: BorrowedFd<'_>, position: u64) -> Result<()> {
        match seek(fd, SeekFrom::Start(position)).pass_on() {
            // ext4 refuses positions of a directory that was removed: it has no blocks. Who reads
            // at such a position without a seek is told that it is gone.
            Err(Errno::EINVAL) => {
                self.position = u64::MAX;
                self.read_on::<FIRST>(fd)?;
                return Err(Errno::EINVAL);
            }
            sought => sought?,
        };
        self.position = position;
        Ok(())
    }

    /// Reads as many entries as `BYTES` hold, from where the descriptor is. Their cookies are their
    /// positions.
    fn read_on<const BYTES: usize>(&mut self, fd: BorrowedFd<'_>) -> Result<Vec<Entry>> {
        let mut buffer = [MaybeUninit::uninit(); BYTES];
        let mut raw = RawDir::new(fd, &mut buffer);
        let mut read = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry.pass_on()?;
            let next = entry.next_entry_cookie();
            self.position = next;
            read.push(Entry {
                ino: entry.ino(),
                kind: kind(entry.file_type()),
                name: entry.file_name().to_bytes().into(),
                next,
                cookie: next,
            });
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok(read)
    }
}

fn kind(of: FileType) -> Option<Kind> {
    Some(match of {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::Char,
        FileType::BlockDevice => Kind::Block,
        FileType::Unknown => return None,
    })
}

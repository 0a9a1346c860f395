//! Listings: entries of an open directory, in the host's order. Positions are the host's; what is
//! shown for them fits 31 bits (`cookies.rs`).

use crate::cookies::Cookies;
use crate::errno::PassOn;
use hearth::{DirEntry, Kind, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, RawDir, SeekFrom, fstatfs, seek};
use std::collections::VecDeque;
use std::mem::MaybeUninit;

/// Bytes that are read at a time.
const READ: usize = 32 << 10;
/// Bytes that hold the first entry.
const FIRST: usize = 4 << 10;
/// `EXT4_SUPER_MAGIC`.
const EXT4: u64 = 0xEF53;

/// What was read of an open directory and not asked for yet.
#[derive(Debug, Default)]
pub struct Listing {
    entries: VecDeque<Entry>,
    /// The position at which `entries` begins.
    at: u64,
    /// The position of the descriptor.
    position: u64,
    cookies: Cookies,
    /// Whether positions are hashes, once that was asked.
    are_hashes: Option<bool>,
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
        if cookie != 0 && self.are_hashes.is_none() {
            // A position that another descriptor has shown.
            self.ask_form(fd)?;
        }
        let position = self.cookies.position(cookie);
        // From the start on everything is read again: that is how a program asks for what is new.
        if position != self.at || cookie == 0 {
            self.entries.clear();
            self.at = position;
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
        if self.position != self.at || self.at == 0 {
            seek(fd, SeekFrom::Start(self.at)).pass_on()?;
            self.position = self.at;
        }
        let mut buffer = [MaybeUninit::uninit(); READ];
        let mut raw = RawDir::new(fd, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry.pass_on()?;
            let (at, next) = (self.position, entry.next_entry_cookie());
            if self.are_hashes.is_none() {
                // The first entry: a listing from elsewhere has asked.
                learn_form(&mut self.cookies, &mut self.are_hashes, fd, next);
            }
            self.position = next;
            self.entries.push_back(Entry {
                ino: entry.ino(),
                kind: kind(entry.file_type()),
                name: entry.file_name().to_bytes().into(),
                next,
                cookie: self.cookies.shown(at, next),
            });
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok(!self.entries.is_empty())
    }

    /// Finds out by the first entry whether positions are hashes. They are in the whole directory,
    /// or nowhere.
    fn ask_form(&mut self, fd: BorrowedFd<'_>) -> Result<()> {
        seek(fd, SeekFrom::Start(0)).pass_on()?;
        self.position = 0;
        let mut buffer = [MaybeUninit::uninit(); FIRST];
        let mut raw = RawDir::new(fd, &mut buffer);
        if let Some(entry) = raw.next() {
            let next = entry.pass_on()?.next_entry_cookie();
            learn_form(&mut self.cookies, &mut self.are_hashes, fd, next);
        }
        // Somewhere behind the first entry: what comes next seeks.
        self.position = u64::MAX;
        Ok(())
    }
}

/// A position of the directory tells whether all are hashes: of other filesystems than ext4 nobody
/// knows what the bits of a long one mean.
fn learn_form(
    cookies: &mut Cookies,
    are_hashes: &mut Option<bool>,
    fd: BorrowedFd<'_>,
    position: u64,
) {
    let is_ext4 = || fstatfs(fd).is_ok_and(|found| found.f_type as u64 == EXT4);
    let hashes = Cookies::is_wide(position) && is_ext4();
    *are_hashes = Some(hashes);
    if hashes {
        cookies.are_hashes();
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

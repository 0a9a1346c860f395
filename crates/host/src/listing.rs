//! Listings: entries of an open directory, in the host's order and with the host's cookies.

use crate::errno::PassOn;
use hearth::{DirEntry, Kind, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use std::collections::VecDeque;
use std::mem::MaybeUninit;

/// Bytes that are read at a time.
const READ: usize = 32 << 10;

/// What was read of an open directory and not asked for yet.
#[derive(Debug, Default)]
pub struct Listing {
    entries: VecDeque<Entry>,
    /// The cookie behind which `entries` begins.
    at: u64,
    /// The cookie behind which the descriptor stands.
    position: u64,
}

#[derive(Debug)]
struct Entry {
    ino: u64,
    kind: Option<Kind>,
    name: Box<[u8]>,
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
        // From the start on everything is read again: that is how a program asks for what is new.
        if cookie != self.at || cookie == 0 {
            self.entries.clear();
            self.at = cookie;
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
                self.at = entry.cookie;
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
            self.position = entry.next_entry_cookie();
            self.entries.push_back(Entry {
                ino: entry.ino(),
                kind: kind(entry.file_type()),
                name: entry.file_name().to_bytes().into(),
                cookie: self.position,
            });
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok(!self.entries.is_empty())
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

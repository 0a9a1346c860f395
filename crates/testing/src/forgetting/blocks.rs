//! The contents of one file: what is kept below, and what was written since and may be lost.

use crate::random::Random;
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A power cut keeps or loses these as a whole.
pub const BLOCK: u64 = 4096;

/// Changes of a file that nobody has synced.
#[derive(Debug)]
pub struct Unsynced {
    /// New bytes of a block; none for one that was punched out.
    blocks: BTreeMap<u64, Option<Box<[u8]>>>,
    /// As many bytes of the kept file still count: it was cut to that.
    cut: u64,
    size: u64,
}

impl Unsynced {
    /// Nothing has changed in a file of `size` bytes.
    pub fn new(size: u64) -> Unsynced {
        Unsynced {
            blocks: BTreeMap::new(),
            cut: size,
            size,
        }
    }

    /// Bytes of the file as its users see it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Puts `data` at byte `at`.
    pub fn write(&mut self, kept: &File, at: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let byte = at + done as u64;
            let (block, within) = (byte / BLOCK, (byte % BLOCK) as usize);
            let length = (BLOCK as usize - within).min(data.len() - done);
            self.edit(kept, block)?[within..within + length]
                .copy_from_slice(&data[done..done + length]);
            done += length;
        }
        self.size = self.size.max(at + data.len() as u64);
        Ok(())
    }

    /// Up to `length` bytes at byte `at`, fewer at the end.
    pub fn read(&self, kept: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = self.size.min(at.saturating_add(length as u64));
        let mut bytes = vec![0; end.saturating_sub(at) as usize];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let old = self.cut.min(end).saturating_sub(at) as usize;
        read_full(kept, at, &mut bytes[..old])?;
        for (&block, new) in self.blocks.range(at / BLOCK..=(end - 1) / BLOCK) {
            let (first, last) = ((block * BLOCK).max(at), ((block + 1) * BLOCK).min(end));
            let place = (first - at) as usize..(last - at) as usize;
            let from = (first - block * BLOCK) as usize;
            let length = place.len();
            match new {
                Some(new) => bytes[place].copy_from_slice(&new[from..from + length]),
                None => bytes[place].fill(0),
            }
        }
        Ok(bytes)
    }

    /// Somebody wrote into the kept file itself, up to byte `end`.
    pub fn has_grown(&mut self, end: u64) {
        self.size = self.size.max(end);
        self.cut = self.cut.max(end);
    }

    /// Makes the file as long as that.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.blocks.split_off(&size.div_ceil(BLOCK));
            if let Some(Some(last)) = self.blocks.get_mut(&(size / BLOCK)) {
                last[(size % BLOCK) as usize..].fill(0);
            }
            self.cut = self.cut.min(size);
        }
        self.size = size;
    }

    /// Makes the bytes from `at` on zeros, as far as the file goes.
    pub fn zero(&mut self, kept: &File, at: u64, length: u64) -> io::Result<()> {
        let end = self.size.min(at.saturating_add(length));
        let mut at = at;
        while at < end {
            let (block, within) = (at / BLOCK, at % BLOCK);
            let part = (BLOCK - within).min(end - at);
            if part == BLOCK {
                self.blocks.insert(block, None);
            } else {
                let within = within as usize;
                self.edit(kept, block)?[within..within + part as usize].fill(0);
            }
            at += part;
        }
        Ok(())
    }

    /// A sync: the kept file becomes what its users see.
    pub fn keep_all(&mut self, kept: &File) -> io::Result<()> {
        if kept.metadata()?.len() > self.cut {
            kept.set_len(self.cut)?;
        }
        let blocks = std::mem::take(&mut self.blocks);
        for (block, new) in &blocks {
            self.keep(kept, *block, new.as_deref())?;
        }
        kept.set_len(self.size)?;
        self.cut = self.size;
        Ok(())
    }

    /// A sync that failed: what it should have kept is as it was.
    pub fn discard(&mut self, kept: &File) -> io::Result<()> {
        *self = Unsynced::new(kept.metadata()?.len());
        Ok(())
    }

    /// A power cut that was unlucky: some of the blocks reached the disk, perhaps a cut did too.
    pub fn keep_some(&mut self, kept: &File, random: &mut Random) -> io::Result<()> {
        if random.below(2) == 0 && kept.metadata()?.len() > self.cut {
            kept.set_len(self.cut)?;
        }
        let blocks = std::mem::take(&mut self.blocks);
        for (block, new) in &blocks {
            if random.below(2) == 0 {
                self.keep(kept, *block, new.as_deref())?;
            }
        }
        Ok(())
    }

    fn keep(&self, kept: &File, block: u64, new: Option<&[u8]>) -> io::Result<()> {
        let at = block * BLOCK;
        let length = BLOCK.min(self.size.saturating_sub(at));
        match new {
            Some(new) => kept.write_all_at(&new[..length as usize], at),
            None => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(fallocate(kept, hole, at, BLOCK)?)
            }
        }
    }

    /// The block as users see it, to be changed.
    fn edit(&mut self, kept: &File, block: u64) -> io::Result<&mut [u8]> {
        let at = block * BLOCK;
        let new = match self.blocks.entry(block) {
            Entry::Occupied(new) => new.into_mut(),
            Entry::Vacant(place) => {
                let mut bytes = vec![0; BLOCK as usize];
                let old = self.cut.saturating_sub(at).min(BLOCK);
                read_full(kept, at, &mut bytes[..old as usize])?;
                place.insert(Some(bytes.into_boxed_slice()))
            }
        };
        // One that was punched out does not show what is kept.
        Ok(new.get_or_insert_with(|| vec![0; BLOCK as usize].into_boxed_slice()))
    }
}

fn read_full(kept: &File, mut at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match kept.read_at(bytes, at)? {
            0 => break,
            got => {
                bytes = &mut bytes[got..];
                at += got as u64;
            }
        }
    }
    Ok(())
}

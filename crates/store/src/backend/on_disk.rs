//! A store in a directory: the volume of keys and values, and segments, as the parts of a backend.

use super::parts::{self, BlockHeader, Blocks, FilePages, Written};
use super::tidy::Tidying;
use super::{StoreBackend, key};
use crate::codec::{Codec, Compression};
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read, Table};
use crate::schema::{Block, Counters};
use crate::segment::{Segments, Settings, Stored};
use crate::volume::{Info, Kv, MkfsOptions, OpenMode, OpenOptions};
use bytes::Bytes;
use hearth_sync::primitive::{Arc, Mutex, thread};
use std::path::Path;

/// Bytes of unpacked blocks that are kept for reading.
const KEPT: usize = 64 << 20;
/// Files that are written beside each other, so that they share segments.
const BESIDE: usize = 32;

/// What a new store is like.
pub struct MakeOptions {
    /// How data is compressed.
    pub compression: Compression,
    /// Size in bytes, 0 for as much as there is.
    pub size: u64,
    /// Length of each of the four files of the log, in bytes.
    pub log_len: u64,
}

impl Default for MakeOptions {
    fn default() -> MakeOptions {
        MakeOptions {
            compression: Compression::Lz4,
            size: 0,
            log_len: MkfsOptions::default().log_len,
        }
    }
}

/// How a store is opened.
pub struct StoreOptions {
    /// What for.
    pub mode: OpenMode,
}

impl StoreOptions {
    /// With defaults.
    pub fn new(mode: OpenMode) -> StoreOptions {
        StoreOptions { mode }
    }
}

impl StoreBackend {
    /// Makes a store in `dir`, which is empty or is made.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if something is there; nothing is changed then.
    pub fn mkfs(dir: &Path, options: &MakeOptions) -> Result<()> {
        let own = MkfsOptions {
            codec: match options.compression {
                Compression::None => Codec::None as u16,
                Compression::Lz4 => Codec::Lz4 as u16,
                Compression::Zstd(_) => Codec::Zstd as u16,
            },
            size: options.size,
            log_len: options.log_len,
            ..MkfsOptions::default()
        };
        Kv::mkfs(dir, &own)
    }

    /// Opens the store in `dir`.
    pub fn open(dir: &Path, options: StoreOptions) -> Result<StoreBackend> {
        let is_read_only = options.mode == OpenMode::ReadOnly;
        let kv = Kv::open_with(dir, OpenOptions::new(options.mode))?;
        let info = kv.info();
        let next = match kv.get(Table::Meta, key::COUNTERS)? {
            Some(value) => Counters::decode(&value)?.next_segment,
            None => 0,
        };
        let settings = Settings {
            volume: info.id,
            compression: compression(&info),
            cipher: None,
            next: next.max(1),
            kept: KEPT,
        };
        let segments = Segments::open(dir, settings)?;
        if !is_read_only {
            // Only what was cut off: segments are looked at by idle work.
            segments.sweep(&|_| true)?;
        }
        let first = segments.next();
        let mut store = StoreBackend::new(Arc::new(kv), Arc::new(segments))?;
        store.is_read_only = is_read_only;
        store.tidying = Mutex::new(Tidying::new(first));
        Ok(store)
    }
}

/// How new blocks of a volume are packed.
fn compression(info: &Info) -> Compression {
    match info.codec {
        1 => Compression::Lz4,
        2 => Compression::Zstd(3),
        _ => Compression::None,
    }
}

impl parts::Kv for Kv {
    fn epoch(&self) -> u64 {
        self.last_epoch()
    }

    fn opened(&self) -> u32 {
        Kv::opened(self)
    }

    fn commit(&self, epoch: u64, ops: &[KvOp]) -> Result<()> {
        Kv::commit(self, epoch, ops)
    }

    fn checkpoint(&self) -> Result<()> {
        Kv::checkpoint(self)
    }

    fn close(&self) -> Result<()> {
        Kv::close(self)
    }

    fn room(&self) -> Option<(u64, u64)> {
        Kv::room(self).ok()
    }
}

impl Blocks for Segments {
    fn write(&self, ino: u64, generation: u32, pages: &[(u64, Box<[u8]>)]) -> Result<Vec<Written>> {
        let written = Segments::write(self, ino, generation, pages)?;
        let written = written.into_iter().map(|part| Written {
            pages: part.pages,
            block: block_of(&part.stored),
        });
        Ok(written.collect())
    }

    fn write_files(&self, files: &[FilePages]) -> Result<Vec<Vec<Written>>> {
        let mut all = Vec::with_capacity(files.len());
        for some in files.chunks(BESIDE) {
            let results = thread::scope(|scope| {
                let threads: Vec<_> = some
                    .iter()
                    .map(|file| {
                        scope.spawn(|| Blocks::write(self, file.ino, file.generation, &file.pages))
                    })
                    .collect();
                let joined = threads.into_iter().map(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                });
                joined.collect::<Vec<_>>()
            });
            for result in results {
                all.push(result?);
            }
        }
        Ok(all)
    }

    fn read(&self, ino: u64, generation: u32, blocks: &[Block]) -> Result<Vec<Bytes>> {
        let stored = all_stored(blocks)?;
        let mut read = Vec::with_capacity(blocks.len());
        self.read_run(&stored, ino, generation, &mut |_, bytes| read.push(bytes));
        read.into_iter().collect()
    }

    fn rewrite(&self, blocks: &[Block]) -> Result<Vec<Result<Block>>> {
        let moved = Segments::rewrite(self, &all_stored(blocks)?)?;
        let moved = moved.into_iter().map(|new| new.map(|new| block_of(&new)));
        Ok(moved.collect())
    }

    fn headers(&self, segment: u64) -> Result<Vec<BlockHeader>> {
        let headers = Segments::headers(self, segment).map(|found| {
            let found = found?;
            Ok(BlockHeader {
                ino: found.header.ino,
                generation: found.header.generation,
                page: found.header.offset / 4096,
                block: block_of(&found.stored),
            })
        });
        headers.collect()
    }

    fn delete(&self, segment: u64) -> Result<()> {
        Segments::delete(self, segment)
    }

    fn set_epoch(&self, epoch: u64) {
        Segments::set_epoch(self, epoch);
    }

    fn first(&self) -> u64 {
        self.next()
    }

    fn list(&self) -> Result<Vec<u64>> {
        Segments::list(self)
    }
}

fn block_of(stored: &Stored) -> Block {
    Block {
        segment: stored.segment,
        at: stored.at,
        stored: stored.stored_len,
        length: stored.len,
        codec: stored.codec as u8,
        digest: stored.digest,
    }
}

fn all_stored(blocks: &[Block]) -> Result<Vec<Stored>> {
    let stored = |block: &Block| {
        let codec = Codec::from_number(block.codec).ok_or_else(|| Error::Corrupt {
            file: Segments::file_of(block.segment),
            offset: block.at.into(),
            what: "the record of the block names no codec".into(),
        })?;
        Ok(Stored {
            segment: block.segment,
            at: block.at,
            stored_len: block.stored,
            len: block.length,
            within: 0,
            codec,
            digest: block.digest,
        })
    };
    blocks.iter().map(stored).collect()
}

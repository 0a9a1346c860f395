//! The parts in memory, for tests.

use super::parts::{BlockOrigin, Blocks, FilePages, KeyValues, PagesInBlock};
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read, Table};
use crate::schema::Block;
use bytes::Bytes;
use hearth_backend::PageSource;
use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Bound;

const PAGE: usize = 4096;
/// Pages of a block at most.
const BLOCK_PAGES: usize = 16;

/// An ordered map in memory.
#[derive(Debug, Default)]
pub struct MemoryKv {
    state: RwLock<KvState>,
    /// Whether commits find no room.
    is_full: AtomicBool,
}

type Entries = BTreeMap<Box<[u8]>, Box<[u8]>>;

#[derive(Debug, Default)]
struct KvState {
    epoch: u64,
    checkpoint: u64,
    tables: [Entries; 2],
}

impl MemoryKv {
    /// An empty map.
    pub fn new() -> MemoryKv {
        MemoryKv::default()
    }

    /// From now on commits find no room, or room again.
    pub fn fill(&self, is_full: bool) {
        // Relaxed: a test changes it between commits.
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.state.read().tables.iter().map(Entries::len).sum()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Read for MemoryKv {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = self.state.read();
        Ok(state.tables[table as usize]
            .get(key)
            .map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state.read();
        let range = state.tables[table as usize].range::<[u8], _>((Bound::Included(from), to));
        for (key, value) in range {
            if !visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}

impl KeyValues for MemoryKv {
    fn epoch(&self) -> u64 {
        self.state.read().epoch
    }

    fn opened(&self) -> u32 {
        1
    }

    fn commit(&self, epoch: u64, ops: &[KvOp]) -> Result<()> {
        // Relaxed: see `fill`.
        if self.is_full.load(Ordering::Relaxed) {
            return Err(Error::NoSpace { what: "a commit" });
        }
        let mut state = self.state.write();
        assert_eq!(epoch, state.epoch + 1, "epochs follow each other");
        state.epoch = epoch;
        for op in ops {
            let table = &mut state.tables[op.table as usize];
            match &op.value {
                Some(value) => table.insert(op.key.clone(), value.clone()),
                None => table.remove(&op.key),
            };
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        let mut state = self.state.write();
        state.checkpoint = state.epoch;
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }

    fn room(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Segments in memory: one for each write.
#[derive(Debug, Default)]
pub struct MemoryBlocks {
    state: Mutex<BlocksState>,
}

#[derive(Debug, Default)]
struct BlocksState {
    last: u64,
    segments: BTreeMap<u64, Vec<(BlockOrigin, Vec<u8>)>>,
}

impl MemoryBlocks {
    /// No segment.
    pub fn new() -> MemoryBlocks {
        MemoryBlocks::default()
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        let state = self.state.lock();
        let blocks = state.segments.values().flatten();
        blocks.map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

impl BlocksState {
    fn find(&self, block: &Block) -> Option<&(BlockOrigin, Vec<u8>)> {
        let found = self.segments.get(&block.segment)?.get(block.at as usize)?;
        (found.0.block == *block).then_some(found)
    }

    fn append(&mut self, segment: u64, file: &FilePages) -> Vec<PagesInBlock> {
        let blocks = self.segments.entry(segment).or_default();
        let mut written = Vec::new();
        for run in file.pages.chunk_by(|a, b| a.0 + 1 == b.0) {
            for part in run.chunks(BLOCK_PAGES) {
                let mut bytes = Vec::with_capacity(part.len() * PAGE);
                for (_, page) in part {
                    bytes.extend_from_slice(page);
                    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
                }
                let block = Block {
                    segment,
                    at: blocks.len() as u32,
                    stored: bytes.len() as u32,
                    length: bytes.len() as u32,
                    codec: 0,
                    digest: [0; 16],
                };
                let page = part[0].0;
                blocks.push((
                    BlockOrigin {
                        ino: file.ino,
                        generation: file.generation,
                        page,
                        block,
                    },
                    bytes,
                ));
                let pages = page..page + part.len() as u64;
                written.push(PagesInBlock { pages, block });
            }
        }
        written
    }
}

fn missing(segment: u64) -> Error {
    Error::Corrupt {
        file: format!("segments/{segment}").into(),
        offset: 0,
        what: "no such block".into(),
    }
}

impl Blocks for MemoryBlocks {
    fn write(
        &self,
        ino: u64,
        generation: u32,
        source: &dyn PageSource,
    ) -> Result<Vec<PagesInBlock>> {
        let page = |index: u64| {
            let mut bytes = Vec::with_capacity(PAGE);
            source.append_to(index..index + 1, &mut bytes);
            (index, bytes.into_boxed_slice())
        };
        let file = FilePages {
            ino,
            generation,
            pages: source.runs().into_iter().flatten().map(page).collect(),
        };
        Ok(self.write_files(&[file])?.remove(0))
    }

    fn write_files(&self, files: &[FilePages]) -> Result<Vec<Vec<PagesInBlock>>> {
        let mut state = self.state.lock();
        state.last += 1;
        let segment = state.last;
        Ok(files
            .iter()
            .map(|file| state.append(segment, file))
            .collect())
    }

    fn read(
        &self,
        ino: u64,
        generation: u32,
        blocks: &[Block],
        take: &mut dyn FnMut(Bytes),
    ) -> Result<()> {
        let read = |block: &Block| {
            let state = self.state.lock();
            let (header, bytes) = state.find(block)?;
            ((header.ino, header.generation) == (ino, generation))
                .then(|| Bytes::from(bytes.clone()))
        };
        for block in blocks {
            take(read(block).ok_or_else(|| missing(block.segment))?);
        }
        Ok(())
    }

    fn rewrite(&self, blocks: &[Block]) -> Result<Vec<Result<Block>>> {
        let mut state = self.state.lock();
        state.last += 1;
        let segment = state.last;
        let mut moved = Vec::new();
        let mut copies = Vec::new();
        for block in blocks {
            let Some((header, bytes)) = state.find(block) else {
                moved.push(Err(missing(block.segment)));
                continue;
            };
            let (mut header, bytes) = (*header, bytes.clone());
            header.block.segment = segment;
            header.block.at = copies.len() as u32;
            moved.push(Ok(header.block));
            copies.push((header, bytes));
        }
        state.segments.insert(segment, copies);
        Ok(moved)
    }

    fn headers(&self, segment: u64) -> Result<Vec<BlockOrigin>> {
        let state = self.state.lock();
        let blocks = state.segments.get(&segment);
        let blocks = blocks.ok_or_else(|| missing(segment))?;
        Ok(blocks.iter().map(|(header, _)| *header).collect())
    }

    fn delete(&self, segment: u64) -> Result<()> {
        self.state.lock().segments.remove(&segment);
        Ok(())
    }

    fn set_epoch(&self, _epoch: u64) {}

    fn first(&self) -> u64 {
        1
    }

    fn list(&self) -> Result<Vec<u64>> {
        Ok(self.state.lock().segments.keys().copied().collect())
    }
}

//! A store in a directory: the volume of keys and values, and segments, as the parts of a backend.

use super::parts::{self, BlockOrigin, Blocks, FilePages, PagesInBlock};
use super::sealed::Sealed;
use super::tidy::Tidying;
use super::{StoreBackend, complete, key};
use crate::codec::{
    Cipher, Codec, Compression, Costs, KeySlots, Passphrase, Purpose, VolumeKey, random,
};
use crate::engine::Compacted;
use crate::error::{Error, Result};
use crate::kv::{KvOp, Table};
use crate::memory::MemoryParts;
use crate::schema::{Block, Counters};
use crate::segment::{Segments, Settings, Stored};
use crate::volume::{FrameCipher, Info, Kv, MkfsOptions, OpenMode, OpenOptions};
use bytes::Bytes;
use hearth_backend::PageSource;
use hearth_sync::primitive::{Arc, Mutex};
use std::path::Path;

/// What a new store is like.
pub struct MakeOptions {
    /// How data is compressed.
    pub compression: Compression,
    /// What opens it; `None` for one that is not encrypted.
    pub passphrase: Option<Passphrase>,
    /// What trying a passphrase costs.
    pub costs: Costs,
    /// Size in bytes, 0 for as much as there is.
    pub size: u64,
    /// Length of each of the four files of the log, in bytes.
    pub log_len: u64,
}

impl Default for MakeOptions {
    fn default() -> MakeOptions {
        MakeOptions {
            compression: Compression::Lz4,
            passphrase: None,
            costs: Costs::default(),
            size: 0,
            log_len: MkfsOptions::default().log_len,
        }
    }
}

/// How a store is opened.
pub struct StoreOptions {
    /// What for.
    pub mode: OpenMode,
    /// What opens an encrypted one.
    pub passphrase: Option<Passphrase>,
    /// How new data is compressed, where not as the volume was made.
    pub compression: Option<Compression>,
    /// What may be kept in memory.
    pub memory: MemoryParts,
}

impl StoreOptions {
    /// With defaults.
    pub fn new(mode: OpenMode) -> StoreOptions {
        StoreOptions {
            mode,
            passphrase: None,
            compression: None,
            memory: MemoryParts::default(),
        }
    }
}

impl StoreBackend {
    /// Makes a store in `dir`, which is empty or is made.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if something is there; nothing is changed then.
    pub fn mkfs(dir: &Path, options: &MakeOptions) -> Result<()> {
        let mut own = MkfsOptions {
            codec: match options.compression {
                Compression::None => Codec::None as u16,
                Compression::Lz4 => Codec::Lz4 as u16,
                Compression::Zstd(_) => Codec::Zstd as u16,
            },
            size: options.size,
            log_len: options.log_len,
            ..MkfsOptions::default()
        };
        if let Some(passphrase) = &options.passphrase {
            let id = random();
            let mut slots = KeySlots::default();
            slots.add(&id, &VolumeKey::generate(), passphrase, options.costs)?;
            own.id = Some(id);
            own.cipher = ENCRYPTED;
            own.wrapped_keys = slots.encode();
        }
        Kv::mkfs(dir, &own)
    }

    /// Changes the passphrase of the store in `dir`, which nobody has open. At any moment the old
    /// or the new one opens it.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where the old one does not open it, also if another change came first;
    /// [`Error::NotEncrypted`]; [`Error::InUse`]; [`Error::KeysInDoubt`] says which one opens it
    /// where the disk failed in the middle. Of others the old one does.
    pub fn change_passphrase(dir: &Path, old: &Passphrase, new: &Passphrase) -> Result<()> {
        let key = volume_key(&Kv::info_of(dir)?, Some(old))?;
        let mode = OpenMode::Write {
            who: "a change of the passphrase".to_owned(),
        };
        let kv = Kv::open_with(dir, open_options(mode, key.as_ref()))?;
        // Read under the lock: another change may have replaced the keys since.
        let info = kv.info();
        let slots = key_slots(&info)?;
        let changed = slots.changed(&info.id, old, new, Costs::default());
        let done = changed.and_then(|changed| kv.set_wrapped_keys(&changed.encode()));
        let closed = kv.close().map_err(|error| Error::KeysInDoubt {
            cause: Box::new(error),
            are_new: true,
        });
        done.and(closed)
    }

    /// Opens the store in `dir`: a relative path means the directory that it names now, wherever
    /// the program goes while the store is open.
    ///
    /// # Errors
    /// [`Error::NotEncrypted`] for a store that needs no passphrase and is given one: whoever
    /// gives one believes that what is written is hidden. Others are those of [`Kv::open`].
    pub fn open(dir: &Path, options: StoreOptions) -> Result<StoreBackend> {
        let absolute = std::path::absolute(dir);
        let dir = &*absolute.map_err(|error| Error::io("find", dir, error))?;
        let mode = options.mode.clone();
        let key = volume_key(&Kv::info_of(dir)?, options.passphrase.as_ref())?;
        let mut how = open_options(options.mode, key.as_ref());
        how.memory = options.memory;
        let troubles = Arc::clone(&how.troubles);
        let kv = Kv::open_with(dir, how)?;
        let info = kv.info();
        let kv: Arc<dyn parts::KeyValues> = match &key {
            Some(key) => Arc::new(Sealed::new(kv, key)),
            None => Arc::new(kv),
        };
        let settings = Settings {
            volume: info.id,
            compression: options.compression.unwrap_or_else(|| compression(&info)),
            cipher: key.as_ref().map(|key| Cipher::new(key, Purpose::Blocks)),
            next: 1,
            kept: options.memory.blocks as usize,
        };
        let mut store = StoreBackend::assembled(kv, &mode, settings, |settings| {
            Segments::open(dir, settings)
        })?;
        store.limits.piece = options.memory.work;
        Ok(store.with_troubles(troubles))
    }

    /// A store of these keys and values, and of the segments that `open` opens.
    pub(super) fn assembled(
        kv: Arc<dyn parts::KeyValues>,
        mode: &OpenMode,
        mut settings: Settings,
        open: impl FnOnce(Settings) -> Result<Segments>,
    ) -> Result<StoreBackend> {
        settings.next = match kv.get(Table::Meta, key::COUNTERS)? {
            Some(value) => Counters::decode(&value)?.next_segment.max(1),
            None => 1,
        };
        let segments = open(settings)?;
        if !mode.is_read_only() {
            // Only what was cut off: segments are looked at by idle work.
            let swept = segments.sweep(&|_| true)?;
            if matches!(mode, OpenMode::Write { .. }) {
                complete::check(&*kv, &swept.kept)?;
            }
        }
        let first = segments.next();
        let mut store = StoreBackend::new(kv, Arc::new(segments))?;
        store.is_read_only = mode.is_read_only();
        store.tidying = Mutex::new(Tidying::new(first));
        Ok(store)
    }
}

/// The number of the cipher in a superblock.
const ENCRYPTED: u16 = 1;

/// The segments of the store in `dir`, for who reads them without records.
pub(crate) fn segments_of(dir: &Path, passphrase: Option<&Passphrase>) -> Result<Segments> {
    let info = Kv::info_of(dir)?;
    let key = volume_key(&info, passphrase)?;
    let settings = Settings {
        volume: info.id,
        compression: compression(&info),
        cipher: key.map(|key| Cipher::new(&key, Purpose::Blocks)),
        next: 1,
        kept: 0,
    };
    Segments::open(dir, settings)
}

/// The key of a store, if it is encrypted.
fn volume_key(info: &Info, passphrase: Option<&Passphrase>) -> Result<Option<VolumeKey>> {
    if info.cipher == 0 {
        return match passphrase {
            Some(_) => Err(Error::NotEncrypted),
            None => Ok(None),
        };
    }
    let why = "the volume is encrypted";
    let passphrase = passphrase.ok_or(Error::WrongKey { why })?;
    key_slots(info)?.unlock(&info.id, passphrase).map(Some)
}

fn key_slots(info: &Info) -> Result<KeySlots> {
    KeySlots::decode(&info.wrapped_keys).ok_or_else(|| Error::Corrupt {
        file: "superblock".into(),
        offset: 0,
        what: "wrapped keys that cannot be read".to_owned(),
    })
}

fn open_options(mode: OpenMode, key: Option<&VolumeKey>) -> OpenOptions {
    let mut options = OpenOptions::new(mode);
    if let Some(key) = key {
        options.cipher = Some(Arc::new(Frames(Cipher::new(key, Purpose::Frames))));
    }
    options
}

/// Seals frames of the log.
struct Frames(Cipher);

/// Bytes of a nonce.
const NONCE: usize = 24;

impl FrameCipher for Frames {
    fn seal(&self, context: &[u8], data: &mut Vec<u8>) -> Result<[u8; NONCE]> {
        let mut sealed = self.0.seal(context, data);
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&sealed[..NONCE]);
        *data = sealed.split_off(NONCE);
        Ok(nonce)
    }

    fn open(&self, context: &[u8], nonce: &[u8; NONCE], data: &mut Vec<u8>) -> Result<()> {
        let sealed = [&nonce[..], data].concat();
        *data = self.0.open(context, &sealed)?;
        Ok(())
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

impl parts::KeyValues for Kv {
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

    fn compact(&self, free: u64) -> Result<Option<Compacted>> {
        Kv::compact(self, free)
    }

    fn close(&self) -> Result<()> {
        Kv::close(self)
    }

    fn room(&self) -> Option<(u64, u64)> {
        Kv::room(self).ok()
    }

    fn is_looked_at(&self) -> bool {
        Kv::is_looked_at(self)
    }

    fn damage(&self) -> Option<Error> {
        Kv::damage(self).cloned()
    }
}

impl Blocks for Segments {
    fn write(
        &self,
        ino: u64,
        generation: u32,
        pages: &dyn PageSource,
    ) -> Result<Vec<PagesInBlock>> {
        Ok(all_written(Segments::write(self, ino, generation, pages)?))
    }

    fn write_files(&self, files: &[FilePages]) -> Result<Vec<Vec<PagesInBlock>>> {
        let of: Vec<_> = files
            .iter()
            .map(|file| (file.ino, file.generation, &file.pages[..]))
            .collect();
        let written = Segments::write_files(self, &of)?;
        Ok(written.into_iter().map(all_written).collect())
    }

    fn read(
        &self,
        ino: u64,
        generation: u32,
        blocks: &[Block],
        take: &mut dyn FnMut(Bytes),
    ) -> Result<()> {
        let (stored, mut result) = (all_stored(blocks)?, Ok(()));
        self.read_run(&stored, ino, generation, &mut |_, bytes| match bytes {
            _ if result.is_err() => {}
            Ok(bytes) => take(bytes),
            Err(error) => result = Err(error),
        });
        result
    }

    fn rewrite(&self, blocks: &[Block]) -> Result<Vec<Result<Block>>> {
        let moved = Segments::rewrite(self, &all_stored(blocks)?)?;
        let moved = moved.into_iter().map(|new| new.map(|new| block_of(&new)));
        Ok(moved.collect())
    }

    fn headers(&self, segment: u64) -> Result<Vec<BlockOrigin>> {
        let headers = Segments::headers(self, segment).map(|found| {
            let found = found?;
            Ok(BlockOrigin {
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

fn all_written(written: Vec<crate::segment::Written>) -> Vec<PagesInBlock> {
    let written = written.into_iter().map(|part| PagesInBlock {
        pages: part.pages,
        block: block_of(&part.stored),
    });
    written.collect()
}

/// The record of a stored block.
pub(crate) fn block_of(stored: &Stored) -> Block {
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

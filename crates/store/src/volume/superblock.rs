//! The superblock: two slots, the valid one with the larger sequence counts.

use super::fields::{array, is_sealed, put, seal, u16_at, u32_at, u64_at};
use super::file_names::UNFINISHED;
use super::{BLOCK, FrameDigest};
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use hearth_backend::Errno;
use hearth_sync::primitive::Arc;

pub(crate) const NAME: &str = "superblock";
pub(crate) const MAGIC: &[u8; 8] = b"HEARTHV1";
/// The newest version that this program knows, and the one that it writes.
pub(crate) const VERSION: u32 = 1;
const SLOT: usize = 4096;
const FIXED: usize = 164;
/// Room for wrapped keys in a slot, in bytes.
pub(crate) const WRAPPED_MOST: usize = SLOT - 32 - FIXED;

/// Features that change nothing for a program that does not know them.
const KNOWN_READ_ONLY_COMPATIBLE: u64 = 0;
const KNOWN_INCOMPATIBLE: u64 = 0;

/// One slot. Fields are in the order of the format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub compatible: u64,
    pub read_only_compatible: u64,
    pub incompatible: u64,
    pub id: [u8; 16],
    pub incarnation: [u8; 16],
    pub sequence: u64,
    /// The last epoch that the engine's tables hold, and the digest of its frame.
    pub checkpoint: u64,
    pub digest: FrameDigest,
    pub name_key: [u8; 16],
    pub size: u64,
    pub codec: u16,
    pub cipher: u16,
    pub opened: u32,
    /// Length of a log file in blocks.
    pub log_blocks: u32,
    /// Block of the whole log from which on frames are behind the checkpoint.
    pub log_at: u32,
    pub wrapped_keys: Vec<u8>,
}

impl Slot {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SLOT];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        let length = (FIXED + self.wrapped_keys.len()) as u32;
        put(&mut bytes, 12, &length.to_le_bytes());
        put(&mut bytes, 16, &self.compatible.to_le_bytes());
        put(&mut bytes, 24, &self.read_only_compatible.to_le_bytes());
        put(&mut bytes, 32, &self.incompatible.to_le_bytes());
        put(&mut bytes, 40, &self.id);
        put(&mut bytes, 56, &self.incarnation);
        put(&mut bytes, 72, &self.sequence.to_le_bytes());
        put(&mut bytes, 80, &self.checkpoint.to_le_bytes());
        put(&mut bytes, 88, &self.digest);
        put(&mut bytes, 120, &self.name_key);
        put(&mut bytes, 136, &self.size.to_le_bytes());
        put(&mut bytes, 144, &self.codec.to_le_bytes());
        put(&mut bytes, 146, &self.cipher.to_le_bytes());
        put(&mut bytes, 148, &self.opened.to_le_bytes());
        put(&mut bytes, 152, &self.log_blocks.to_le_bytes());
        put(&mut bytes, 156, &self.log_at.to_le_bytes());
        put(
            &mut bytes,
            160,
            &(self.wrapped_keys.len() as u32).to_le_bytes(),
        );
        put(&mut bytes, FIXED, &self.wrapped_keys);
        seal(&mut bytes);
        bytes
    }

    /// The slot in these bytes, which are sealed.
    fn decode(bytes: &[u8]) -> Option<Slot> {
        let wrapped = u32_at(bytes, 160) as usize;
        if wrapped > WRAPPED_MOST {
            return None;
        }
        Some(Slot {
            compatible: u64_at(bytes, 16),
            read_only_compatible: u64_at(bytes, 24),
            incompatible: u64_at(bytes, 32),
            id: array(bytes, 40),
            incarnation: array(bytes, 56),
            sequence: u64_at(bytes, 72),
            checkpoint: u64_at(bytes, 80),
            digest: array(bytes, 88),
            name_key: array(bytes, 120),
            size: u64_at(bytes, 136),
            codec: u16_at(bytes, 144),
            cipher: u16_at(bytes, 146),
            opened: u32_at(bytes, 148),
            log_blocks: u32_at(bytes, 152),
            log_at: u32_at(bytes, 156),
            wrapped_keys: bytes[FIXED..FIXED + wrapped].to_vec(),
        })
    }
}

/// The superblock of an open volume.
pub(crate) struct Superblock {
    file: Arc<dyn File>,
    /// As of the last write, except what the owner has changed for the next one.
    pub slot: Slot,
    /// Which of the two slots holds it.
    place: u64,
    /// The older checkpoint of those that the whole slots have.
    older: u64,
}

impl Superblock {
    /// Reads the superblock and says what is wrong with a directory that has none that counts.
    pub(crate) fn read(disk: &dyn Disk, access: Access) -> Result<Superblock> {
        let file = disk
            .open(NAME, access)
            .map_err(|error| match error.is_absent() {
                true => without_one(disk),
                false => error,
            })?;
        let mut best: Option<(u64, Slot)> = None;
        let mut older = u64::MAX;
        let (mut looks_ours, mut length, mut unread) = (false, 0, None);
        for place in 0..2_u64 {
            let bytes = &mut vec![0; SLOT][..];
            // One that cannot be read is not whole.
            match file.read_at(place * SLOT as u64, bytes) {
                Ok(count) => length += count,
                Err(error) if error.is_unreadable() => {
                    unread = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let version = u32_at(bytes, 8);
            looks_ours |= bytes.starts_with(MAGIC);
            if !bytes.starts_with(MAGIC) || !is_sealed(bytes) {
                continue;
            }
            if version > VERSION {
                return Err(Error::Newer {
                    path: disk.place().to_path_buf(),
                    version,
                    known: VERSION,
                });
            }
            let Some(slot) = Slot::decode(bytes) else {
                continue;
            };
            older = older.min(slot.checkpoint);
            if best
                .as_ref()
                .is_none_or(|(_, other)| other.sequence < slot.sequence)
            {
                best = Some((place, slot));
            }
        }
        match (best, unread) {
            (Some((place, slot)), _) => Ok(Superblock {
                file,
                slot,
                place,
                older,
            }),
            (None, Some(error)) => Err(error),
            (None, None) if looks_ours => Err(Error::corrupt(
                NAME,
                0,
                format!("neither slot is whole ({length} bytes)"),
            )),
            (None, None) => Err(no_volume(disk, "its superblock is not Hearth's")),
        }
    }

    /// Refuses features that this program does not know.
    pub(crate) fn check_features(&self, disk: &dyn Disk, writes: bool) -> Result<()> {
        let unknown = |bits: u64, kind: &str, read_only_works| {
            let names: Vec<String> = (0..64)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| format!("{kind} feature {bit}"))
                .collect();
            Err(Error::UnknownFeature {
                path: disk.place().to_path_buf(),
                names: names.join(", "),
                read_only_works,
            })
        };
        let bits = self.slot.incompatible & !KNOWN_INCOMPATIBLE;
        if bits != 0 {
            return unknown(bits, "incompatible", false);
        }
        let bits = self.slot.read_only_compatible & !KNOWN_READ_ONLY_COMPATIBLE;
        if bits != 0 && writes {
            return unknown(bits, "read-only compatible", true);
        }
        Ok(())
    }

    /// Writes `slot` with the next sequence over the older slot: durable when it returns.
    pub(crate) fn write(&mut self, slot: Slot) -> Result<()> {
        let slot = Slot {
            sequence: self.slot.sequence + 1,
            ..slot
        };
        let place = 1 - self.place;
        self.file.write_at(place * SLOT as u64, &slot.encode())?;
        self.file.sync()?;
        self.older = self.slot.checkpoint.min(slot.checkpoint);
        self.slot = slot;
        self.place = place;
        Ok(())
    }

    /// The last epoch that every slot has, so that nobody needs it in the log, whichever counts.
    pub(crate) fn kept(&self) -> u64 {
        self.older
    }

    /// Makes the superblock of a new volume in file `name`.
    pub(crate) fn create(disk: &dyn Disk, name: &str, slot: &Slot) -> Result<()> {
        let file = disk.create(name)?;
        let mut bytes = slot.encode();
        bytes.resize(2 * SLOT, 0);
        file.write_at(0, &bytes)?;
        file.sync()
    }

    pub(crate) fn log_len(&self) -> u64 {
        u64::from(self.slot.log_blocks) * BLOCK
    }
}

fn no_volume(disk: &dyn Disk, why: &'static str) -> Error {
    let path = disk.place().to_path_buf();
    Error::NotAVolume { path, why }
}

/// What a directory without a superblock is.
fn without_one(disk: &dyn Disk) -> Error {
    match disk.list("") {
        Ok(names) if names.iter().any(|name| name == UNFINISHED) => Error::Unfinished {
            path: disk.place().to_path_buf(),
        },
        Ok(_) => no_volume(disk, "it has no superblock"),
        Err(Error::Io { errno, .. }) if errno == Errno::ENOENT => {
            no_volume(disk, "it does not exist")
        }
        Err(_) => no_volume(disk, "it is no directory"),
    }
}

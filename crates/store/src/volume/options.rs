//! What is given to the functions that make and open a volume, and what a volume says of itself.

use super::superblock::{Slot, VERSION};
use crate::disk::Disk;
use crate::engine::Engines;
use crate::error::Result;
use crate::memory::MemoryParts;
use crate::troubles::Troubles;
use hearth_sync::primitive::Arc;

/// What a new volume is like.
#[derive(Clone, Debug)]
pub struct MkfsOptions {
    /// Identity; drawn at random if not given. Wrapped keys are bound to it.
    pub id: Option<[u8; 16]>,
    /// How blocks of data are compressed, by the numbers of the format.
    pub codec: u16,
    /// How they are encrypted, by the numbers of the format.
    pub cipher: u16,
    /// Wrapped keys, as the codec reads them.
    pub wrapped_keys: Vec<u8>,
    /// Size in bytes, 0 for as much as there is.
    pub size: u64,
    /// Length of each of the four files of the log, in bytes: a multiple of 4,096.
    pub log_len: u64,
}

impl Default for MkfsOptions {
    fn default() -> MkfsOptions {
        MkfsOptions {
            id: None,
            codec: 0,
            cipher: 0,
            wrapped_keys: Vec::new(),
            size: 0,
            log_len: 16 << 20,
        }
    }
}

/// How a volume is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// For reading and writing, by one process.
    Write {
        /// Where it is mounted, or which command uses it; others are told.
        who: String,
    },
    /// As [`OpenMode::Write`], also where epochs are missing: what is behind the gap is dropped.
    Repair {
        /// Where it is, or which command it is, as for writing.
        who: String,
    },
    /// For a look, by many processes, also beside a writer: what the last commit has, as long as
    /// the writer does not remove it. No byte of the volume changes.
    ReadOnly,
    /// For reading, by many processes, with no writer meanwhile: all that is there stays there. No
    /// byte of the volume changes, but for a lock file where a copy of a volume lacks one.
    Shared,
}

impl OpenMode {
    /// Whether the volume takes no changes.
    pub fn is_read_only(&self) -> bool {
        matches!(self, OpenMode::ReadOnly | OpenMode::Shared)
    }
}

/// How a volume is opened, and with what.
#[derive(Clone)]
pub struct OpenOptions {
    /// What for.
    pub mode: OpenMode,
    /// Seals and opens frames of an encrypted volume.
    pub cipher: Option<Arc<dyn FrameCipher>>,
    /// Whether a thread writes the witness and makes checkpoints. Tests without one decide the
    /// order of all steps.
    pub background: bool,
    /// What may be kept in memory.
    pub memory: MemoryParts,
    /// Where it is said what goes wrong beside the calls that return it.
    pub troubles: Arc<Troubles>,
}

impl OpenOptions {
    /// Opens a volume that is not encrypted.
    pub fn new(mode: OpenMode) -> OpenOptions {
        OpenOptions {
            mode,
            cipher: None,
            background: true,
            memory: MemoryParts::default(),
            troubles: Arc::default(),
        }
    }
}

/// Seals the payloads of frames. A payload grows by at most 64 bytes.
pub trait FrameCipher: Send + Sync {
    /// Encrypts `data` in place, appends the tag, and returns the nonce, which is new each time.
    /// `context` is bound to it: the payload opens nowhere else.
    fn seal(&self, context: &[u8], data: &mut Vec<u8>) -> Result<[u8; 24]>;

    /// Undoes [`FrameCipher::seal`].
    ///
    /// # Errors
    /// [`crate::Error::WrongKey`] if the tag does not fit.
    fn open(&self, context: &[u8], nonce: &[u8; 24], data: &mut Vec<u8>) -> Result<()>;
}

/// What a volume is made of.
#[derive(Clone)]
pub struct Parts {
    /// Superblock, log, witness, lock.
    pub disk: Arc<dyn Disk>,
    /// Tables.
    pub engines: Arc<dyn Engines>,
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Identity of the volume. A copy of the directory has the same.
    pub id: [u8; 16],
    /// Identity of the last opening for writing.
    pub incarnation: [u8; 16],
    /// Version of the format.
    pub version: u32,
    /// Features: compatible, read-only compatible, incompatible.
    pub features: [u64; 3],
    /// How blocks of data are compressed.
    pub codec: u16,
    /// How they are encrypted.
    pub cipher: u16,
    /// Size in bytes, 0 for as much as there is.
    pub size: u64,
    /// How often the volume was opened for writing.
    pub opened: u32,
    /// The last epoch that the tables hold.
    pub checkpoint: u64,
    /// Key of the hash of names.
    pub name_key: [u8; 16],
    /// Wrapped keys.
    pub wrapped_keys: Vec<u8>,
    /// Length of each file of the log, in bytes.
    pub log_len: u64,
}

impl Info {
    pub(crate) fn of(slot: &Slot) -> Info {
        Info {
            id: slot.id,
            incarnation: slot.incarnation,
            version: VERSION,
            features: [
                slot.compatible,
                slot.read_only_compatible,
                slot.incompatible,
            ],
            codec: slot.codec,
            cipher: slot.cipher,
            size: slot.size,
            opened: slot.opened,
            checkpoint: slot.checkpoint,
            name_key: slot.name_key,
            wrapped_keys: slot.wrapped_keys.clone(),
            log_len: u64::from(slot.log_blocks) * super::BLOCK,
        }
    }
}

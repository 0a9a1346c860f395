//! The witness: the newest acknowledged epoch, in a file of its own.

use super::FrameDigest;
use super::fields::{array, is_sealed, put, seal, u64_at};
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use hearth_sync::primitive::Arc;

pub(crate) const NAME: &str = "witness";
const MAGIC: &[u8; 8] = b"HEARTHW1";
const SLOT: usize = 512;

/// What the witness says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Testimony {
    pub incarnation: [u8; 16],
    pub sequence: u64,
    pub epoch: u64,
    /// Digest of the last frame of the epoch.
    pub digest: FrameDigest,
}

impl Testimony {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SLOT];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &self.incarnation);
        put(&mut bytes, 24, &self.sequence.to_le_bytes());
        put(&mut bytes, 32, &self.epoch.to_le_bytes());
        put(&mut bytes, 40, &self.digest);
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Testimony> {
        (bytes.starts_with(MAGIC) && is_sealed(bytes)).then(|| Testimony {
            incarnation: array(bytes, 8),
            sequence: u64_at(bytes, 24),
            epoch: u64_at(bytes, 32),
            digest: array(bytes, 40),
        })
    }
}

/// The witness of an open volume.
pub(crate) struct Witness {
    file: Arc<dyn File>,
    /// As of the last write.
    pub last: Testimony,
    place: u64,
}

impl Witness {
    pub(crate) fn read(disk: &dyn Disk, access: Access) -> Result<Witness> {
        let damaged = || Error::corrupt(NAME, 0, "neither slot of the witness is whole");
        let file = disk.open(NAME, access).map_err(|error| match error {
            error if error.is_absent() => damaged(),
            error => error,
        })?;
        let mut slots = Vec::new();
        for place in 0..2 {
            let mut slot = vec![0; SLOT];
            match file.read_at(place * SLOT as u64, &mut slot) {
                Ok(_) => slots.extend(Testimony::decode(&slot).map(|slot| (place, slot))),
                // It is not whole.
                Err(error) if error.is_unreadable() => {}
                Err(error) => return Err(error),
            }
        }
        let newest = slots.into_iter().max_by_key(|(_, slot)| slot.sequence);
        let (place, last) = newest.ok_or_else(damaged)?;
        Ok(Witness { file, last, place })
    }

    /// Writes over the older slot: durable when it returns.
    pub(crate) fn write(&mut self, testimony: Testimony) -> Result<()> {
        let testimony = Testimony {
            sequence: self.last.sequence + 1,
            ..testimony
        };
        let place = 1 - self.place;
        self.file
            .write_at(place * SLOT as u64, &testimony.encode())?;
        self.file.sync()?;
        self.last = testimony;
        self.place = place;
        Ok(())
    }

    /// Makes the witness of a new volume, twice the same, so that a damaged slot is none yet.
    pub(crate) fn create(disk: &dyn Disk, testimony: &Testimony) -> Result<()> {
        let file = disk.create(NAME)?;
        let slot = testimony.encode();
        file.write_at(0, &[&slot[..], &slot[..]].concat())?;
        file.sync()
    }
}

//! The slots that wrap the volume key.
//!
//! The volume key is drawn at random by `mkfs` and never changes. A slot holds it encrypted with a
//! key that Argon2id makes of a passphrase, so a passphrase is changed by writing other slots: all
//! of them stand in one slot of the superblock, which is written whole. A slot that somebody kept
//! from before opens with its old passphrase for ever, because the volume key is the same.

use super::cipher::{Cipher, OVERHEAD};
use super::passphrase::Passphrase;
use super::random::random;
use super::volume_key::VolumeKey;
use crate::error::{Error, Result};
use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

/// Length of an encoded slot: salt 16, costs 12, nonce 24, key 32, tag 16.
pub const SLOT_LEN: usize = SALT + 12 + WRAPPED;
/// Slots at most: what a superblock has room for, with some to spare.
pub const SLOTS_MAX: usize = 8;

const SALT: usize = 16;
const WRAPPED: usize = 32 + OVERHEAD;
/// KiB of memory at most that a slot may ask for: a damaged one must not take the machine's.
const MEMORY_MAX: u32 = 4 << 20;
/// Passes at most that a slot may ask for.
const PASSES_MAX: u32 = 1 << 10;

/// What trying one passphrase costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// KiB of memory.
    pub memory: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl Default for Costs {
    /// The second recommendation of RFC 9106: 64 MiB, three passes, four lanes.
    fn default() -> Costs {
        Costs {
            memory: 64 << 10,
            passes: 3,
            lanes: 4,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeySlot {
    salt: [u8; SALT],
    costs: Costs,
    wrapped: [u8; WRAPPED],
}

/// The slots of a volume: each opens with a passphrase of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySlots {
    slots: Vec<KeySlot>,
}

impl KeySlots {
    /// The slots that [`KeySlots::encode`] wrote; `None` where it did not write these bytes.
    pub fn decode(bytes: &[u8]) -> Option<KeySlots> {
        if !bytes.len().is_multiple_of(SLOT_LEN) || bytes.len() / SLOT_LEN > SLOTS_MAX {
            return None;
        }
        let slots = bytes.chunks(SLOT_LEN).map(KeySlot::decode);
        Some(KeySlots {
            slots: slots.collect::<Option<_>>()?,
        })
    }

    /// All slots one behind the other, [`SLOT_LEN`] each.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.slots.len() * SLOT_LEN);
        for slot in &self.slots {
            bytes.extend_from_slice(&slot.salt);
            bytes.extend_from_slice(&slot.costs.memory.to_le_bytes());
            bytes.extend_from_slice(&slot.costs.passes.to_le_bytes());
            bytes.extend_from_slice(&slot.costs.lanes.to_le_bytes());
            bytes.extend_from_slice(&slot.wrapped);
        }
        bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none: the volume is not encrypted.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The key of the volume, from the first slot that opens with the passphrase.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where none does.
    pub fn unlock(&self, volume: &[u8; 16], passphrase: &Passphrase) -> Result<VolumeKey> {
        let (_, key) = self.find(volume, passphrase)?;
        Ok(key)
    }

    /// Adds a slot that opens with the passphrase.
    ///
    /// # Errors
    /// [`Error::NoSpace`] where there are [`SLOTS_MAX`] already.
    pub fn add(
        &mut self,
        volume: &[u8; 16],
        key: &VolumeKey,
        passphrase: &Passphrase,
        costs: Costs,
    ) -> Result<()> {
        if self.slots.len() >= SLOTS_MAX {
            return Err(Error::NoSpace {
                what: "another passphrase",
            });
        }
        self.slots
            .push(KeySlot::wrap(volume, key, passphrase, costs)?);
        Ok(())
    }

    /// Removes the slot that opens with the passphrase.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where none does, or it is the last one.
    pub fn remove(&mut self, volume: &[u8; 16], passphrase: &Passphrase) -> Result<()> {
        let (at, _) = self.find(volume, passphrase)?;
        if self.slots.len() == 1 {
            return Err(Error::WrongKey {
                why: "the last passphrase of a volume cannot be removed",
            });
        }
        self.slots.remove(at);
        Ok(())
    }

    /// The slots in which `new` has taken the place of `old`. These stay as they are: whoever
    /// writes the result over them in one step has the old or the new passphrase at any moment.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where none opens with `old`.
    pub fn changed(
        &self,
        volume: &[u8; 16],
        old: &Passphrase,
        new: &Passphrase,
        costs: Costs,
    ) -> Result<KeySlots> {
        let (at, key) = self.find(volume, old)?;
        let mut changed = self.clone();
        changed.slots[at] = KeySlot::wrap(volume, &key, new, costs)?;
        Ok(changed)
    }

    fn find(&self, volume: &[u8; 16], passphrase: &Passphrase) -> Result<(usize, VolumeKey)> {
        let mut opened = self.slots.iter().enumerate();
        opened
            .find_map(|(at, slot)| Some((at, slot.unwrap(volume, passphrase)?)))
            .ok_or(Error::WrongKey {
                why: "no key of this volume opens with this passphrase",
            })
    }
}

impl KeySlot {
    fn decode(bytes: &[u8]) -> Option<KeySlot> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(KeySlot {
            salt: bytes.get(..SALT)?.try_into().ok()?,
            costs: Costs {
                memory: number(SALT)?,
                passes: number(SALT + 4)?,
                lanes: number(SALT + 8)?,
            },
            wrapped: bytes.get(SALT + 12..)?.try_into().ok()?,
        })
    }

    fn wrap(
        volume: &[u8; 16],
        key: &VolumeKey,
        passphrase: &Passphrase,
        costs: Costs,
    ) -> Result<KeySlot> {
        let salt = random();
        let wrapping = derive(passphrase, &salt, costs).ok_or(Error::WrongKey {
            why: "the costs of a passphrase are out of range, or there is no memory for them",
        })?;
        let sealed = Cipher::with_key(&wrapping).seal(&associated(volume, costs), key.bytes());
        let mut wrapped = [0; WRAPPED];
        wrapped.copy_from_slice(&sealed);
        Ok(KeySlot {
            salt,
            costs,
            wrapped,
        })
    }

    fn unwrap(&self, volume: &[u8; 16], passphrase: &Passphrase) -> Option<VolumeKey> {
        let wrapping = derive(passphrase, &self.salt, self.costs)?;
        let cipher = Cipher::with_key(&wrapping);
        let opened = cipher.open(&associated(volume, self.costs), &self.wrapped);
        let opened = Zeroizing::new(opened.ok()?);
        VolumeKey::from_bytes(&opened)
    }
}

/// A slot belongs to its volume and its costs.
fn associated(volume: &[u8; 16], costs: Costs) -> Vec<u8> {
    let mut bytes = b"hearth volume key".to_vec();
    bytes.extend_from_slice(volume);
    for cost in [costs.memory, costs.passes, costs.lanes] {
        bytes.extend_from_slice(&cost.to_le_bytes());
    }
    bytes
}

fn derive(passphrase: &Passphrase, salt: &[u8], costs: Costs) -> Option<Zeroizing<[u8; 32]>> {
    if costs.memory > MEMORY_MAX || costs.passes > PASSES_MAX {
        return None;
    }
    let params = Params::new(costs.memory, costs.passes, costs.lanes, Some(32)).ok()?;
    let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut key = Zeroizing::new([0; 32]);
    argon
        .hash_password_into(passphrase.bytes(), salt, key.as_mut_slice())
        .ok()?;
    Some(key)
}

//! How bytes are changed on their way to the disk: compression, then encryption.
//!
//! | file | is |
//! |---|---|
//! | `compress` | none, lz4, zstd; kept as is where that gains less than an eighth |
//! | `sample` | whether compression is worth trying |
//! | `cipher` | XChaCha20-Poly1305 with random nonces |
//! | `names` | names in keys of the engine |
//! | `volume_key` | the key of a volume |
//! | `keys` | the slots that wrap it |
//! | `passphrase` | where a passphrase comes from |
//! | `random` | random bytes of the kernel |
//!
//! Every nonce is drawn at random when it is used: no counter, position or clock goes into it, so
//! no history of the directory (a rollback, a copy, a crash) repeats one.

mod cipher;
mod compress;
mod keys;
mod names;
mod passphrase;
mod random;
mod sample;
mod volume_key;

pub use cipher::{Cipher, OVERHEAD, Purpose};
pub use compress::{Codec, Compression, trim, unpack};
pub use keys::{Costs, KeySlots, SLOT_LEN, SLOTS_MAX};
pub use names::NameCipher;
pub use passphrase::{Passphrase, VARIABLE};
pub use random::random;
pub use volume_key::VolumeKey;

#[cfg(test)]
mod tests;

//! Encryption of blocks, frames and values.

use super::random::random;
use super::volume_key::VolumeKey;
use crate::error::{Error, Result};
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

const NONCE: usize = 24;
const TAG: usize = 16;

/// How much longer sealed bytes are than plain ones: a nonce in front, a tag behind.
pub const OVERHEAD: usize = NONCE + TAG;

/// What a key encrypts. Each purpose has a key of its own, derived from the volume key, so sealed
/// bytes of one place do not open in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Blocks of segments.
    Blocks,
    /// Frames of the commit log.
    Frames,
    /// Keys and values of the engine.
    Values,
}

impl Purpose {
    /// The context string of the derivation; part of the format.
    fn context(self) -> &'static str {
        match self {
            Purpose::Blocks => "hearth store version 1 blocks of segments",
            Purpose::Frames => "hearth store version 1 frames of the commit log",
            Purpose::Values => "hearth store version 1 values of the engine",
        }
    }
}

/// XChaCha20-Poly1305 with the key of one purpose.
pub struct Cipher {
    key: XChaCha20Poly1305,
}

impl Cipher {
    /// The cipher of `purpose` in the volume with this key.
    pub fn new(key: &VolumeKey, purpose: Purpose) -> Cipher {
        let derived = blake3::derive_key(purpose.context(), key.bytes());
        Cipher::with_key(&Zeroizing::new(derived))
    }

    /// The cipher with this key itself.
    pub(super) fn with_key(key: &[u8; 32]) -> Cipher {
        Cipher {
            key: XChaCha20Poly1305::new(key.into()),
        }
    }

    /// `plain` encrypted under a fresh nonce: nonce, ciphertext, tag. `aad` is not in it, and the
    /// same is needed to open it.
    pub fn seal(&self, aad: &[u8], plain: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(plain.len() + OVERHEAD);
        let at = Cipher::begin(&mut sealed);
        sealed.extend_from_slice(plain);
        self.seal_from(aad, &mut sealed, at);
        sealed
    }

    /// Leaves room for a nonce at the end of `buffer`; [`Cipher::seal_from`] is given what it
    /// returns. The plain bytes are appended between the two calls.
    pub fn begin(buffer: &mut Vec<u8>) -> usize {
        let at = buffer.len();
        buffer.resize(at + NONCE, 0);
        at
    }

    /// Encrypts in place what was appended to `buffer` since [`Cipher::begin`] returned `at`.
    pub fn seal_from(&self, aad: &[u8], buffer: &mut Vec<u8>, at: usize) {
        let nonce: [u8; NONCE] = random();
        buffer[at..at + NONCE].copy_from_slice(&nonce);
        let plain = &mut buffer[at + NONCE..];
        // It fails beyond 256 GiB alone, and what is sealed here has at most some MiB.
        let tag = self
            .key
            .encrypt_inout_detached(&XNonce::from(nonce), aad, plain.into())
            .expect("less than 256 GiB");
        buffer.extend_from_slice(&tag);
    }

    /// What was sealed with the same key and `aad`.
    ///
    /// # Errors
    /// [`Error::WrongKey`] where key, `aad` or bytes are not those of the sealing.
    pub fn open(&self, aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let wrong = Error::WrongKey {
            why: "encrypted bytes do not open with the key of this volume",
        };
        if sealed.len() < OVERHEAD {
            return Err(wrong);
        }
        let (nonce, rest) = sealed.split_at(NONCE);
        let (text, tag) = rest.split_at(rest.len() - TAG);
        let mut plain = text.to_vec();
        let (Ok(nonce), Ok(tag)) = (XNonce::try_from(nonce), Tag::try_from(tag)) else {
            return Err(wrong);
        };
        match self
            .key
            .decrypt_inout_detached(&nonce, aad, plain.as_mut_slice().into(), &tag)
        {
            Ok(()) => Ok(plain),
            Err(_) => Err(wrong),
        }
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher")
    }
}

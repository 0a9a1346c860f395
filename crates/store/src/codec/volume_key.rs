//! The volume key: drawn once, wiped when it is dropped.

use super::random::random;
use zeroize::Zeroizing;

/// The key of a volume.
#[derive(Clone)]
pub struct VolumeKey(Zeroizing<[u8; 32]>);

impl VolumeKey {
    /// A new one.
    pub fn generate() -> VolumeKey {
        VolumeKey(Zeroizing::new(random()))
    }

    /// The key in these bytes; `None` where they are no 32.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<VolumeKey> {
        let mut key = Zeroizing::new([0; 32]);
        (bytes.len() == key.len()).then(|| {
            key.copy_from_slice(bytes);
            VolumeKey(key)
        })
    }

    /// The key itself.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VolumeKey")
    }
}

//! Names in keys of the engine, encrypted so that the same name in the same directory gives the
//! same bytes: a key has to be found again.
//!
//! The name's tag is a keyed digest of directory and name; the name follows, under a key stream
//! made of directory and tag. Two names never share a key stream, and who reads the disk learns no
//! more than the lengths of names.

use super::volume_key::VolumeKey;

/// Bytes that an encrypted name is longer.
const TAG: usize = 16;

/// Encrypts names of one volume.
pub struct NameCipher {
    tags: [u8; 32],
    streams: [u8; 32],
}

impl NameCipher {
    /// The cipher of the volume with this key.
    pub fn new(key: &VolumeKey) -> NameCipher {
        let derived = |context| blake3::derive_key(context, key.bytes());
        NameCipher {
            tags: derived("hearth store version 1 tags of names"),
            streams: derived("hearth store version 1 key streams of names"),
        }
    }

    /// The encrypted name. `directory` is any bytes that say where it is.
    pub fn seal(&self, directory: &[u8], name: &[u8]) -> Vec<u8> {
        let tag = self.tag(directory, name);
        let mut sealed = tag.to_vec();
        sealed.extend_from_slice(name);
        self.stream(directory, &tag, &mut sealed[TAG..]);
        sealed
    }

    /// The name that was sealed there; `None` for bytes that are none.
    pub fn open(&self, directory: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (tag, name) = sealed.split_at_checked(TAG)?;
        let mut name = name.to_vec();
        self.stream(directory, tag, &mut name);
        (self.tag(directory, &name) == tag).then_some(name)
    }

    fn tag(&self, directory: &[u8], name: &[u8]) -> [u8; TAG] {
        let mut hash = blake3::Hasher::new_keyed(&self.tags);
        hash.update(&(directory.len() as u64).to_le_bytes());
        hash.update(directory).update(name);
        let mut tag = [0; TAG];
        hash.finalize_xof().fill(&mut tag);
        tag
    }

    fn stream(&self, directory: &[u8], tag: &[u8], bytes: &mut [u8]) {
        let mut hash = blake3::Hasher::new_keyed(&self.streams);
        hash.update(tag).update(directory);
        let mut stream = vec![0; bytes.len()];
        hash.finalize_xof().fill(&mut stream);
        bytes
            .iter_mut()
            .zip(stream)
            .for_each(|(byte, key)| *byte ^= key);
    }
}

impl std::fmt::Debug for NameCipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameCipher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_only_where_it_was_sealed() {
        let key = VolumeKey::generate();
        let names = NameCipher::new(&key);
        for name in [&b""[..], b"a", b"a longer name of a file", &[0; 255]] {
            let sealed = names.seal(b"dir 1", name);
            assert_eq!(sealed, names.seal(b"dir 1", name));
            assert_ne!(sealed, names.seal(b"dir 2", name));
            assert_eq!(names.open(b"dir 1", &sealed).as_deref(), Some(name));
            assert_eq!(names.open(b"dir 2", &sealed), None);
            assert_eq!(
                NameCipher::new(&VolumeKey::generate()).open(b"dir 1", &sealed),
                None
            );
            let mut flipped = sealed.clone();
            flipped[0] ^= 1;
            assert_eq!(names.open(b"dir 1", &flipped), None);
        }
        let (one, two) = (
            names.seal(b"d", b"same begin 1"),
            names.seal(b"d", b"same begin 2"),
        );
        assert_ne!(one[16..20], two[16..20]);
    }
}

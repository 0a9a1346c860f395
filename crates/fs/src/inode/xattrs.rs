//! The extended attributes of one inode.

use super::padded_bytes::PaddedBytes;

/// Bytes before each name: its length and that of the value, little-endian.
const HEAD: usize = 2 * WORD;
/// Bytes of a length.
const WORD: usize = size_of::<u32>();

/// Names with values, sorted by name, in one block of memory that shares no cache line with others:
/// every reader of one attribute reads it, and its neighbours may be written all the time. Replaced
/// as a whole.
#[derive(Clone, Default)]
pub(crate) struct Xattrs(Option<PaddedBytes>);

impl Xattrs {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes of all names and values, with the lengths before them.
    pub fn len(&self) -> usize {
        self.0.as_deref().map_or(0, <[u8]>::len)
    }

    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, PaddedBytes::memory)
    }

    /// All names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest: &[u8] = self.0.as_deref().unwrap_or_default();
        std::iter::from_fn(move || {
            let (lengths, behind) = rest.split_first_chunk::<HEAD>()?;
            let [name, value] = [0, WORD].map(|at| length(&lengths[at..]));
            let (name, behind) = behind.split_at(name);
            let (value, behind) = behind.split_at(value);
            rest = behind;
            Some((name, value))
        })
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(|(name, _)| name)
    }

    pub fn get(&self, wanted: &[u8]) -> Option<&[u8]> {
        let mut all = self.iter();
        all.find_map(|(name, value)| (name == wanted).then_some(value))
    }

    pub fn contains(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// Sets one attribute.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let others = self.iter().filter(|(other, _)| *other != name);
        *self = others.chain([(name, value)]).collect();
    }

    /// Removes one attribute; false if it is not there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let there = self.contains(name);
        if there {
            *self = self.iter().filter(|(other, _)| *other != name).collect();
        }
        there
    }
}

fn length(bytes: &[u8]) -> usize {
    let word = bytes.first_chunk::<WORD>().expect("a word");
    u32::from_le_bytes(*word) as usize
}

/// From pairs with different names. Names and values are shorter than 4 GiB.
impl<'a> FromIterator<(&'a [u8], &'a [u8])> for Xattrs {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], &'a [u8])>>(pairs: I) -> Xattrs {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_unstable();
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            for part in [name, value] {
                bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            }
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        Xattrs((!bytes.is_empty()).then(|| PaddedBytes::new(&bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn pairs(xattrs: &Xattrs) -> Vec<(Vec<u8>, Vec<u8>)> {
        let all = xattrs.iter();
        all.map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    proptest! {
        #[test]
        fn extended_attributes_behave_like_a_map(
            mut map in btree_map(vec(any::<u8>(), 1..=255), vec(any::<u8>(), 0..300), 0..12),
            name in vec(any::<u8>(), 1..=255),
            value in vec(any::<u8>(), 0..70),
        ) {
            let all = map.iter().rev();
            let mut xattrs: Xattrs = all.map(|(name, value)| (&name[..], &value[..])).collect();
            prop_assert_eq!(xattrs.is_empty(), map.is_empty());
            for other in map.clone().keys().step_by(2) {
                prop_assert_eq!(xattrs.get(other), map.get(other).map(|value| &value[..]));
                prop_assert!(xattrs.remove(other) && !xattrs.remove(other));
                map.remove(other);
            }
            // New at first, then a replacement.
            for value in [&value[..], b"", b"other"] {
                xattrs.insert(&name, value);
                map.insert(name.clone(), value.into());
                prop_assert_eq!(xattrs.get(&name), Some(value));
            }
            let expected: Vec<_> = map.clone().into_iter().collect();
            prop_assert_eq!(pairs(&xattrs), expected);
            prop_assert!(xattrs.names().eq(map.keys().map(|name| &name[..])));
        }
    }

    #[test]
    fn the_longest_name_and_value_fit() {
        let (name, value) = (vec![b'n'; 255], vec![b'v'; 65_536]);
        let mut xattrs = Xattrs::default();
        xattrs.insert(&name, &value);
        assert_eq!(pairs(&xattrs), [(name.clone(), value)]);
        assert!(xattrs.remove(&name) && xattrs.is_empty());
    }
}

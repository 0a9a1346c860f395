//! The file `heat` of a state directory: a magic line, keys and values with their lengths, and a
//! checksum over all before it. Numbers are little-endian.

use super::known::Known;
use crate::chunks::{take, take_slice};
use crate::fnv::fnv;
use crate::identity::Identity;
use hearth::heat::{ForeignFacts, KeptGroup};
use hearth_sync::primitive::Arc;

const MAGIC: &[u8] = b"hearth heat 1\n";
/// The key of what is known of the files, beside those of groups of records.
const FILES: &[u8] = b"host/files";
const SUM: usize = 8;

/// What was kept.
#[derive(Debug, Default)]
pub struct KeptFiles {
    pub groups: Vec<KeptGroup>,
    pub files: Vec<Known>,
}

/// The bytes of the file: groups of records, and those files of them that lie on the root's own
/// filesystem. Devices of others have other numbers next time.
pub fn encode(groups: &[KeptGroup], files: &[Arc<Known>], root: &Identity) -> Vec<u8> {
    let mut rows = Vec::new();
    let kept = files.iter().filter(|known| known.id.dev == root.dev);
    kept.for_each(|known| put_row(&mut rows, known));
    let mut bytes = MAGIC.to_vec();
    put_pair(&mut bytes, FILES, &rows);
    for (key, value) in groups {
        put_pair(&mut bytes, key, value);
    }
    bytes.extend(fnv(&bytes).to_le_bytes());
    bytes
}

/// What the bytes of a file say; `None` if they are damaged.
pub fn decode(bytes: &[u8], root: &Identity) -> Option<KeptFiles> {
    let (said, sum) = bytes.split_last_chunk::<SUM>()?;
    if fnv(said).to_le_bytes() != *sum {
        return None;
    }
    let mut rest = said.strip_prefix(MAGIC)?;
    let mut kept = KeptFiles::default();
    while !rest.is_empty() {
        let key_len = u32::from_le_bytes(take(&mut rest)?);
        let value_len = u32::from_le_bytes(take(&mut rest)?);
        let key = take_slice(&mut rest, key_len as usize)?;
        let mut value = take_slice(&mut rest, value_len as usize)?;
        if key != FILES {
            kept.groups.push((key.into(), value.into()));
            continue;
        }
        while !value.is_empty() {
            kept.files.push(take_row(&mut value, root)?);
        }
    }
    Some(kept)
}

fn put_pair(bytes: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // A group has 128 records; a row of a file has 4 KiB at most, and there are 131,072.
    bytes.extend((key.len() as u32).to_le_bytes());
    bytes.extend((value.len() as u32).to_le_bytes());
    bytes.extend(key);
    bytes.extend(value);
}

fn put_row(bytes: &mut Vec<u8>, known: &Known) {
    known.id.put(bytes);
    let facts = known.facts();
    for id in [facts.uid, facts.gid, facts.project] {
        bytes.extend(id.to_le_bytes());
    }
    bytes.extend(facts.size.to_le_bytes());
    let path = known.path().unwrap_or_default();
    // A longer one is searched for.
    let path: &[u8] = if path.len() < 4096 { &path } else { b"" };
    bytes.extend((path.len() as u16).to_le_bytes());
    bytes.extend(path);
}

fn take_row(bytes: &mut &[u8], root: &Identity) -> Option<Known> {
    let id = Identity::take_from(root, bytes)?;
    let mut number = || Some(u32::from_le_bytes(take(bytes)?));
    let (uid, gid, project) = (number()?, number()?, number()?);
    let size = u64::from_le_bytes(take(bytes)?);
    let len = u16::from_le_bytes(take(bytes)?);
    let path = take_slice(bytes, len.into())?;
    let facts = ForeignFacts {
        uid,
        gid,
        project,
        size,
    };
    Some(Known::new(id.ino, id, &facts, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes;
    use rustix::fd::AsFd;
    use std::fs::File;

    fn known(path: &str) -> (Identity, Arc<Known>) {
        let file = File::open(path).unwrap();
        let id = Identity::of(file.as_fd(), &attributes::stat(file.as_fd()).unwrap());
        let facts = ForeignFacts {
            uid: 1,
            gid: 2,
            project: 3,
            size: 1 << 40,
        };
        (id, Arc::new(Known::new(id.ino, id, &facts, b"a/b")))
    }

    #[test]
    fn what_is_kept_comes_back_and_damage_is_seen_wherever_it_is() {
        let (root, file) = known("/");
        let group: KeptGroup = (b"heat/files/1/2"[..].into(), b"value"[..].into());
        let bytes = encode(std::slice::from_ref(&group), &[Arc::clone(&file)], &root);
        let kept = decode(&bytes, &root).expect("is whole");
        assert_eq!(kept.groups, [group]);
        let [one] = &kept.files[..] else {
            panic!("{kept:?}");
        };
        assert_eq!((one.file, one.id), (file.file, file.id));
        assert_eq!(one.facts(), file.facts());
        assert_eq!(one.path().as_deref(), Some(&b"a/b"[..]));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(decode(&damaged, &root).is_none(), "byte {at}");
            assert!(decode(&bytes[..at], &root).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn a_file_of_another_filesystem_is_not_kept() {
        let (root, _) = known("/");
        let (_, other) = known("/proc/self/stat");
        let kept = decode(&encode(&[], &[other], &root), &root).expect("is whole");
        assert_eq!(kept.files.len(), 0);
    }
}

//! Keys and values of an encrypted volume: values are sealed under their keys, names in keys are
//! encrypted, numbers in keys are not.

use super::parts::KeyValues;
use crate::codec::{Cipher, NameCipher, Purpose, VolumeKey};
use crate::engine::Compacted;
use crate::error::{Error, Result};
use crate::kv::{KvOp, Read, Table};
use crate::schema::corrupt;
use hearth_backend::Errno;

/// Letter and directory of the key of a name.
const BEFORE_NAME: usize = 9;

/// An encrypted view of keys and values.
pub(super) struct Sealed<K> {
    below: K,
    values: Cipher,
    names: NameCipher,
}

impl<K: KeyValues> Sealed<K> {
    /// Keys and values in `below`, with the key of the volume.
    pub(super) fn new(below: K, key: &VolumeKey) -> Sealed<K> {
        Sealed {
            below,
            values: Cipher::new(key, Purpose::Values),
            names: NameCipher::new(key),
        }
    }

    /// The key as it is below.
    fn key(&self, table: Table, key: &[u8]) -> Box<[u8]> {
        match (table, key.split_at_checked(BEFORE_NAME)) {
            (Table::Meta, Some((dir, name))) if key[0] == b'N' && !name.is_empty() => {
                [dir, &self.names.seal(dir, name)].concat().into()
            }
            _ => key.into(),
        }
    }

    /// The key that lies below as `key`; as it is where it cannot be read.
    fn opened_key(&self, table: Table, key: &[u8]) -> Box<[u8]> {
        match (table, key.split_at_checked(BEFORE_NAME)) {
            (Table::Meta, Some((dir, sealed))) if key[0] == b'N' => {
                match self.names.open(dir, sealed) {
                    Some(name) => [dir, &name].concat().into(),
                    None => key.into(),
                }
            }
            _ => key.into(),
        }
    }

    /// What a value is bound to.
    fn bound(table: Table, key: &[u8]) -> Vec<u8> {
        [&[table as u8], key].concat()
    }

    fn opened(&self, table: Table, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let opened = self.values.open(&Self::bound(table, key), value);
        opened.map_err(|_| corrupt(key, "the value does not open with the key of the volume"))
    }
}

impl<K: KeyValues> Read for Sealed<K> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let below = self.key(table, key);
        let value = self.below.get(table, &below)?;
        value
            .map(|value| self.opened(table, &below, &value))
            .transpose()
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        // Ranges begin and end between directories, never at a name of one.
        let is_inside = |key: &[u8]| {
            table == Table::Meta && key.first() == Some(&b'N') && key.len() > BEFORE_NAME
        };
        if is_inside(from) || to.is_some_and(is_inside) {
            return Err(Error::Io {
                op: "scan from a name of",
                path: "engine".into(),
                errno: Errno::EINVAL,
            });
        }
        self.below.scan(table, from, to, &mut |below, value| {
            let key = self.opened_key(table, below);
            // No value is empty but where that is all: what does not open is no value.
            match self.opened(table, below, value) {
                Ok(value) => visit(&key, &value),
                Err(_) => visit(&key, b"?"),
            }
        })
    }

    fn damaged_tables(&self) -> Result<Vec<String>> {
        self.below.damaged_tables()
    }
}

impl<K: KeyValues> KeyValues for Sealed<K> {
    fn epoch(&self) -> u64 {
        self.below.epoch()
    }

    fn opened(&self) -> u32 {
        self.below.opened()
    }

    fn commit(&self, epoch: u64, ops: &[KvOp]) -> Result<()> {
        let sealed: Vec<KvOp> = ops
            .iter()
            .map(|op| {
                let key = self.key(op.table, &op.key);
                let bound = Self::bound(op.table, &key);
                let value = op.value.as_ref();
                let value = value.map(|value| self.values.seal(&bound, value).into());
                KvOp {
                    table: op.table,
                    key,
                    value,
                }
            })
            .collect();
        self.below.commit(epoch, &sealed)
    }

    fn checkpoint(&self) -> Result<()> {
        self.below.checkpoint()
    }

    fn compact(&self, free: u64) -> Result<Option<Compacted>> {
        self.below.compact(free)
    }

    fn close(&self) -> Result<()> {
        self.below.close()
    }

    fn room(&self) -> Option<(u64, u64)> {
        self.below.room()
    }

    fn is_looked_at(&self) -> bool {
        self.below.is_looked_at()
    }

    fn damage(&self) -> Option<Error> {
        self.below.damage()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::MemoryKv;
    use super::*;
    use crate::schema::key;
    use hearth_sync::primitive::Arc;

    #[test]
    fn what_lies_below_holds_neither_names_nor_values() {
        let below = Arc::new(MemoryKv::new());
        let volume_key = VolumeKey::generate();
        let kv = Sealed::new(below.clone(), &volume_key);
        let put = |key: Box<[u8]>, value: &[u8]| KvOp {
            table: Table::Meta,
            key,
            value: Some(value.into()),
        };
        let ops = [
            put(key::name(5, b"secret name"), b"secret value"),
            put(key::name(6, b"secret name"), b"secret value"),
            put(key::inode(7), b"secret value"),
        ];
        kv.commit(1, &ops).expect("a commit");
        for op in &ops {
            let value = kv.get(op.table, &op.key).expect("a read");
            assert_eq!(value.as_deref(), op.value.as_deref());
        }
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((key.to_vec(), value.to_vec()));
            true
        };
        let dir = key::names(5);
        let end = key::behind(&dir);
        kv.scan(Table::Meta, &dir, end.as_deref(), &mut visit)
            .expect("a scan");
        assert_eq!(found, [(ops[0].key.to_vec(), b"secret value".to_vec())]);
        below
            .scan(Table::Meta, &[], None, &mut |key, value| {
                for bytes in [key, value] {
                    assert!(!bytes.windows(6).any(|word| word == b"secret"));
                }
                true
            })
            .expect("a scan");
        let other = Sealed::new(below, &VolumeKey::generate());
        assert!(other.get(Table::Meta, &key::inode(7)).is_err());
    }

    impl Read for Arc<MemoryKv> {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
            (**self).get(table, key)
        }

        fn scan(
            &self,
            table: Table,
            from: &[u8],
            to: Option<&[u8]>,
            visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
        ) -> Result<()> {
            (**self).scan(table, from, to, visit)
        }
    }

    impl KeyValues for Arc<MemoryKv> {
        fn epoch(&self) -> u64 {
            (**self).epoch()
        }
        fn opened(&self) -> u32 {
            (**self).opened()
        }
        fn commit(&self, epoch: u64, ops: &[KvOp]) -> Result<()> {
            (**self).commit(epoch, ops)
        }
        fn checkpoint(&self) -> Result<()> {
            (**self).checkpoint()
        }
        fn close(&self) -> Result<()> {
            (**self).close()
        }
        fn room(&self) -> Option<(u64, u64)> {
            (**self).room()
        }
    }
}

//! The files with heat, by the number that programs see.

use super::known::Known;
use hearth::heat::ForeignFile;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::collections::HashMap;

lock_class!(FilesLock = "host.heat-files", 972);

const SHARDS: usize = 64;

/// The files with heat. Each shard's lock is taken last, but for that of a [`Known`].
#[derive(Debug)]
pub struct Files {
    shards: Vec<Lock<FilesLock, HashMap<u64, Arc<Known>>>>,
}

impl Files {
    /// None yet.
    pub fn new() -> Files {
        Files {
            shards: (0..SHARDS).map(|_| Lock::new(HashMap::new())).collect(),
        }
    }

    /// The file that has this number.
    pub fn of_number(&self, number: u64) -> Option<Arc<Known>> {
        self.shard(number).lock().get(&number).cloned()
    }

    /// A file, if it is known and has not ended.
    pub fn get(&self, file: ForeignFile) -> Option<Arc<Known>> {
        self.of_number(file.number)
            .filter(|known| known.file == file.normal())
    }

    /// Takes a file in, unless it is there; the one that is there. Another one that had its number
    /// has ended.
    pub fn insert(&self, known: Arc<Known>) -> Arc<Known> {
        let mut shard = self.shard(known.file.number).lock();
        if let Some(there) = shard.get(&known.file.number)
            && there.id.is_same_inode(&known.id)
        {
            return Arc::clone(there);
        }
        let old = shard.insert(known.file.number, Arc::clone(&known));
        drop(shard);
        drop(old);
        known
    }

    /// A file has ended.
    pub fn remove(&self, file: ForeignFile) {
        let mut shard = self.shard(file.number).lock();
        let is_it = |known: &&Arc<Known>| known.file == file.normal();
        let gone = match shard.get(&file.number).filter(is_it) {
            Some(_) => shard.remove(&file.number),
            None => None,
        };
        drop(shard);
        drop(gone);
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Known>> {
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>())
            .collect()
    }

    fn shard(&self, number: u64) -> &Lock<FilesLock, HashMap<u64, Arc<Known>>> {
        &self.shards[(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SHARDS]
    }
}

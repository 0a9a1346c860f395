//! Volumes on a simulated disk, and a model of what they hold.

use crate::disk::simulated::{Dice, SimulatedDisk};
use crate::engine::memory::MemoryEngines;
use crate::kv::{KvOp, Read, Table};
use crate::volume::{Kv, MkfsOptions, OpenMode, OpenOptions, Parts};
use crate::{Error, Result, Troubles};
use hearth_sync::primitive::Arc;
use std::collections::BTreeMap;

pub(super) const TABLES: [Table; 2] = [Table::Meta, Table::Extents];

/// What all tables hold.
pub(super) type State = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

pub(super) fn parts(disk: &SimulatedDisk) -> Parts {
    Parts {
        disk: Arc::new(disk.clone()),
        engines: Arc::new(MemoryEngines(disk.clone())),
    }
}

/// A new volume with log files of `blocks` blocks.
pub(super) fn made(seed: u64, blocks: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    mkfs(&disk, blocks).unwrap();
    disk
}

pub(super) fn mkfs(disk: &SimulatedDisk, blocks: u64) -> Result<()> {
    let options = MkfsOptions {
        log_len: blocks * 4096,
        ..MkfsOptions::default()
    };
    Kv::mkfs_parts(&parts(disk), &options)
}

pub(super) fn writer() -> OpenMode {
    OpenMode::Write {
        who: "mounted at /m".to_owned(),
    }
}

pub(super) fn open(disk: &SimulatedDisk) -> Result<Kv> {
    open_for(disk, writer())
}

pub(super) fn open_for(disk: &SimulatedDisk, mode: OpenMode) -> Result<Kv> {
    open_told(disk, mode, |_| {})
}

/// As [`open_for`]; lines about what failed go to `told`.
pub(super) fn open_told(
    disk: &SimulatedDisk,
    mode: OpenMode,
    told: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Kv> {
    let options = OpenOptions {
        background: false,
        troubles: Arc::new(Troubles::new(told)),
        ..OpenOptions::new(mode)
    };
    Kv::open_parts(parts(disk), options)
}

pub(super) fn put(key: &str, value: &str) -> KvOp {
    KvOp {
        table: Table::Meta,
        key: key.as_bytes().into(),
        value: Some(value.as_bytes().into()),
    }
}

pub(super) fn remove(key: &str) -> KvOp {
    KvOp {
        table: Table::Meta,
        key: key.as_bytes().into(),
        value: None,
    }
}

pub(super) fn get(kv: &Kv, key: &str) -> Option<String> {
    let value = kv.get(Table::Meta, key.as_bytes()).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

pub(super) fn state(kv: &Kv) -> Result<State> {
    let mut state = State::default();
    for table in TABLES {
        kv.scan(table, &[], None, &mut |key, value| {
            state[table as usize].insert(key.to_vec(), value.to_vec());
            true
        })?;
    }
    Ok(state)
}

pub(super) fn apply(state: &mut State, ops: &[KvOp]) {
    for op in ops {
        let map = &mut state[op.table as usize];
        match &op.value {
            Some(value) => map.insert(op.key.to_vec(), value.to_vec()),
            None => map.remove(&op.key[..]),
        };
    }
}

/// A commit of random operations on few keys, `most` bytes of values at most.
pub(super) fn random_ops(dice: &mut Dice, most: u64) -> Vec<KvOp> {
    let mut ops = BTreeMap::new();
    let mut room = most;
    for _ in 0..=dice.below(6) {
        let table = TABLES[dice.below(2) as usize];
        let key = format!("k{}", dice.below(24)).into_bytes();
        let length = dice.below(room.min(3000) + 1);
        room -= length;
        let byte = dice.below(256) as u8;
        let value = (dice.below(4) > 0).then(|| vec![byte; length as usize].into_boxed_slice());
        ops.insert((table, key), value);
    }
    let op = |((table, key), value): ((Table, Vec<u8>), _)| KvOp {
        table,
        key: key.into(),
        value,
    };
    ops.into_iter().map(op).collect()
}

/// What a volume was told, and what it acknowledged.
#[derive(Clone, Default)]
pub(super) struct History {
    /// States after the epochs that were tried, the first one with nothing.
    pub states: Vec<State>,
    /// Epochs of these.
    pub epochs: Vec<u64>,
    /// Index of the last one that was acknowledged.
    pub acknowledged: usize,
}

impl History {
    pub(super) fn new() -> History {
        History {
            states: vec![State::default()],
            epochs: vec![0],
            acknowledged: 0,
        }
    }

    /// Commits `ops` as the next epoch. After an error the epoch may be there or not.
    pub(super) fn commit(&mut self, kv: &Kv, ops: &[KvOp]) -> Result<()> {
        let epoch = self.epochs[self.acknowledged] + 1;
        self.states.truncate(self.acknowledged + 1);
        self.epochs.truncate(self.acknowledged + 1);
        let mut state = self.states[self.acknowledged].clone();
        apply(&mut state, ops);
        self.states.push(state);
        self.epochs.push(epoch);
        kv.commit(epoch, ops)?;
        self.acknowledged += 1;
        Ok(())
    }

    /// The state of `kv` must be one that was tried, not before the last acknowledged one; the
    /// history goes on from there.
    pub(super) fn check(&mut self, kv: &Kv) -> std::result::Result<(), String> {
        let found = state(kv).map_err(|error| error.to_string())?;
        let epoch = kv.last_epoch();
        for at in self.acknowledged..self.states.len() {
            if self.epochs[at] == epoch && self.states[at] == found {
                self.acknowledged = at;
                return Ok(());
            }
        }
        let known = self.states.iter().position(|state| *state == found);
        Err(format!(
            "epoch {epoch} with the state of {known:?}; acknowledged {}, tried {}",
            self.acknowledged,
            self.states.len() - 1
        ))
    }
}

pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Gap { .. })
}

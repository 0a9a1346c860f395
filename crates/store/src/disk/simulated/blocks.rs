//! Blocks of a file on a simulated disk: each version since the last sync is kept, because a crash
//! may leave any of them.

use std::collections::BTreeMap;

/// What a disk writes as a whole, or tears, in bytes.
pub(super) const BLOCK: usize = 512;

/// A file: what is read of it now, and what is durable of it.
#[derive(Clone, Default)]
pub(super) struct SimulatedInode {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Contents of blocks since the last sync, oldest first.
    written: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Blocks whose sync failed, the same way: no later sync keeps them.
    adrift: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl SimulatedInode {
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[at..end].copy_from_slice(bytes);
        for block in at / BLOCK..end.div_ceil(BLOCK) {
            let mut versions = self.adrift.remove(&block).unwrap_or_default();
            versions.append(self.written.entry(block).or_default());
            versions.push(self.block(&self.now, block));
            self.written.insert(block, versions);
        }
    }

    fn block(&self, of: &[u8], block: usize) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        let from = (block * BLOCK).min(of.len());
        let to = (from + BLOCK).min(of.len());
        bytes[..to - from].copy_from_slice(&of[from..to]);
        bytes
    }

    /// Makes what was written durable, but not what a failed sync left adrift.
    pub(super) fn sync(&mut self) {
        if self.durable.len() != self.now.len() {
            self.durable.resize(self.now.len(), 0);
        }
        for (block, _) in std::mem::take(&mut self.written) {
            let from = block * BLOCK;
            let to = (from + BLOCK).min(self.now.len());
            if from < to {
                self.durable[from..to].copy_from_slice(&self.now[from..to]);
            }
        }
    }

    pub(super) fn fail_sync(&mut self) {
        for (block, mut versions) in std::mem::take(&mut self.written) {
            self.adrift.entry(block).or_default().append(&mut versions);
        }
    }

    /// Whether a crash leaves exactly what is there now.
    pub(super) fn is_settled(&self) -> bool {
        self.written.is_empty() && self.adrift.is_empty() && self.now.len() == self.durable.len()
    }

    pub(super) fn crashed(&self, dice: &mut Dice) -> SimulatedInode {
        let mut bytes = self.durable.clone();
        if self.now.len() != bytes.len() && dice.coin() {
            bytes.resize(self.now.len(), 0);
        }
        for (&block, versions) in self.written.iter().chain(&self.adrift) {
            let old = self.block(&self.durable, block);
            let pick = |dice: &mut Dice| match dice.below(versions.len() as u64 + 1) as usize {
                0 => old.clone(),
                version => versions[version - 1].clone(),
            };
            let mut found = pick(dice);
            if dice.below(16) == 0 {
                let cut = dice.below(BLOCK as u64) as usize;
                found[cut..].copy_from_slice(&pick(dice)[cut..]);
            }
            let from = (block * BLOCK).min(bytes.len());
            let to = (from + BLOCK).min(bytes.len());
            bytes[from..to].copy_from_slice(&found[..to - from]);
        }
        SimulatedInode {
            now: bytes.clone(),
            durable: bytes,
            ..SimulatedInode::default()
        }
    }
}

/// Numbers that look random and follow from a seed (splitmix64).
#[derive(Clone, Debug, Default)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// True or false.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

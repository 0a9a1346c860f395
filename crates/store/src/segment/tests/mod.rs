mod concurrent;
mod damage;
mod publishing;
mod round_trips;
mod upkeep;

use super::*;
use crate::codec::{Codec, Purpose, VolumeKey};
use crate::error::Error;
use bytes::Bytes;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const VOLUME: [u8; 16] = [9; 16];
const INO: u64 = 77;
const GENERATION: u32 = 3;

/// A directory with segments in it.
struct Store {
    dir: TempDir,
    key: VolumeKey,
    compression: Compression,
    encrypted: bool,
}

impl Store {
    fn new(compression: Compression, encrypted: bool) -> Store {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("segments")).expect("a folder");
        Store {
            dir,
            key: VolumeKey::generate(),
            compression,
            encrypted,
        }
    }

    fn open(&self) -> Segments {
        self.open_with(VOLUME, 16 << 20)
    }

    fn open_with(&self, volume: [u8; 16], kept: usize) -> Segments {
        let settings = Settings {
            volume,
            compression: self.compression,
            cipher: self
                .encrypted
                .then(|| Cipher::new(&self.key, Purpose::Blocks)),
            next: 1,
            kept,
        };
        Segments::open(self.dir.path(), settings).expect("open")
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.path().join(Segments::file_of(number))
    }

    fn bytes(&self, number: u64) -> Vec<u8> {
        std::fs::read(self.path(number)).expect("read")
    }

    fn set_byte(&self, number: u64, at: usize, byte: u8) {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(self.path(number));
        let file = file.expect("open");
        file.write_all_at(&[byte], at as u64).expect("write");
    }

    /// Changes the file in place: made anew, a filesystem may write it to the disk at each close.
    fn set_bytes(&self, number: u64, bytes: &[u8]) {
        let mut open = std::fs::OpenOptions::new();
        let file = open.write(true).create(true).truncate(false);
        let file = file.open(self.path(number)).expect("open");
        file.write_all_at(bytes, 0).expect("write");
        file.set_len(bytes.len() as u64).expect("truncate");
    }
}

/// Every way to store blocks.
fn every_kind() -> impl Iterator<Item = Store> {
    let codecs = [Compression::None, Compression::Lz4, Compression::Zstd(3)];
    codecs
        .into_iter()
        .flat_map(|codec| [false, true].map(|encrypted| Store::new(codec, encrypted)))
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// A page that packs well and that no other index and seed has.
fn page(index: u64, seed: u64) -> Page {
    let line = format!("page {index} of {seed}\n");
    let bytes: Vec<u8> = line.bytes().cycle().take(PAGE).collect();
    (index, bytes.into())
}

fn pages(indexes: impl IntoIterator<Item = u64>, seed: u64) -> Vec<Page> {
    indexes.into_iter().map(|index| page(index, seed)).collect()
}

/// Each page that was written, as reading gives it.
fn read_back(segments: &Segments, written: &[Written]) -> Vec<Page> {
    let mut found = Vec::new();
    for block in written {
        let bytes = segments.read(&block.stored, INO, GENERATION).expect("read");
        assert_eq!(
            bytes.len() as u64,
            (block.pages.end - block.pages.start) * 4096
        );
        for (index, page) in block.pages.clone().zip(bytes.chunks(PAGE)) {
            found.push((index, page.into()));
        }
    }
    found
}

/// The error is damage of this segment's file.
fn is_damage_of<T: std::fmt::Debug>(result: &crate::Result<T>, number: u64) -> bool {
    matches!(result, Err(Error::Corrupt { file, .. }) if *file == Segments::file_of(number))
}

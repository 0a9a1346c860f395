//! Volumes in a store: one is opened, or made where that is asked for.

use super::{Compress, OpenError, VolumeOptions};
use crate::builder::VolumeBuilder;
use crate::volume::Volume;
use hearth_store::backend::{MakeOptions, StoreBackend, StoreOptions};
use hearth_store::codec::{Compression, Passphrase};
use hearth_store::{Error, Kv, MemoryParts, OpenMode};
use std::path::Path;

/// The builder of a volume in a store.
pub(super) fn stored(
    directory: &Path,
    options: &VolumeOptions,
    who: &str,
) -> Result<VolumeBuilder, OpenError> {
    let failed = |error| OpenError::Store(directory.to_owned(), error);
    let passphrase = options.store.encrypt.as_deref();
    let passphrase = passphrase.map(Passphrase::from_source).transpose();
    let passphrase = passphrase.map_err(failed)?;
    let compression = options.store.compress.map(Compression::from);
    if options.store.create && !options.read_only && is_free(directory) {
        let making = making(options, passphrase.clone(), compression);
        StoreBackend::mkfs(directory, &making).map_err(failed)?;
    }
    let info = Kv::info_of(directory).map_err(failed)?;
    let mode = match options.read_only {
        true => OpenMode::Shared,
        false => OpenMode::Write {
            who: who.to_owned(),
        },
    };
    let memory = options.memory.unwrap_or_else(VolumeBuilder::usual_memory);
    let parts = MemoryParts::of(memory);
    let how = StoreOptions {
        passphrase,
        compression,
        memory: parts,
        ..StoreOptions::new(mode)
    };
    let store = StoreBackend::open(directory, how).map_err(failed)?;
    let room = store.kv().room().map(|(all, _)| all);
    let mut builder = Volume::builder();
    if info.size > 0 {
        builder = builder.size(info.size);
    } else if let Some(all) = room {
        builder = builder.room(all);
    }
    if options.inodes.is_none() {
        let inodes = match info.size {
            // An empty file takes more of the disk than this, so its room is what ends.
            0 => room.unwrap_or(u64::MAX) / 256,
            size => size / 4096,
        };
        builder = builder.inodes(inodes.max(1));
    }
    Ok(builder
        .memory_budget(memory - parts.sum())
        .commit_interval(options.store.commit_interval())
        .backend(store))
}

fn making(
    options: &VolumeOptions,
    passphrase: Option<Passphrase>,
    compression: Option<Compression>,
) -> MakeOptions {
    let usual = MakeOptions::default();
    MakeOptions {
        passphrase,
        compression: compression.unwrap_or(usual.compression),
        size: options.size.unwrap_or(0),
        ..usual
    }
}

/// Whether a directory can become a volume: it is not there, or holds nothing of anybody.
pub fn is_free(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(names) => {
            let mut names = names.filter_map(Result::ok);
            // What an unfinished mkfs has left is taken away by the next one.
            names.all(|name| name.file_name() == "lost+found")
                || matches!(Kv::info_of(directory), Err(Error::Unfinished { .. }))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

impl From<Compress> for Compression {
    fn from(compress: Compress) -> Compression {
        match compress {
            Compress::None => Compression::None,
            Compress::Lz4 => Compression::Lz4,
            Compress::Zstd(level) => Compression::Zstd(level.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Credentials;

    #[test]
    fn a_text_opens_a_store_that_keeps_what_it_is_given() {
        let place = tempfile::tempdir().expect("a directory");
        let directory = place.path().join("volume");
        let text = format!("store:{}?create,compress=zstd", directory.display());
        let volume = crate::open(&text).expect("a new store");
        let process = volume.process(Credentials::root());
        process.mkdir("/dir", 0o755).expect("a directory is made");
        volume.close().expect("it closes");
        drop((process, volume));
        let text = format!("store:{}?memory=64M,commit=0.5", directory.display());
        let volume = crate::open(&text).expect("the store");
        let process = volume.process(Credentials::root());
        assert!(process.stat("/dir").is_ok());
        drop((process, volume));
        let missing = format!("store:{}", place.path().join("none").display());
        let error = crate::open(&missing).expect_err("no volume").to_string();
        assert!(
            error.contains("none") && error.contains("hearth mkfs"),
            "{error}"
        );
        assert!(!place.path().join("none").exists());
    }
}

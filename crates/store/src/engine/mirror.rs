//! A folder that stands for that of an engine which is only read.

use crate::error::{Error, Result};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// The folder. It goes when this is dropped.
pub(super) struct Mirror {
    folder: TempDir,
    /// Tables, which a writer beside may remove.
    _held: Vec<fs::File>,
}

impl Mirror {
    /// Makes a folder outside the volume with copies of small files and links to tables.
    pub(super) fn of(engine: &Path) -> Result<Mirror> {
        let folder = tempfile::Builder::new()
            .prefix("hearth-engine-")
            .tempdir()
            .map_err(|error| Error::io("make a folder in", &std::env::temp_dir(), error))?;
        let mut held = Vec::new();
        mirror_folder(engine, folder.path(), &mut held)?;
        let _held = held;
        Ok(Mirror { folder, _held })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Tables that are held open at most; the others are found by their names.
const HELD: usize = 512;

fn mirror_folder(from: &Path, to: &Path, held: &mut Vec<fs::File>) -> Result<()> {
    for name in list(from)? {
        let (old, new) = (from.join(&name), to.join(&name));
        let mirrored = if old.is_dir() {
            fs::create_dir(&new).map_err(|error| Error::io("make the folder", &new, error))?;
            mirror_folder(&old, &new, held)?;
            Ok(())
        } else if is_journal(&name) {
            Ok(())
        } else if name == "lock" {
            fs::write(&new, b"")
        } else if from.file_name().is_some_and(|folder| folder == "tables") {
            mirror_table(&old, &new, held)
        } else {
            // Not fs::copy: the modes of a volume that only may be read would come along.
            fs::read(&old).and_then(|bytes| fs::write(&new, bytes))
        };
        mirrored.map_err(|error| Error::io("mirror", &old, error))?;
    }
    Ok(())
}

fn mirror_table(old: &Path, new: &Path, held: &mut Vec<fs::File>) -> std::io::Result<()> {
    if held.len() >= HELD {
        return symlink(fs::canonicalize(old)?, new);
    }
    let table = fs::File::open(old)?;
    symlink(format!("/proc/self/fd/{}", table.as_raw_fd()), new)?;
    held.push(table);
    Ok(())
}

pub(super) fn is_journal(name: &str) -> bool {
    name.ends_with(".jnl")
}

pub(super) fn list(folder: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::io("list", folder, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    Ok(names)
}

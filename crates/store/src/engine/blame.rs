//! Which tables keep fjall from opening: it says that something is wrong, and not where.

use super::{FOLDER, layout};
use crate::error::{Error, Result};
use hearth_backend::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The error of an opening, with the tables that are not what was written where there are such.
pub(super) fn named(folder: &Path, keyspaces: usize, error: Error) -> Error {
    let what = match &error {
        Error::Corrupt { what, .. } => what.clone(),
        // A seek before the beginning of a file that was cut.
        Error::Io { errno, .. } if *errno == Errno::EINVAL => "a table was cut".to_owned(),
        _ => return error,
    };
    let mut files = Vec::new();
    for number in 0..=keyspaces {
        // A list that cannot be read has another error, which came first.
        files.extend(damaged(folder, number, &|| false).unwrap_or_default());
    }
    match &error {
        // No table was cut: it is another error.
        Error::Io { .. } if files.is_empty() => return error,
        Error::Corrupt { file, .. } if files.is_empty() && file.as_os_str() != FOLDER => {
            files.push(file.display().to_string());
        }
        _ => {}
    }
    Error::Engine { files, what }
}

/// The error of a merge of the tables of a keyspace, which reads them and writes others. Where one
/// of them cannot be read that is all that is wrong; else a write has failed. The look at the
/// tables stops early when `is_ending`: then a write is believed to have failed.
pub(super) fn of_merge(
    folder: &Path,
    keyspace: usize,
    error: Error,
    is_ending: &dyn Fn() -> bool,
) -> Error {
    if !matches!(error, Error::Io { .. }) || error.is_shortage() {
        return error;
    }
    // Where the tables cannot be looked at nobody knows: it may have been a write.
    let tables = damaged(folder, keyspace, is_ending).unwrap_or_default();
    match tables.first() {
        Some(table) => Error::corrupt(table, 0, format!("the table cannot be read: {error}")),
        None => error,
    }
}

/// The tables of all keyspaces that do not fit the checksums in their lists, while tables may be
/// merged: one that is gone from its list meanwhile was merged and removed.
pub(super) fn damaged_of(folder: &Path, keyspaces: usize) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for number in 0..=keyspaces {
        let mut found = damaged(folder, number, &|| false)?;
        if !found.is_empty() {
            let listed = layout::tables(folder, number)?;
            let names = listed
                .iter()
                .map(|table| layout::shown(number, table.number));
            let names: Vec<String> = names.collect();
            found.retain(|table| names.contains(table));
        }
        all.append(&mut found);
    }
    Ok(all)
}

/// The tables of a keyspace that do not fit the checksums in its list. Stops early when
/// `is_ending`, with those found so far.
fn damaged(folder: &Path, keyspace: usize, is_ending: &dyn Fn() -> bool) -> Result<Vec<String>> {
    let mut damaged = Vec::new();
    for table in layout::tables(folder, keyspace)? {
        if is_ending() {
            break;
        }
        let path = folder.join(layout::name(keyspace, table.number));
        let is = checksum(&path).map_err(|error| Error::io("read", &path, error));
        let fits = match is {
            Ok(is) => is == table.checksum,
            // A lack of descriptors or of memory says nothing about the table.
            Err(error) if error.is_shortage() => return Err(error),
            Err(_) => false,
        };
        if !fits {
            damaged.push(layout::shown(keyspace, table.number));
        }
    }
    Ok(damaged)
}

/// The checksum of a whole file.
fn checksum(path: &Path) -> io::Result<u128> {
    let (mut file, mut hash) = (File::open(path)?, Xxh3::new());
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.digest128()),
            got => hash.update(&piece[..got]),
        }
    }
}

//! Which table keeps fjall from opening: it says that something is wrong, and not where.

use super::FOLDER;
use crate::error::{Error, Result};
use hearth_backend::Errno;
use std::fs;
use std::path::Path;

/// Bytes behind the table of contents of a table.
const TRAILER: u64 = 38;

/// The error of an opening, with the first table that cannot be opened where there is one.
pub(super) fn named(folder: &Path, keyspaces: usize, error: Error) -> Error {
    let is_vague = match &error {
        Error::Corrupt { .. } => true,
        // A seek before the beginning of a file that was cut.
        Error::Io { errno, .. } => *errno == Errno::EINVAL,
        _ => false,
    };
    match is_vague {
        true => (0..=keyspaces)
            .find_map(|number| damaged(folder, number))
            .unwrap_or(error),
        false => error,
    }
}

/// The first table of a keyspace that cannot be opened.
fn damaged(folder: &Path, keyspace: usize) -> Option<Error> {
    let tables = format!("keyspaces/{keyspace}/tables");
    let mut names: Vec<_> = fs::read_dir(folder.join(&tables))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names.iter().find_map(|name| {
        let path = folder.join(&tables).join(name);
        let shown = format!("{FOLDER}/{tables}/{name}");
        check(&path, &shown).err()
    })
}

/// Reads the end of a table and its table of contents.
fn check(path: &Path, shown: &str) -> Result<()> {
    let Ok(len) = fs::metadata(path).map(|is| is.len()) else {
        return Err(Error::corrupt(shown, 0, "the table is missing"));
    };
    let end = len.saturating_sub(TRAILER);
    match sfa::Reader::new(path) {
        Ok(_) => Ok(()),
        Err(why) => Err(Error::corrupt(
            shown,
            end,
            format!("the end of the table is damaged ({why:?})"),
        )),
    }
}

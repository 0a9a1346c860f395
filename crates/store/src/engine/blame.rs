//! Which tables keep fjall from opening: it says that something is wrong, and not where.

use super::FOLDER;
use crate::error::Error;
use hearth_backend::Errno;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Behind the number of a table in a list: the kind of its checksum, XXH3.
const XXH3: u8 = 0;

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
        // A folder that cannot be read has another error, which came first.
        files.extend(damaged(folder, number).unwrap_or_default());
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

/// The tables of a keyspace that do not fit the checksums in its list.
fn damaged(folder: &Path, keyspace: usize) -> io::Result<Vec<String>> {
    let keyspace = format!("keyspaces/{keyspace}");
    let current = fs::read(folder.join(&keyspace).join("current"))?;
    let number = current.first_chunk::<8>().copied().unwrap_or_default();
    let list = format!("v{}", u64::from_le_bytes(number));
    let list = fs::read(folder.join(&keyspace).join(list))?;
    let tables = folder.join(&keyspace).join("tables");
    let mut damaged = Vec::new();
    for entry in fs::read_dir(&tables)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(number) = name.parse::<u64>() else {
            continue;
        };
        let fits = checksum(&entry.path()).is_ok_and(|is| has(&list, number, Some(is)));
        // One that is on no list is left over from a write that was cut off.
        if !fits && has(&list, number, None) {
            damaged.push(format!("{FOLDER}/{keyspace}/tables/{name}"));
        }
    }
    damaged.sort();
    Ok(damaged)
}

/// Whether a list has a table, with this checksum.
fn has(list: &[u8], number: u64, checksum: Option<u128>) -> bool {
    let mut wanted = number.to_le_bytes().to_vec();
    wanted.push(XXH3);
    wanted.extend(checksum.iter().flat_map(|checksum| checksum.to_le_bytes()));
    list.windows(wanted.len()).any(|bytes| bytes == wanted)
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

//! Damage in the files of fjall 3.1.13 that it does not look for, or that it does not survive.
//!
//! It makes a new database where its marker is not there, deletes a keyspace whose `current` is not
//! there, and does not compare the list of tables with the checksum that `current` has of it: a
//! flipped bit there shows old values. It trusts the table of contents of a table before it
//! compares that with its checksum, and a flipped bit there can end the process.

use super::FOLDER;
use super::archive::{ArchiveEnd, FieldReader, section};
use crate::error::{Error, Result};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// The kind of a checksum, XXH3.
const XXH3: u8 = 0;

/// A table on the list of a keyspace.
pub(super) struct ListedTable {
    pub(super) number: u64,
    /// XXH3 of the whole file.
    pub(super) checksum: u128,
}

/// Looks at the marker, at the lists of tables and at the tables' contents, before fjall does.
pub(super) fn check(folder: &Path, keyspaces: usize) -> Result<()> {
    check_marker(folder)?;
    let mut damaged = Vec::new();
    // The first keyspace is fjall's own.
    for keyspace in 0..=keyspaces {
        for ListedTable { number, .. } in tables(folder, keyspace)? {
            let path = folder.join(name(keyspace, number));
            // fjall tells of a table that it cannot open.
            if has_whole_contents(&path).is_ok_and(|whole| !whole) {
                damaged.push(shown(keyspace, number));
            }
        }
    }
    if damaged.is_empty() {
        return Ok(());
    }
    let what = "the table of contents of a table does not fit its checksum".to_owned();
    Err(Error::Engine {
        files: damaged,
        what,
    })
}

fn check_marker(folder: &Path) -> Result<()> {
    let marker = folder.join("version");
    let is_there = match fs::metadata(&marker) {
        Ok(is) => is.is_file(),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Error::io("look at", &marker, error));
        }
        Err(_) => false,
    };
    match is_there {
        true => Ok(()),
        false => {
            let file = format!("{FOLDER}/version");
            Err(Error::corrupt(&file, 0, "the engine's marker is missing"))
        }
    }
}

/// The tables of a keyspace by its list, which fits its checksum. A merge may put another list in
/// its place meanwhile, and removes this one then.
pub(super) fn tables(folder: &Path, keyspace: usize) -> Result<Vec<ListedTable>> {
    let (mut current, shown) = read(folder, keyspace, "current")?;
    loop {
        let listed = tables_by(folder, keyspace, (&current, &shown));
        if listed.is_ok() {
            return listed;
        }
        let (now, _) = read(folder, keyspace, "current")?;
        if now == current {
            return listed;
        }
        current = now;
    }
}

/// The tables on the list that `current` names: its number (8), its XXH3 (16), the kind of the
/// checksum (1).
fn tables_by(
    folder: &Path,
    keyspace: usize,
    (current, shown): (&[u8], &str),
) -> Result<Vec<ListedTable>> {
    let mut fields = FieldReader(current);
    let (Some(number), Some(checksum)) = (fields.next(), fields.next()) else {
        let what = "the file of the engine is cut off";
        return Err(Error::corrupt(shown, 0, what));
    };
    let name = format!("v{}", u64::from_le_bytes(number));
    let (list, shown) = read(folder, keyspace, &name)?;
    if xxh3_128(&list) != u128::from_le_bytes(checksum) {
        let what = "the engine's list of tables does not fit its checksum";
        return Err(Error::corrupt(&shown, 0, what));
    }
    listed(&list).ok_or_else(|| {
        let what = "the engine's list of tables has a form that is not known";
        Error::corrupt(&shown, 0, what)
    })
}

/// Reads a file of a keyspace. Returns its bytes, and its path in the directory of the volume.
fn read(folder: &Path, keyspace: usize, name: &str) -> Result<(Vec<u8>, String)> {
    let name = format!("keyspaces/{keyspace}/{name}");
    let path = folder.join(&name);
    let shown = format!("{FOLDER}/{name}");
    match fs::read(&path) {
        Ok(bytes) => Ok((bytes, shown)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::corrupt(&shown, 0, "a file of the engine is missing"))
        }
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

/// What a list names: levels (u8), for each its runs (u8), for each its tables (u32), for each its
/// number (u64), the kind of its checksum (u8), its checksum (u128) and a sequence number (u64).
fn listed(list: &[u8]) -> Option<Vec<ListedTable>> {
    let mut fields = FieldReader(section(list, "tables")?);
    let mut tables = Vec::new();
    let [levels] = fields.next()?;
    for _ in 0..levels {
        let [runs] = fields.next()?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(fields.next()?) {
                let number = u64::from_le_bytes(fields.next()?);
                let [kind] = fields.next()?;
                let checksum = u128::from_le_bytes(fields.next()?);
                let _sequence: [u8; 8] = fields.next()?;
                if kind != XXH3 {
                    return None;
                }
                tables.push(ListedTable { number, checksum });
            }
        }
    }
    Some(tables)
}

/// The path of a table in the folder of the engine.
pub(super) fn name(keyspace: usize, table: u64) -> String {
    format!("keyspaces/{keyspace}/tables/{table}")
}

/// The path of a table in the directory of the volume.
pub(super) fn shown(keyspace: usize, table: u64) -> String {
    format!("{FOLDER}/{}", name(keyspace, table))
}

/// Whether the table of contents of a table fits its checksum. Of what does not end as a table does
/// fjall says what it is.
fn has_whole_contents(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let begins = length.saturating_sub(ArchiveEnd::MOST);
    let mut end = vec![0; (length - begins) as usize];
    file.read_exact_at(&mut end, begins)?;
    let end = ArchiveEnd::new(&end, begins);
    Ok(!end.is_known() || end.contents().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engines;
    use crate::engine::fjall_tables::FjallEngines;
    use crate::kv::Table;

    /// The folder of an engine with one table in its second keyspace, and the name of that.
    fn engine(volume: &Path) -> (std::path::PathBuf, ListedTable) {
        let engines = FjallEngines::new(volume, 1 << 20);
        engines.create().unwrap();
        let engine = engines.open().unwrap();
        let keys: Vec<[u8; 2]> = (0..1000u16).map(u16::to_be_bytes).collect();
        let mut changes = keys.iter().map(|key| (&key[..], Some(&key[..])));
        engine.write_table(Table::Extents, &mut changes).unwrap();
        drop(engine);
        let folder = volume.join(FOLDER);
        let table = tables(&folder, 2).unwrap().pop().unwrap();
        (folder, table)
    }

    #[test]
    fn a_flipped_bit_in_the_contents_of_a_table_is_told_before_the_engine_reads_them() {
        let root = tempfile::tempdir().unwrap();
        let (folder, table) = engine(root.path());
        check(&folder, 2).unwrap();
        let path = folder.join(name(2, table.number));
        let whole = fs::read(&path).unwrap();
        let known = ArchiveEnd::new(&whole, 0).contents().unwrap().len();
        // Contents, their checksum and their place: none of them may be trusted.
        let end = whole.len() - 8;
        let flipped = (end - 8 - 16..end).chain(end - 30 - known..end - 30);
        for at in flipped {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            match check(&folder, 2) {
                Err(Error::Engine { files, .. }) => assert_eq!(files, [shown(2, table.number)]),
                other => panic!("byte {at}: {other:?}"),
            }
        }
        // What nobody reads costs nobody the volume.
        let mut bytes = whole.clone();
        bytes[end] ^= 1;
        fs::write(&path, bytes).unwrap();
        check(&folder, 2).unwrap();
        fs::write(&path, whole).unwrap();
        FjallEngines::new(root.path(), 1 << 20).open().unwrap();
    }

    #[test]
    fn the_list_of_tables_is_read_to_its_end() {
        let root = tempfile::tempdir().unwrap();
        let (folder, table) = engine(root.path());
        let bytes = fs::read(folder.join(name(2, table.number))).unwrap();
        assert_eq!(table.checksum, xxh3_128(&bytes));
        assert_eq!(tables(&folder, 1).unwrap().len(), 0);
        // The first keyspace is the own one of fjall.
        assert!(tables(&folder, 0).is_ok());
    }

    /// Once, a look at an engine whose tables were merged beside it found a list missing.
    #[test]
    fn a_list_that_another_one_replaces_meanwhile_is_not_missing() {
        const ROUNDS: u64 = 2000;
        let root = tempfile::tempdir().unwrap();
        let (folder, table) = engine(root.path());
        let keyspace = folder.join("keyspaces/2");
        let current = fs::read(keyspace.join("current")).unwrap();
        let first = u64::from_le_bytes(current[..8].try_into().unwrap());
        let replaced = || {
            for number in first..first + ROUNDS {
                let [now, next] = [number, number + 1].map(|n| keyspace.join(format!("v{n}")));
                fs::copy(&now, next).unwrap();
                let mut named = current.clone();
                named[..8].copy_from_slice(&(number + 1).to_le_bytes());
                fs::write(keyspace.join("unfinished"), named).unwrap();
                fs::rename(keyspace.join("unfinished"), keyspace.join("current")).unwrap();
                fs::remove_file(now).unwrap();
            }
        };
        std::thread::scope(|scope| {
            let replacing = scope.spawn(replaced);
            while !replacing.is_finished() {
                let listed = tables(&folder, 2).unwrap();
                assert!(listed.iter().map(|listed| listed.number).eq([table.number]));
            }
        });
        // One that is missing for good is.
        fs::remove_file(keyspace.join(format!("v{}", first + ROUNDS))).unwrap();
        assert!(tables(&folder, 2).is_err());
    }
}

//! One flipped bit, a cut or a missing file anywhere in the directory of a store: reads fail with
//! `EIO` and a line that names the file, or the opening does, or nothing is different. What is
//! shown is never an older state, and `fsck` finds what a read has met.
//!
//! `HEARTH_FLIPS` is how many bytes of each file are tried; `all` is all of small files, and many
//! of others.

use super::sample::{Opened, Seen, make, open, passphrase, see, writer};
use hearth::Errno;
use hearth_store::OpenMode;
use hearth_store::disk::simulated::Dice;
use hearth_store::fsck::{self, Segmented};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of each file that are tried in a run of the tests.
const FLIPS: usize = 10;
/// Files up to this many bytes are small, and bytes of a larger one that are tried for `all`.
const SMALL: usize = 8 << 10;
const OF_LARGE: usize = 2000;

type All = BTreeMap<Vec<u8>, Seen>;

/// A store, what is in it, and how often damage was told.
struct Site {
    root: tempfile::TempDir,
    encrypted: bool,
    expected: All,
    refused: u64,
    failed: u64,
    harmless: u64,
}

impl Site {
    fn new(encrypted: bool) -> Site {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        fs::create_dir(&dir).unwrap();
        make(&dir, encrypted);
        let opened = open(&dir, OpenMode::ReadOnly, encrypted).unwrap();
        let expected = see(&opened.volume);
        assert!(expected.values().all(|seen| seen.bytes.is_ok()));
        Site {
            root,
            encrypted,
            expected,
            refused: 0,
            failed: 0,
            harmless: 0,
        }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// Files of the store, without the journals of the engine, which count for nothing.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut left = vec![self.dir()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => left.push(path),
                    false if path.extension().is_some_and(|kind| kind == "jnl") => {}
                    false => files.push(path),
                }
            }
        }
        files.sort();
        files
    }

    /// Looks at the store with `file` damaged, for reading, and sometimes for writing.
    fn check(&mut self, file: &Path, bytes: Option<&[u8]>, writes: bool) -> Result<(), String> {
        let whole = fs::read(file).unwrap();
        match bytes {
            Some(bytes) => fs::write(file, bytes).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
        let read = self.check_reading(file);
        let wrote = match writes {
            true => self.check_writing(),
            false => Ok(()),
        };
        fs::write(file, whole).unwrap();
        read.and(wrote)
    }

    fn check_reading(&mut self, file: &Path) -> Result<(), String> {
        let opened = match open(&self.dir(), OpenMode::ReadOnly, self.encrypted) {
            Ok(opened) => opened,
            Err(why) => {
                self.refused += 1;
                return names_a_file(&why);
            }
        };
        let seen = see(&opened.volume);
        let is_told = opened.store.kv().damage().is_some();
        let failed = match is_told {
            // Before a gap an older state is shown, and called so.
            true => Vec::new(),
            false => self.compare(&seen)?,
        };
        match () {
            () if is_told => self.refused += 1,
            () if failed.is_empty() => self.harmless += 1,
            () => self.failed += 1,
        }
        if is_told || !failed.is_empty() {
            self.check_told(file, &opened, is_told, &failed)?;
        }
        Ok(())
    }

    /// The paths that could not be read; everything else is as it should be.
    fn compare(&self, seen: &All) -> Result<Vec<Vec<u8>>, String> {
        let mut failed = Vec::new();
        for (path, seen) in seen {
            let name = String::from_utf8_lossy(path);
            let expected = self.expected.get(path);
            let expected = expected.ok_or_else(|| format!("{name} was gone"))?;
            let same = |right: bool, errno: Option<&Errno>, what| match errno {
                Some(&Errno::EIO) => Ok(true),
                None if right => Ok(false),
                other => Err(format!("{what} of {name}: {other:?}")),
            };
            let attrs = same(
                seen.attrs == expected.attrs,
                seen.attrs.as_ref().err(),
                "attributes",
            )?;
            let bytes = same(
                seen.bytes == expected.bytes,
                seen.bytes.as_ref().err(),
                "contents",
            )?;
            if attrs || bytes {
                failed.push(path.clone());
            }
        }
        for path in self
            .expected
            .keys()
            .filter(|path| !seen.contains_key(*path))
        {
            let above = path
                .iter()
                .rposition(|byte| *byte == b'/')
                .unwrap_or(0)
                .max(1);
            // Its directory cannot be listed, or is missing itself.
            let is_hidden = seen
                .get(&path[..above])
                .is_none_or(|dir| dir.bytes.is_err());
            if !is_hidden {
                return Err(format!("{} is missing", String::from_utf8_lossy(path)));
            }
        }
        Ok(failed)
    }

    /// What was met was told, and `fsck` finds it.
    fn check_told(
        &self,
        file: &Path,
        opened: &Opened,
        is_told: bool,
        failed: &[Vec<u8>],
    ) -> Result<(), String> {
        let name = file.strip_prefix(self.dir()).unwrap();
        let top = name.iter().next().unwrap().to_string_lossy().into_owned();
        let shown = match &top[..] {
            "segments" => name.display().to_string(),
            _ => top,
        };
        let lines = opened.lines.lock().unwrap().clone();
        if !is_told && !lines.iter().any(|line| line.contains(&shown)) {
            return Err(format!("no line names {shown}: {lines:?}"));
        }
        let files = |path: &&Vec<u8>| self.expected[*path].bytes.is_ok();
        if shown.starts_with("segments") && failed.iter().filter(files).count() > 6 {
            return Err(format!("a segment takes others along: {failed:?}"));
        }
        let passphrase = self.encrypted.then(passphrase);
        let segments = Segmented::open(&self.dir(), passphrase.as_ref());
        let segments = segments.map_err(|error| format!("fsck: {error}"))?;
        let options = fsck::Options { data: true };
        let kv = opened.store.kv();
        let report = fsck::check(kv, &segments, options, &mut |_| {});
        let mut report = report.map_err(|error| format!("fsck: {error}"))?;
        if let Some(damage) = kv.damage() {
            report.add_damage(&damage);
        }
        match report.is_clean() {
            true => Err(format!(
                "fsck finds nothing, and {} cannot be read",
                failed.len()
            )),
            false => Ok(()),
        }
    }

    /// An opening for writing refuses, or shows everything or an error.
    fn check_writing(&self) -> Result<(), String> {
        let copy = self.root.path().join("copy");
        let _ = fs::remove_dir_all(&copy);
        copy_tree(&self.dir(), &copy);
        match open(&copy, writer(), self.encrypted) {
            Err(why) => names_a_file(&why),
            Ok(opened) => {
                let compared = self.compare(&see(&opened.volume));
                opened.volume.abandon();
                compared
                    .map(drop)
                    .map_err(|why| format!("opened for writing: {why}"))
            }
        }
    }
}

/// A refusal says in which file, and where or which epochs.
fn names_a_file(why: &str) -> Result<(), String> {
    let files = ["superblock", "witness", "log/", "engine", "segments/"];
    let is_named = files.iter().any(|file| why.contains(file));
    let is_placed = why.contains(", byte ") || why.contains("epoch") || why.contains("no volume");
    // A file of the engine is damaged as a whole, and of one that is missing nothing is left.
    let is_placed =
        is_placed || why.contains("engine/") || why.contains("files of the engine are missing");
    // Of a key that cannot be decoded the key is the place.
    match (is_named && is_placed) || why.contains("format version") || why.contains("unknown ") {
        true => Ok(()),
        false => Err(format!("a refusal that names nothing: {why}")),
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_tree(&entry.path(), &to),
            false if to.extension().is_some_and(|kind| kind == "jnl") => fs::write(to, "").unwrap(),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The bytes of a file that are tried: half of them are not zero.
fn places(bytes: &[u8], dice: &mut Dice) -> Vec<usize> {
    let flips = match std::env::var("HEARTH_FLIPS").as_deref() {
        Ok("all") if bytes.len() <= SMALL => bytes.len(),
        Ok("all") => OF_LARGE,
        Ok(text) => text.parse().expect("HEARTH_FLIPS is a number or `all`"),
        Err(_) => FLIPS,
    };
    if flips >= bytes.len() {
        return (0..bytes.len()).collect();
    }
    let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    let mut place = |number: usize| match number.is_multiple_of(2) && !used.is_empty() {
        true => used[dice.below(used.len() as u64) as usize],
        false => dice.below(bytes.len() as u64) as usize,
    };
    (0..flips).map(&mut place).collect()
}

fn flip_all(encrypted: bool) {
    let seed = std::env::var("HEARTH_SEED").map_or(1, |text| text.parse().unwrap());
    let mut dice = Dice(seed);
    let mut site = Site::new(encrypted);
    let mut wrong = Vec::new();
    for file in site.files() {
        let bytes = fs::read(&file).unwrap();
        for at in places(&bytes, &mut dice) {
            let bit = 1 << dice.below(8);
            let mut flipped = bytes.clone();
            flipped[at] ^= bit;
            let writes = dice.below(6) == 0;
            if let Err(why) = site.check(&file, Some(&flipped), writes) {
                wrong.push(format!("{}, byte {at}, bit {bit}: {why}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "HEARTH_SEED={seed}\n{}", wrong.join("\n"));
    let (refused, failed, harmless) = (site.refused, site.failed, site.harmless);
    println!("{refused} refused, {failed} with EIO, {harmless} without effect");
    assert!(
        refused > 10 && failed > 10,
        "{refused} refused, {failed} with EIO"
    );
}

#[test]
fn one_flipped_bit_is_told_by_name_or_has_no_effect() {
    flip_all(false);
}

#[test]
fn one_flipped_bit_of_an_encrypted_store_is_told_by_name_or_has_no_effect() {
    flip_all(true);
}

/// Once, a check did not read the filters of tables, which every look at one key does.
#[test]
fn a_flipped_bit_behind_the_values_of_a_table_is_found_by_a_check() {
    const LAST: usize = 8 << 10;
    const EACH: usize = 29;
    let mut site = Site::new(false);
    let tables = |file: &PathBuf| file.parent().is_some_and(|dir| dir.ends_with("tables"));
    let mut wrong = Vec::new();
    for file in site.files().into_iter().filter(tables) {
        let bytes = fs::read(&file).unwrap();
        for at in (bytes.len().saturating_sub(LAST)..bytes.len()).step_by(EACH) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            if let Err(why) = site.check(&file, Some(&flipped), false) {
                wrong.push(format!("{}, byte {at}: {why}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(site.failed > 0, "no look met one");
}

#[test]
fn a_file_that_is_missing_cut_or_zeroed_is_told_by_name_or_has_no_effect() {
    let mut site = Site::new(false);
    let mut wrong = Vec::new();
    for file in site.files() {
        let bytes = fs::read(&file).unwrap();
        let half = &bytes[..bytes.len() / 2];
        let zeros = vec![0; bytes.len()];
        let changes = [
            ("missing", None),
            ("empty", Some(&[][..])),
            ("cut", Some(half)),
            ("zeros", Some(&zeros[..])),
        ];
        for (what, changed) in changes {
            if let Err(why) = site.check(&file, changed, true) {
                wrong.push(format!("{}, {what}: {why}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

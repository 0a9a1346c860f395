//! A mail spool: write, fsync, rename, and only then say that the message is taken.

use super::Workload;
use crate::random::Random;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// Its bytes were synced, under the name it had then; it was renamed since.
    Written,
    /// The directory of its last name was synced as well.
    Delivered,
    /// It was removed and the directory synced.
    Removed,
    /// Its removal began.
    Leaving,
}

/// Messages by their number. Their bytes follow from seed and number.
pub struct Spool {
    seed: u64,
    next: u64,
    said: BTreeMap<u64, Word>,
    acknowledged: u64,
}

impl Spool {
    /// A spool that nobody has delivered to.
    pub fn new(seed: u64) -> Spool {
        Spool {
            seed,
            next: 0,
            said: BTreeMap::new(),
            acknowledged: 0,
        }
    }

    /// Up to 16 KiB, each 16th up to 200 KiB; number and hash in front.
    fn message(&self, number: u64) -> Vec<u8> {
        let mut random = Random(self.seed ^ (number << 20));
        let most = if number.is_multiple_of(16) {
            200 << 10
        } else {
            16 << 10
        };
        let length = random.below(most);
        let body = random.bytes(length as usize);
        let mut message = format!("{number} {:016x}\n", hash(&body)).into_bytes();
        message.extend(body);
        message
    }

    fn deliver(&mut self, at: &Path, number: u64) -> io::Result<()> {
        let (temporary, last) = (at.join("tmp").join(name(number)), at.join("new"));
        let mut file = File::create(&temporary)?;
        for part in self.message(number).chunks(7_000) {
            file.write_all(part)?;
        }
        match number % 3 {
            0 => file.sync_data()?,
            _ => file.sync_all()?,
        }
        self.said.insert(number, Word::Written);
        fs::rename(&temporary, last.join(name(number)))?;
        if number.is_multiple_of(2) {
            File::open(last)?.sync_all()?;
            self.said.insert(number, Word::Delivered);
        }
        self.acknowledged += 1;
        Ok(())
    }

    /// Removes an older message that was delivered.
    fn remove(&mut self, at: &Path, number: u64) -> io::Result<()> {
        if self.said.get(&number) != Some(&Word::Delivered) {
            return Ok(());
        }
        let last = at.join("new");
        self.said.insert(number, Word::Leaving);
        fs::remove_file(last.join(name(number)))?;
        File::open(last)?.sync_all()?;
        self.said.insert(number, Word::Removed);
        Ok(())
    }

    fn run(&mut self, at: &Path, end: &AtomicBool) -> io::Result<()> {
        for name in ["tmp", "new"] {
            match fs::create_dir(at.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => (),
            }
        }
        for dir in [at, at.parent().unwrap_or(at)] {
            File::open(dir)?.sync_all()?;
        }
        while !end.load(Ordering::Relaxed) {
            let number = self.next;
            // Never used again, so that nothing is taken for something else.
            self.next += 1;
            self.deliver(at, number)?;
            if number % 5 == 4 {
                self.remove(at, number - 4)?;
            }
        }
        Ok(())
    }
}

impl Workload for Spool {
    fn name(&self) -> &'static str {
        "spool"
    }

    fn work(&mut self, at: &Path, end: &AtomicBool) {
        // The failure of the service is what ends it.
        let _ = self.run(at, end);
    }

    fn check(&mut self, at: &Path) -> Result<(), String> {
        if self.said.is_empty() {
            return Ok(());
        }
        let read = |dir: &str, number| match fs::read(at.join(dir).join(name(number))) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{dir}/{}: {error}", name(number))),
        };
        for (&number, &word) in &self.said {
            let (tmp, new) = (read("tmp", number)?, read("new", number)?);
            let shown = format!("message {number}, {word:?}");
            if tmp.is_some() && new.is_some() {
                return Err(format!("{shown}: has both names"));
            }
            let is_there = match word {
                Word::Delivered => new.is_some(),
                Word::Written => tmp.is_some() || new.is_some(),
                Word::Removed => tmp.is_none() && new.is_none(),
                Word::Leaving => true,
            };
            if !is_there {
                return Err(format!(
                    "{shown}: tmp {}, new {}",
                    tmp.is_some(),
                    new.is_some()
                ));
            }
            let bytes = new.or(tmp);
            if bytes.is_some_and(|bytes| bytes != self.message(number)) {
                return Err(format!("{shown}: other bytes"));
            }
        }
        // Names that nobody was told of: a whole prefix of the message, and no other.
        for dir in ["tmp", "new"] {
            let names = fs::read_dir(at.join(dir)).map_err(|error| format!("{dir}: {error}"))?;
            for entry in names.flatten() {
                let found = entry.file_name().to_string_lossy().parse::<u64>();
                let known = found.as_ref().is_ok_and(|&number| number < self.next);
                if !known {
                    return Err(format!("{dir}/{:?}: nobody made it", entry.file_name()));
                }
            }
        }
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}

fn name(number: u64) -> String {
    format!("{number:08}")
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

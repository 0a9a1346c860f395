//! Keys and values that are kept in the state directory, and hold meanwhile: a file of lines, the
//! last of which counts for a key. Each change appends one.

use super::state_dir::QuotaDir;
use crate::error::OpenError;
use crate::say::say_aside;
use hearth::{Errno, KeepError};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::str::FromStr;

// The ledger is locked when a setting is kept.
lock_class!(LinesLock = "host.lines", 987);

/// Keys and values of one file.
#[derive(Debug)]
pub struct Lines<V> {
    directory: QuotaDir,
    name: &'static str,
    now: Lock<LinesLock, Now<V>>,
}

#[derive(Debug)]
struct Now<V> {
    /// What holds.
    values: HashMap<Box<str>, V>,
    /// At its end. It says what holds, unless `is_behind`.
    file: File,
    /// Something could not be written, and holds all the same.
    is_behind: bool,
    /// The log has been told since a line was written.
    is_told: bool,
}

impl<V: Display + FromStr + PartialEq + Clone> Lines<V> {
    /// Reads a file of the state directory, and leaves each key in it once. A value that is none is
    /// left out.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(directory: &QuotaDir, name: &'static str) -> Result<Lines<V>, OpenError> {
        let kept = directory.read(name)?;
        let kept = kept.into_iter().filter_map(|(key, value)| {
            let value = value.parse().ok()?;
            Some((key.into_boxed_str(), value))
        });
        let values: HashMap<Box<str>, V> = kept.collect();
        let file = directory.rewritten(name, text(&values).as_bytes());
        let file = file.map_err(|error| directory.failed(name, error))?;
        Ok(Lines {
            directory: directory.clone(),
            name,
            now: Lock::new(Now {
                values,
                file,
                is_behind: false,
                is_told: false,
            }),
        })
    }

    /// Whether nothing holds.
    pub fn is_empty(&self) -> bool {
        self.now.lock().values.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<V> {
        self.now.lock().values.get(key).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<(Box<str>, V)> {
        let now = self.now.lock();
        let values = now.values.iter();
        values
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Sets the value of a key, or takes it away.
    ///
    /// # Errors
    /// It cannot be kept, and nothing has changed.
    pub fn set(&self, key: &str, value: Option<V>) -> Result<(), KeepError> {
        let mut now = self.now.lock();
        self.keep(&mut now, key, value.as_ref())?;
        now.put(key, value);
        Ok(())
    }

    /// Sets the value of a key where nobody can be refused.
    ///
    /// # Errors
    /// It cannot be kept, and holds until the unmount; for longer if it can be kept then.
    pub fn hold(&self, key: &str, value: Option<V>) -> Result<(), KeepError> {
        let mut now = self.now.lock();
        let kept = self.keep(&mut now, key, value.as_ref());
        now.is_behind |= kept.is_err();
        now.put(key, value);
        kept
    }

    /// Makes durable what holds. Writes all of it if some could not be written before.
    ///
    /// # Errors
    /// Those of the filesystem of the directory.
    pub fn sync(&self) -> io::Result<()> {
        let mut now = self.now.lock();
        if now.is_behind {
            now.file = self
                .directory
                .rewritten(self.name, text(&now.values).as_bytes())?;
            now.is_behind = false;
        }
        now.file.sync_all()
    }

    fn keep(&self, now: &mut Now<V>, key: &str, value: Option<&V>) -> Result<(), KeepError> {
        // What is behind may lack the very line.
        if now.values.get(key) == value && !now.is_behind {
            return Ok(());
        }
        let Err(error) = append(&mut now.file, &line(key, value)) else {
            now.is_told = false;
            return Ok(());
        };
        let (place, name) = (self.directory.path(), self.name);
        if !std::mem::replace(&mut now.is_told, true) {
            say_aside(format!(
                "quota {name} cannot be kept in {}: {error}; who sets them is refused, and what \
                 changes by itself holds until the unmount",
                place.display()
            ));
        }
        Err(KeepError {
            place: place.to_owned(),
            errno: Errno(error.raw_os_error().unwrap_or(libc::EIO)),
        })
    }
}

impl<V> Now<V> {
    fn put(&mut self, key: &str, value: Option<V>) {
        match value {
            Some(value) => drop(self.values.insert(key.into(), value)),
            None => drop(self.values.remove(key)),
        }
    }
}

/// All of a line, or none of it: what a full disk has left of one would be the beginning of the
/// next.
fn append(file: &mut File, line: &str) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(line.as_bytes());
    if written.is_err() {
        let _ = file.set_len(before);
    }
    written
}

fn text<V: Display>(values: &HashMap<Box<str>, V>) -> String {
    let lines = values.iter().map(|(key, value)| line(key, Some(value)));
    lines.collect()
}

fn line<V: Display>(key: &str, value: Option<&V>) -> String {
    match value {
        Some(value) => format!("{key}\t{value}\n"),
        None => format!("{key}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// A directory with room for four pages, of which three are taken.
    struct Full(PathBuf);

    impl Full {
        fn new(name: &str) -> Full {
            let name = format!("hearth-quota-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=16k", "hearth-test"]);
            assert!(mount.arg(&path).status().unwrap().success());
            std::fs::write(path.join("ballast"), vec![b'x'; 3 * 4096]).unwrap();
            Full(path)
        }

        fn lines(&self) -> Lines<String> {
            Lines::open(&QuotaDir::open(&self.0).unwrap(), "projects").unwrap()
        }

        fn make_room(&self) {
            std::fs::remove_file(self.0.join("ballast")).unwrap();
        }
    }

    impl Drop for Full {
        fn drop(&mut self) {
            let umount = |path: &Path| Command::new("umount").arg(path).status();
            assert!(umount(&self.0).unwrap().success());
            std::fs::remove_dir(&self.0).unwrap();
        }
    }

    fn all(lines: &Lines<String>) -> Vec<(Box<str>, String)> {
        let mut all = lines.all();
        all.sort_by_key(|(key, _)| key.len());
        all
    }

    fn some(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    /// Once, the next line went on where the cut one ended, and both were another key.
    #[test]
    fn a_line_that_a_full_disk_cuts_is_refused_and_leaves_the_lines_around_it() {
        let full = Full::new("cut");
        let lines = full.lines();
        let long = "k".repeat(4000);
        lines.set(&long, some("1")).unwrap();
        let cut = lines.set(&"c".repeat(200), some("2")).unwrap_err();
        assert_eq!((cut.errno, &cut.place), (Errno::ENOSPC, &full.0));
        lines.set("after", some("3")).unwrap();
        let expected = [
            ("after".into(), "3".to_owned()),
            (long.into(), "1".to_owned()),
        ];
        assert_eq!(all(&lines), expected);
        drop(lines);
        full.make_room();
        assert_eq!(all(&full.lines()), expected);
    }

    /// Once, what could not be written was lost at a clean end as well, where there was room again.
    #[test]
    fn what_holds_without_a_line_is_written_when_there_is_room_again() {
        let full = Full::new("held");
        let lines = full.lines();
        lines.set(&"k".repeat(4000), some("1")).unwrap();
        let held = "h".repeat(200);
        assert_eq!(
            lines.hold(&held, some("2")).unwrap_err().errno,
            Errno::ENOSPC
        );
        assert_eq!(lines.get(&held), some("2"));
        // It holds; whoever asks for it to be kept is not told that it is.
        assert!(lines.set(&held, some("2")).is_err());
        assert!(lines.sync().is_err());
        full.make_room();
        lines.sync().unwrap();
        lines.set("after", some("3")).unwrap();
        drop(lines);
        let expected = [
            ("after".into(), "3".to_owned()),
            (held.into(), "2".to_owned()),
            ("k".repeat(4000).into(), "1".to_owned()),
        ];
        assert_eq!(all(&full.lines()), expected);
    }
}

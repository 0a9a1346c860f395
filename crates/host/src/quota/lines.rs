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

/// What a file of lines may have in it.
pub struct Form<V> {
    /// Its name.
    pub name: &'static str,
    /// Whether a key may have this value, or be taken away.
    pub is_whole: fn(&str, Option<&V>) -> bool,
    /// What takes the place of a line that is taken out by hand.
    pub remedy: &'static str,
}

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
    /// Reads a file of the state directory, and leaves each key in it once.
    ///
    /// # Errors
    /// Why it cannot be used. A line that cannot be understood leaves the file as it is: without it
    /// a limit or a project would be gone, and nobody would know.
    pub fn open(directory: &QuotaDir, form: &Form<V>) -> Result<Lines<V>, OpenError> {
        let name = form.name;
        let text = directory.read(name)?;
        let mut values: HashMap<Box<str>, V> = HashMap::new();
        let numbered = (1..).zip(text.split('\n'));
        for (number, line) in numbered.filter(|(_, line)| !line.is_empty()) {
            let Some((key, value)) = form.understood(line) else {
                return Err(OpenError::DamagedLine {
                    path: directory.path().join(name),
                    number,
                    remedy: form.remedy,
                });
            };
            match value {
                Some(value) => drop(values.insert(key.into(), value)),
                None => drop(values.remove(key)),
            }
        }
        let file = directory.rewritten(name, all_lines(&values).as_bytes());
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
                .rewritten(self.name, all_lines(&now.values).as_bytes())?;
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

impl<V: FromStr> Form<V> {
    /// Key and value of a line, no value where the key is taken away.
    fn understood<'l>(&self, line: &'l str) -> Option<(&'l str, Option<V>)> {
        let (key, value) = match line.split_once('\t') {
            Some((key, value)) => (key, Some(value.parse().ok()?)),
            None => (line, None),
        };
        (self.is_whole)(key, value.as_ref()).then_some((key, value))
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

fn all_lines<V: Display>(values: &HashMap<Box<str>, V>) -> String {
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
    use crate::quota::projects::PROJECTS;
    use crate::quota::serve::SETTINGS;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const FORM: Form<String> = Form {
        name: "projects",
        is_whole: |_, _| true,
        remedy: "",
    };

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
            Lines::open(&QuotaDir::open(&self.0).unwrap(), &FORM).unwrap()
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

    /// Reads lines from a directory of its own; says what is in the file after it, too.
    fn opened<V>(form: &Form<V>, text: &[u8]) -> (Result<usize, OpenError>, Vec<u8>)
    where
        V: Display + FromStr + PartialEq + Clone,
    {
        let name = format!("hearth-quota-{}-{}", form.name, std::process::id());
        let at = std::env::temp_dir().join(name);
        std::fs::create_dir(&at).unwrap();
        std::fs::write(at.join(form.name), text).unwrap();
        let lines = QuotaDir::open(&at).and_then(|directory| Lines::open(&directory, form));
        let after = std::fs::read(at.join(form.name)).unwrap();
        std::fs::remove_dir_all(&at).unwrap();
        (lines.map(|lines| lines.all().len()), after)
    }

    /// The middle one of three lines is damaged: the directory is refused, and the file stays.
    #[track_caller]
    fn refused<V>(form: &Form<V>, good: &str, damaged: &[u8])
    where
        V: Display + FromStr + PartialEq + Clone,
    {
        let good = good.as_bytes();
        let text = [good, b"\n", damaged, b"\n", good, b"\n"].concat();
        let (opened, after) = opened(form, &text);
        let shown = String::from_utf8_lossy(damaged).into_owned();
        let why = opened.expect_err(&shown).to_string();
        assert!(why.contains(&format!("/{}:2: ", form.name)), "{why}");
        assert!(why.contains(form.remedy), "{why}");
        assert_eq!(after, text, "{shown}");
    }

    /// Once, the limit or the project was gone without a word, and soon from the file.
    #[test]
    fn a_damaged_line_is_named_and_nothing_is_rewritten() {
        let good = "quota/id/user:7\t1 bytes=4096:-";
        for damaged in [
            &b"quota/id/user:1\t1 bytes=62x1456:-"[..],
            b"quota/id/user:1\t1 bytxs=621456:-",
            b"quota/id/usfr:1\t1 bytes=621456:-",
            b"quota/id/user:1\t1 bytes=621456:-\xff",
            b"quota/id/user:1 1 bytes=621456:-",
            b"\0\0\0\0",
        ] {
            refused(&SETTINGS, good, damaged);
        }
        let good = "2:h1.00af0000\t7";
        for damaged in [
            &b"3:h1.00af0000\t7x"[..],
            b"3:h1.00ag0000\t7",
            b"3:h1.00\xff\t7",
            b"x3:h1.00\t7",
            b"3:t1.y\t7",
            b"3:h1.00af0000:\t7",
            b"3:h1.00af0000 7",
        ] {
            refused(&PROJECTS, good, damaged);
        }
    }

    #[test]
    fn a_line_that_a_power_cut_has_torn_is_left_out() {
        let text = "quota/id/user:7\t1 bytes=4096:-\nquota/kind/user\nquota/grace/user:7\t1 inod";
        for end in ["", "\0\0\0"] {
            let (opened, after) = opened(&SETTINGS, format!("{text}{end}").as_bytes());
            assert_eq!(opened.unwrap(), 1);
            assert_eq!(after, b"quota/id/user:7\t1 bytes=4096:-\n");
        }
        let text = "2:h1.00\t7\n3:t-5.1:64769\t8\n2:h1.00\n4:t1";
        let (opened, after) = opened(&PROJECTS, text.as_bytes());
        assert_eq!(opened.unwrap(), 1);
        assert_eq!(after, b"3:t-5.1:64769\t8\n");
    }
}

//! Keys and values that are kept in the state directory, and hold meanwhile: a file of lines, the
//! last of which counts for a key. Each change appends one.
//!
//! Whoever sets something is told so once its line is on the disk ([`Lines::make_durable`]). An
//! empty line says that all before it was, when it was written. So of what a power cut leaves, NUL
//! bytes behind the last empty line are lines that nobody was told of: they were in blocks that the
//! disk had not, before others that it had. Elsewhere they are damage.
//!
//! Lock order:
//! ```text
//! host.lines-sync      one thread waits for the disk, the others for it
//!   host.lines         what holds
//! ```

use super::state_dir::QuotaDir;
use crate::error::OpenError;
use crate::say::say_aside;
use hearth::{Errno, KeepError};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::{Arc, thread};
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::str::FromStr;

// The ledger is locked when a setting is kept.
lock_class!(LinesLock = "host.lines", 987);
// Nothing else is locked when somebody waits for the disk.
lock_class!(SyncLock = "host.lines-sync", 816);

/// What a file of lines may have in it.
pub struct Form<V> {
    /// Its name.
    pub name: &'static str,
    /// Whether a key may have this value, or be taken away.
    pub is_whole: fn(&str, Option<&V>) -> bool,
    /// What takes the place of a line that is taken out by hand.
    pub remedy: &'static str,
}

/// How many outdated lines a file may have, beside two for each key, before it is written anew. A
/// key that changes all the time, as the end of a grace period does for a user about a soft limit,
/// would fill the disk otherwise.
const OLD_LINES: u64 = 16 << 10;

/// Keys and values of one file. A clone shares them.
#[derive(Clone, Debug)]
pub struct Lines<V> {
    directory: QuotaDir,
    name: &'static str,
    now: Arc<Lock<LinesLock, Now<V>>>,
    /// Held by the thread that waits for the disk.
    syncing: Arc<Lock<SyncLock, ()>>,
}

#[derive(Debug)]
struct Now<V> {
    /// What holds.
    values: HashMap<Box<str>, V>,
    /// At its end. It says what holds, unless `is_behind`.
    file: File,
    /// Lines that were appended; of these, those that are on the disk, those before the last empty
    /// line, and those up to the last one that somebody has set.
    appended: u64,
    durable: u64,
    marked: u64,
    owed: u64,
    /// `appended` when the file was last begun anew.
    anew: u64,
    /// Something could not be written, and holds all the same.
    is_behind: bool,
    /// See [`Lines::end`].
    is_over: bool,
    /// While the file is written anew: the lines of what has changed since its text was taken.
    since: Option<String>,
    /// The log has been told since a line was written.
    is_told: bool,
}

impl<V: Display + FromStr + PartialEq + Clone + Send + 'static> Lines<V> {
    /// Reads a file of the state directory, and leaves each key in it once.
    ///
    /// # Errors
    /// Why it cannot be used. A line that cannot be understood leaves the file as it is: without it
    /// a limit or a project would be gone, and nobody would know.
    pub fn open(directory: &QuotaDir, form: &Form<V>) -> Result<Lines<V>, OpenError> {
        let name = form.name;
        let text = directory.read(name)?;
        let mut values: HashMap<Box<str>, V> = HashMap::new();
        let durable = durable(&text);
        let (mut end, mut torn) = (0, 0_u64);
        for (number, line) in (1..).zip(text.split('\n')) {
            end += line.len() + 1;
            if line.is_empty() {
                continue;
            }
            if end > durable && line.contains('\0') {
                torn += 1;
                continue;
            }
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
        if torn > 0 {
            say_aside(format!(
                "quota {name} in {}: a power cut has torn what was being written last; nobody was \
                 told that it is kept",
                directory.path().display()
            ));
        }
        Ok(Lines {
            directory: directory.clone(),
            name,
            now: Arc::new(Lock::new(Now {
                values,
                file,
                appended: 0,
                durable: 0,
                marked: 0,
                owed: 0,
                anew: 0,
                is_behind: false,
                is_over: false,
                since: None,
                is_told: false,
            })),
            syncing: Arc::default(),
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
        now.owed = now.appended;
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

    /// Makes durable what holds, before the directory may be another one's: from then on no thread
    /// writes the file anew. Writes all of it if some could not be written before.
    ///
    /// # Errors
    /// Those of the filesystem of the directory.
    pub fn end(&self) -> io::Result<()> {
        let _alone = self.syncing.lock();
        self.now.lock().is_over = true;
        self.sync_alone(File::sync_all)
    }

    /// Waits until what was [`Lines::set`] is on the disk. Whoever sets something meanwhile does
    /// not wait.
    ///
    /// # Errors
    /// Those of the filesystem of the directory. What was set holds, and is written whole later.
    pub fn make_durable(&self) -> io::Result<()> {
        self.wait_while(|now| now.durable < now.owed)
    }

    /// [`Lines::make_durable`], also of what holds without having been set.
    ///
    /// # Errors
    /// As [`Lines::make_durable`].
    pub fn make_all_durable(&self) -> io::Result<()> {
        self.wait_while(|now| now.durable < now.appended)
    }

    fn wait_while(&self, is_owed: impl Fn(&Now<V>) -> bool) -> io::Result<()> {
        if !is_owed(&self.now.lock()) {
            return Ok(());
        }
        let _alone = self.syncing.lock();
        if !is_owed(&self.now.lock()) {
            return Ok(());
        }
        self.sync_alone(File::sync_data)
    }

    /// Has the disk take what is in the file by `how`, and before that what is not. Nobody else
    /// does meanwhile. What holds is not locked while the disk works: who asks for it is in the
    /// middle of a charge.
    fn sync_alone(&self, how: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let done = self.write_behind().and_then(|()| {
            let (file, appended) = {
                let now = self.now.lock();
                (now.file.try_clone()?, now.appended)
            };
            how(&file)?;
            let mut now = self.now.lock();
            now.durable = now.durable.max(appended);
            Ok(())
        });
        done.inspect_err(|error| {
            let mut now = self.now.lock();
            // The kernel may take what it could not write for written.
            now.is_behind = true;
            self.tell(&mut now, error);
        })
    }

    /// Writes all that holds anew if some of it could not be written.
    fn write_behind(&self) -> io::Result<()> {
        match self.begin_anew(|now| now.is_behind) {
            Some(text) => self.end_anew(self.directory.rewritten(self.name, text.as_bytes())),
            None => Ok(()),
        }
    }

    /// Has a file of many old lines written anew by a thread of its own: the caller has locks.
    fn shorten_aside(&self) {
        let lines = self.clone();
        let thread = thread::Builder::new().name("hearth-lines".into());
        // Without a thread it is tried again when it is longer.
        let _ = thread.spawn(move || lines.shorten());
    }

    fn shorten(&self) {
        let _alone = self.syncing.lock();
        if let Some(text) = self.begin_anew(|now| !now.is_over) {
            // If that fails it is behind, and the next who waits for the disk writes it.
            let written = self.directory.rewritten(self.name, text.as_bytes());
            let _ = self.end_anew(written);
        }
    }

    /// What is to be written anew, if it `is_due`. What changes from now on is noted.
    fn begin_anew(&self, is_due: impl Fn(&Now<V>) -> bool) -> Option<String> {
        let mut now = self.now.lock();
        if !is_due(&now) {
            return None;
        }
        now.since = Some(String::new());
        now.anew = now.appended;
        Some(all_lines(&now.values))
    }

    /// Takes the new file, with what has changed meanwhile at its end.
    fn end_anew(&self, written: io::Result<File>) -> io::Result<()> {
        let mut now = self.now.lock();
        let since = now.since.take().unwrap_or_default();
        // An error may come behind the rename: then the file that is open has no name any more.
        now.file = written.inspect_err(|_| now.is_behind = true)?;
        (now.durable, now.marked) = (now.anew, now.anew);
        let appended = append(&mut now.file, &since);
        now.is_behind = appended.is_err();
        appended
    }

    fn keep(&self, now: &mut Now<V>, key: &str, value: Option<&V>) -> Result<(), KeepError> {
        // What is behind may lack the very line.
        if now.values.get(key) == value && !now.is_behind {
            return Ok(());
        }
        let is_marked = now.durable == now.appended && now.marked < now.appended;
        let mark = if is_marked { "\n" } else { "" };
        let Err(error) = append(&mut now.file, &format!("{mark}{}", line(key, value))) else {
            if is_marked {
                now.marked = now.appended;
            }
            now.appended += 1;
            now.is_told &= now.is_behind;
            if now.is_long() && now.since.is_none() {
                now.anew = now.appended;
                self.shorten_aside();
            }
            return Ok(());
        };
        self.tell(now, &error);
        Err(KeepError {
            place: self.directory.path().to_owned(),
            errno: Errno(error.raw_os_error().unwrap_or(libc::EIO)),
        })
    }

    /// Tells the log, once, that something cannot be kept.
    fn tell(&self, now: &mut Now<V>, error: &io::Error) {
        let (place, name) = (self.directory.path(), self.name);
        if !std::mem::replace(&mut now.is_told, true) {
            say_aside(format!(
                "quota {name} cannot be kept in {}: {error}; who sets them is refused, and what \
                 changes by itself holds until the unmount",
                place.display()
            ));
        }
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

impl<V: Display> Now<V> {
    /// Whether the file has many lines that no longer count.
    fn is_long(&self) -> bool {
        self.appended - self.anew > OLD_LINES + 2 * self.values.len() as u64
    }

    fn put(&mut self, key: &str, value: Option<V>) {
        if let Some(since) = &mut self.since {
            since.push_str(&line(key, value.as_ref()));
        }
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

/// The lines of a new file, with the empty line that says that they are on the disk.
fn all_lines<V: Display>(values: &HashMap<Box<str>, V>) -> String {
    let lines = values.iter().map(|(key, value)| line(key, Some(value)));
    lines.chain(["\n".to_owned()]).collect()
}

/// How much of a file was on the disk for certain when its last empty line was written; all of it
/// where there is none, as older versions wrote it.
fn durable(text: &str) -> usize {
    let last = text.rfind("\n\n").map(|at| at + 2);
    let first = || text.starts_with('\n').then_some(1);
    last.or_else(first).unwrap_or(text.len())
}

fn line<V: Display>(key: &str, value: Option<&V>) -> String {
    match value {
        Some(value) => format!("{key}\t{value}\n"),
        None => format!("{key}\n"),
    }
}

#[cfg(test)]
mod tests;

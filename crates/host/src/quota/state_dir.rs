//! The directory beside in which usage, limits and projects are kept.

use crate::error::OpenError;
use crate::state::make_durably;
use hearth::{Amounts, BLOCK, Owners};
use hearth_sync::primitive::{Arc, thread};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const USAGE: &str = "usage";
const FIRST: &str = "hearth usage 1";
const LAST: &str = "end";

/// How long the end of an earlier daemon is waited for, and how often it is looked at.
const ENDING: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// The directory, which no other daemon uses meanwhile. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct QuotaDir {
    path: PathBuf,
    /// Locked for as long as it is open.
    directory: Arc<File>,
}

/// The process that has a directory locked, where this one sees it.
fn locked_by(directory: &File) -> Option<u32> {
    let stat = directory.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(stat.dev()), rustix::fs::minor(stat.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", stat.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // Number, kind, advisory, write, process, place.
    let mut locks = locks.lines().map(|line| line.split_whitespace());
    locks.find_map(
        |mut words| match (words.nth(1)?, words.nth(2)?, words.next()?) {
            ("FLOCK", process, at) if at == place => process.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        },
    )
}

impl QuotaDir {
    /// Opens or makes it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(path: &Path) -> Result<QuotaDir, OpenError> {
        let failed = |error| state_error(path, error);
        make_durably(path).map_err(failed)?;
        let directory = File::open(path).map_err(failed)?;
        if !locked_within(&directory, ENDING).map_err(failed)? {
            let (path, by) = (path.to_owned(), locked_by(&directory));
            return Err(OpenError::StateInUse { path, by });
        }
        Ok(QuotaDir {
            path: path.to_owned(),
            directory: Arc::new(directory),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text of a file of lines, up to the end of its last line: of a line that a crash has torn
    /// there is no end, and nobody was told that it is kept. A file that is not there has none. One
    /// that cannot be read may have some: whoever took it for empty would write that back.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> Result<String, OpenError> {
        let text = match std::fs::read(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text.map_err(|error| self.failed(name, error))?,
        };
        let last = text.iter().rposition(|byte| *byte == b'\n');
        // What is no text is no line that anybody wrote, and stays none.
        Ok(String::from_utf8_lossy(&text[..last.map_or(0, |at| at + 1)]).into_owned())
    }

    /// Replaces a file by this text, and opens it at its end.
    ///
    /// # Errors
    /// Those of the filesystem of the directory.
    pub fn rewritten(&self, name: &str, text: &[u8]) -> io::Result<File> {
        self.replace(name, text)?;
        OpenOptions::new().append(true).open(self.path.join(name))
    }

    /// Why a file of it cannot be used.
    pub fn failed(&self, name: &str, error: io::Error) -> OpenError {
        state_error(&self.path.join(name), error)
    }

    /// What was used when the last daemon that served `whose` ended cleanly. It counts once: from
    /// now on use changes.
    ///
    /// # Errors
    /// It cannot be removed, so a crash would not be seen.
    pub fn take_usage(&self, whose: &str) -> Result<Option<Vec<(Owners, Amounts)>>, OpenError> {
        let path = self.path.join(USAGE);
        let failed = |error| state_error(&path, error);
        let text = match std::fs::read(&path) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        std::fs::remove_file(&path).map_err(failed)?;
        self.directory.sync_all().map_err(failed)?;
        Ok(parsed(&text, whose))
    }

    /// Keeps what is used, at a clean end.
    ///
    /// # Errors
    /// Those of the filesystem of the directory.
    pub fn put_usage(&self, whose: &str, usage: &[(Owners, Amounts)]) -> io::Result<()> {
        let mut text = format!("{FIRST}\n{whose}\n");
        for (owners, [blocks, inodes]) in usage {
            let Owners { uid, gid, project } = owners;
            text += &format!("{uid} {gid} {project} {blocks} {inodes}\n");
        }
        text += LAST;
        self.replace(USAGE, text.as_bytes())
    }

    fn replace(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let (path, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        self.directory.sync_all()
    }
}

/// Whether the directory could be locked in this time. A daemon that was killed has left its mount
/// some time before the last of its threads has left the kernel, and with it the lock.
fn locked_within(directory: &File, time: Duration) -> io::Result<bool> {
    let end = Instant::now() + time;
    loop {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < end => thread::sleep(LOOK),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn state_error(path: &Path, error: io::Error) -> OpenError {
    OpenError::State {
        path: path.to_owned(),
        error,
    }
}

fn parsed(text: &str, root: &str) -> Option<Vec<(Owners, Amounts)>> {
    let body = text.strip_prefix(FIRST)?.strip_prefix('\n')?;
    let body = body.strip_prefix(root)?.strip_prefix('\n')?;
    let body = body.strip_suffix(LAST)?;
    let of_line = |line: &str| {
        let numbers: Vec<u64> = line
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [uid, gid, project, blocks, inodes] = *numbers else {
            return None;
        };
        let id = |number: u64| u32::try_from(number).ok();
        let owners = Owners {
            uid: id(uid)?,
            gid: id(gid)?,
            project: id(project)?,
        };
        Some((owners, [blocks, inodes]))
    };
    let usage: Vec<_> = body.lines().map(of_line).collect::<Option<_>>()?;
    // No filesystem has more, and a ledger cannot count it.
    let most = [i64::MAX as u64 / BLOCK, i64::MAX as u64];
    for (resource, most) in most.into_iter().enumerate() {
        let mut amounts = usage.iter().map(|(_, amounts)| amounts[resource]);
        amounts.try_fold(0_u64, |sum, amount| {
            sum.checked_add(amount).filter(|sum| *sum <= most)
        })?;
    }
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_trusted_whole_and_of_the_same_root_only() {
        let owners = Owners {
            uid: 1000,
            gid: 5,
            project: 7,
        };
        let text = "hearth usage 1\n2:h1.00\n1000 5 7 12 3\nend";
        assert_eq!(parsed(text, "2:h1.00"), Some(vec![(owners, [12, 3])]));
        assert_eq!(parsed(text, "2:h1.01"), None);
        for cut in 1..text.len() {
            assert_eq!(parsed(&text[..cut], "2:h1.00"), None, "{cut}");
        }
    }

    /// Once, the ledger of the next mount ran over.
    #[test]
    fn usage_of_more_than_a_filesystem_has_is_counted_anew() {
        let of = |lines: &str| parsed(&format!("hearth usage 1\n2:h1.00\n{lines}end"), "2:h1.00");
        assert_eq!(of("0 0 0 18446744073709551615 3\n"), None);
        let half = "0 0 0 1 9223372036854775807\n";
        assert!(of(half).is_some());
        assert_eq!(of(&half.repeat(2)), None);
    }

    /// Once, what was no text was refused as a directory that cannot be written to.
    #[test]
    fn usage_that_is_no_text_is_counted_anew() {
        let name = format!("hearth-quota-no-text-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let directory = QuotaDir::open(&path).unwrap();
        std::fs::write(
            path.join(USAGE),
            b"hearth usage 1\n2:h1.00\n0 0 \xff 1 1\nend",
        )
        .unwrap();
        let usage = directory.take_usage("2:h1.00");
        std::fs::remove_dir_all(&path).unwrap();
        assert!(matches!(usage, Ok(None)), "{usage:?}");
    }

    /// Once, a mount that followed a `kill -9` at once was refused, for threads of the daemon that
    /// was killed had yet to leave the kernel.
    #[test]
    fn a_lock_that_is_about_to_end_is_waited_for() {
        let name = format!("hearth-quota-lock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let first = QuotaDir::open(&path).unwrap();
        let directory = File::open(&path).unwrap();
        assert!(!locked_within(&directory, LOOK).unwrap());
        let ending = thread::spawn(move || {
            thread::sleep(3 * LOOK);
            drop(first);
        });
        let second = QuotaDir::open(&path);
        ending.join().unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert!(second.is_ok(), "{:?}", second.err());
    }
}

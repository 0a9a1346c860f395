//! The file locks of a volume, for who wants to know why a program waits.

use super::Volume;
use crate::errno::Result;
use crate::locks::ListedLock;
use hearth_sync::epoch::pin;

/// Inodes that are looked at before other threads may free what they have retired.
const STEP: usize = 4096;

/// A lock of a file, see [`Volume::file_locks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLockRow {
    /// Inode number of the file.
    pub ino: u64,
    /// One of its paths; `None` if it has no name any more.
    pub path: Option<Vec<u8>>,
    /// The lock.
    pub listed: ListedLock,
}

/// The locks of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLockReport {
    /// By inode number; of each file first who waits, in the order in which they began.
    pub rows: Vec<FileLockRow>,
    /// Locks for which there was no more room in `rows`.
    pub left_out: u64,
}

impl Volume {
    /// Which file locks (`flock`, `fcntl`) are held, and who waits for which, at most `most`. Each
    /// file is listed as of one moment, one after the other. Walks the tree for the paths, if there
    /// is a lock.
    ///
    /// ```
    /// let volume = hearth::Volume::memory();
    /// let process = volume.process(hearth::Credentials::root());
    /// let fd = process.open("/lock", libc::O_CREAT | libc::O_RDWR, 0o644)?;
    /// process.flock(fd, libc::LOCK_EX)?;
    /// let report = volume.file_locks(100)?;
    /// assert_eq!(report.rows[0].path.as_deref(), Some(&b"/lock"[..]));
    /// assert_eq!(report.rows[0].listed.lock.kind, hearth::LockKind::Write);
    /// # Ok::<(), hearth::Errno>(())
    /// ```
    ///
    /// # Errors
    /// Those of the backend.
    pub fn file_locks(&self, most: usize) -> Result<FileLockReport> {
        let mut report = FileLockReport::default();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.list_some(from, most, &mut report);
        }
        let mut inodes: Vec<u64> = report.rows.iter().map(|row| row.ino).collect();
        inodes.dedup();
        if !inodes.is_empty() {
            let mut paths = self.heat().paths(&inodes)?;
            for row in &mut report.rows {
                let info = paths.get_mut(&row.ino);
                row.path = info.and_then(|info| info.path.clone());
            }
        }
        Ok(report)
    }

    /// Lists the locks of some inodes from a number on; returns the next number.
    fn list_some(&self, from: u64, most: usize, report: &mut FileLockReport) -> Option<u64> {
        let g = pin();
        let (mut left, mut next) = (STEP, None);
        self.sb.objects.inodes.scan(from, &g, |inode| {
            if let Some(locks) = inode.taken_locks() {
                let (listed, count) = locks.list(most - report.rows.len());
                report.left_out += (count - listed.len()) as u64;
                let ino = inode.number();
                report
                    .rows
                    .extend(listed.into_iter().map(|listed| FileLockRow {
                        ino,
                        path: None,
                        listed,
                    }));
            }
            left -= 1;
            next = (left == 0).then(|| inode.number() + 1);
            left > 0
        });
        next
    }
}

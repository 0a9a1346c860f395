//! Storing segments, on the host and on a disk of the tests: the same steps, so that a test can cut
//! the power or fail a call at each.
//!
//! A segment gets its name before it is synced. A journaling filesystem commits the name with the
//! contents then, and the syncs of the folders find nothing left to do. With the name last each
//! segment costs a commit more, which waits for all that other segments have written until then.
//! What a power cut leaves under a name, no record names: idle work removes it after the
//! next opening.

use super::files::{FOLDER, FoundFiles, byte, file_name, folder_name};
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use bytes::Bytes;
use hearth_backend::Errno;
use hearth_sync::primitive::{Arc, Mutex};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// The folder of segments on a disk.
pub struct DiskFolder {
    disk: Arc<dyn Disk>,
    folders: Mutex<Folders>,
}

/// Folders that segments lie in, by the byte that is their name. Protected by
/// [`DiskFolder::folders`], which is held while one is made.
#[derive(Default)]
struct Folders {
    there: BTreeSet<u8>,
    /// Those whose names were synced since the volume was opened: what is there may have been made
    /// by a process that was killed.
    durable: BTreeSet<u8>,
}

impl std::fmt::Debug for DiskFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DiskFolder")
            .field(&self.disk.place())
            .finish()
    }
}

impl DiskFolder {
    /// The one on `disk`, where it is there.
    pub fn new(disk: Arc<dyn Disk>) -> DiskFolder {
        DiskFolder {
            disk,
            folders: Mutex::default(),
        }
    }

    /// Stores a whole segment; durable when it returns.
    pub fn put(&self, number: u64, parts: &[Bytes]) -> Result<()> {
        let mut upload = self.upload(number)?;
        parts.iter().try_for_each(|part| upload.append(part))?;
        upload.finish()
    }

    /// Begins a segment under another name.
    pub fn upload(&self, number: u64) -> Result<DiskUpload<'_>> {
        self.make_folder(number as u8)?;
        let present = format!("{}#1", path(number));
        let file = match self.disk.create(&present) {
            // A crash has left it and lost the number, which nobody else has now.
            Err(error) if error.errno() == Errno::EEXIST => {
                self.disk.remove(&present)?;
                self.disk.create(&present)?
            }
            made => made?,
        };
        Ok(DiskUpload {
            within: self,
            file,
            number,
            present,
            len: 0,
            is_done: false,
        })
    }

    fn make_folder(&self, low: u8) -> Result<()> {
        let mut folders = self.folders.lock();
        if folders.there.contains(&low) {
            return Ok(());
        }
        let there = self.disk.list(FOLDER)?;
        folders
            .there
            .extend(there.iter().filter_map(|name| byte(name)));
        if !folders.there.contains(&low) {
            let name = folder_name(u64::from(low));
            self.disk.make_dir(&format!("{FOLDER}/{name}"))?;
            folders.there.insert(low);
        }
        Ok(())
    }

    /// Makes the name of a folder durable, and those of all that were there before.
    fn sync_folder_name(&self, low: u8) -> Result<()> {
        let there = {
            let folders = self.folders.lock();
            if folders.durable.contains(&low) {
                return Ok(());
            }
            folders.there.clone()
        };
        self.disk.sync_dir(FOLDER)?;
        self.folders.lock().durable.extend(there);
        Ok(())
    }

    /// The bytes of a segment in `range`; fewer where it ends before.
    pub fn range(&self, number: u64, range: Range<u64>) -> Result<Bytes> {
        let file = self.open(number)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let count = file.read_at(range.start, &mut bytes)?;
        bytes.truncate(count);
        Ok(Bytes::from(bytes))
    }

    /// Length of a segment in bytes.
    pub fn len(&self, number: u64) -> Result<u64> {
        self.open(number)?.size()
    }

    /// Removes a segment; one that is gone is no error.
    pub fn delete(&self, number: u64) -> Result<()> {
        self.disk.remove(&path(number))
    }

    /// Everything below the folder.
    pub fn walk(&self) -> Result<FoundFiles> {
        let mut found = FoundFiles::default();
        for folder in self.disk.list(FOLDER)? {
            let path = Path::new(FOLDER).join(&folder);
            let Some(low) = byte(&folder) else {
                found.strange.push(path);
                continue;
            };
            for name in self.disk.list(&path.to_string_lossy())? {
                found.add(low, path.join(name));
            }
        }
        found.segments.sort_unstable();
        Ok(found)
    }

    /// Removes what an upload left behind.
    pub fn remove_upload(&self, path: &Path) -> Result<()> {
        self.disk.remove(&path.to_string_lossy())
    }

    fn open(&self, number: u64) -> Result<Arc<dyn File>> {
        let opened = self.disk.open(&path(number), Access::Read);
        opened.map_err(|error| match error.is_absent() {
            true => Error::Corrupt {
                file: path(number).into(),
                offset: 0,
                what: "the segment is missing".into(),
            },
            false => error,
        })
    }
}

fn path(number: u64) -> String {
    format!("{FOLDER}/{}/{}", folder_name(number), file_name(number))
}

/// A segment that is being stored. Dropped before [`DiskUpload::finish`] has ended, it leaves
/// nothing.
pub struct DiskUpload<'a> {
    within: &'a DiskFolder,
    file: Arc<dyn File>,
    number: u64,
    /// The name that the file has now.
    present: String,
    len: u64,
    is_done: bool,
}

impl std::fmt::Debug for DiskUpload<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DiskUpload").field(&self.present).finish()
    }
}

impl DiskUpload<'_> {
    /// Appends bytes.
    pub fn append(&mut self, part: &[u8]) -> Result<()> {
        self.file.write_at(self.len, part)?;
        self.len += part.len() as u64;
        Ok(())
    }

    /// Has the disk begin with the last `len` bytes, while the next ones are made. Else the sync at
    /// the end hands it the whole segment at once, and what somebody else syncs waits behind that.
    pub fn start_writeback(&self, len: usize) {
        self.file.start_writeback(self.len - len as u64..self.len);
    }

    /// Gives the segment its name and makes it durable.
    pub fn finish(mut self) -> Result<()> {
        let (disk, name) = (&self.within.disk, path(self.number));
        disk.rename(&self.present, &name)?;
        self.present = name;
        self.file.sync()?;
        self.within.sync_folder_name(self.number as u8)?;
        disk.sync_dir(&format!("{FOLDER}/{}", folder_name(self.number)))?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for DiskUpload<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // What is left goes like what a power cut leaves.
            let _ = self.within.disk.remove(&self.present);
        }
    }
}

//! Segments on a [`Disk`]: the steps of the local store of `object_store`, one by one, so that a
//! test can cut the power or fail a call at each.

use super::files::{FOLDER, FoundFiles, byte, file_name, folder_name};
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Result};
use bytes::Bytes;
use hearth_sync::primitive::Arc;
use std::ops::Range;
use std::path::Path;

/// The folder of segments on a disk.
pub struct DiskFolder(pub Arc<dyn Disk>);

impl std::fmt::Debug for DiskFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DiskFolder").field(&self.0.place()).finish()
    }
}

impl DiskFolder {
    /// Begins a segment under another name, in a folder that is made durable if it is new.
    pub fn upload(&self, number: u64) -> Result<DiskUpload> {
        let folder = format!("{FOLDER}/{}", folder_name(number));
        if !self.0.list(FOLDER)?.contains(&folder_name(number)) {
            self.0.make_dir(&folder)?;
            self.0.sync_dir(FOLDER)?;
        }
        let name = path(number);
        let staged = format!("{name}#1");
        Ok(DiskUpload {
            disk: Arc::clone(&self.0),
            file: self.0.create(&staged)?,
            folder,
            name,
            staged,
            len: 0,
            is_done: false,
        })
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
        self.0.remove(&path(number))
    }

    /// Everything below the folder.
    pub fn walk(&self) -> Result<FoundFiles> {
        let mut found = FoundFiles::default();
        for folder in self.0.list(FOLDER)? {
            let path = Path::new(FOLDER).join(&folder);
            let Some(low) = byte(&folder) else {
                found.strange.push(path);
                continue;
            };
            for name in self.0.list(&path.to_string_lossy())? {
                found.add(low, path.join(name));
            }
        }
        found.segments.sort_unstable();
        Ok(found)
    }

    /// Removes what an upload left behind.
    pub fn remove_upload(&self, path: &Path) -> Result<()> {
        self.0.remove(&path.to_string_lossy())
    }

    fn open(&self, number: u64) -> Result<Arc<dyn File>> {
        let opened = self.0.open(&path(number), Access::Read);
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

/// A segment that is being stored. Dropped before [`DiskUpload::finish`], it leaves nothing.
pub struct DiskUpload {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    folder: String,
    name: String,
    staged: String,
    len: u64,
    is_done: bool,
}

impl std::fmt::Debug for DiskUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DiskUpload").field(&self.staged).finish()
    }
}

impl DiskUpload {
    /// Appends bytes.
    pub fn append(&mut self, part: &Bytes) -> Result<()> {
        self.file.write_at(self.len, part)?;
        self.len += part.len() as u64;
        Ok(())
    }

    /// Makes the segment durable and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        self.file.sync()?;
        self.disk.rename(&self.staged, &self.name)?;
        self.is_done = true;
        self.disk.sync_dir(&self.folder)
    }
}

impl Drop for DiskUpload {
    fn drop(&mut self) {
        if !self.is_done {
            // What is left is removed at the next opening.
            let _ = self.disk.remove(&self.staged);
        }
    }
}

//! Files of the operating system.

use super::modes::{OTHERS, OWN_FILE, OWN_FOLDER};
use super::{Access, Disk, File, lock, sys};
use crate::error::{Error, Result};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use rustix::fs::{FallocateFlags, OFlags};
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A directory of the host.
pub(crate) struct RealDisk {
    place: PathBuf,
}

impl RealDisk {
    pub(crate) fn new(place: &Path) -> RealDisk {
        RealDisk {
            place: place.to_path_buf(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.place.clone(),
            name => self.place.join(name),
        }
    }
}

impl Disk for RealDisk {
    fn place(&self) -> &Path {
        &self.place
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn File>> {
        let path = self.path(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        let is = file.metadata();
        let is = is.map_err(|error| Error::io("look at", &path, error))?;
        if access == Access::Write && is.is_file() && is.nlink() > 1 {
            return Err(Error::Linked { path });
        }
        Ok(Arc::new(RealFile::of(file, path)))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        let path = self.path(name);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(OWN_FILE)
            .open(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        Ok(Arc::new(RealFile::of(file, path)))
    }

    fn make_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let made = fs::DirBuilder::new().mode(OWN_FOLDER).create(&path);
        made.map_err(|error| Error::io("make the folder", &path, error))
    }

    fn list(&self, name: &str) -> Result<Vec<String>> {
        let path = self.path(name);
        let failed = |error| Error::io("list", &path, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path(from);
        fs::rename(&path, self.path(to)).map_err(|error| Error::io("rename", &path, error))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(is) if is.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    fn make_private(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        let failed = |error| Error::io("keep others from", &path, error);
        // Not through a link: what that leads to is somebody's own.
        let here = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = fs::OpenOptions::new();
        let opened = options.read(true).custom_flags(here.bits() as i32);
        let file = match opened.open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(failed)?,
        };
        let mode = file.metadata().map_err(failed)?.mode() & 0o7777;
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let own = fs::Permissions::from_mode(mode & !OTHERS);
        file.set_permissions(own).map_err(failed)
    }

    fn sync_dir(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        fs::File::open(&path)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| Error::io("sync", &path, error))
    }

    fn lock(&self, name: &str, owner: Option<&str>) -> Result<Box<dyn Send + Sync>> {
        let lock = lock::take(&self.path(name), &self.place, owner)?;
        Ok(Box::new(lock))
    }

    fn share(&self, name: &str) -> Option<Box<dyn Send + Sync>> {
        let lock = lock::share(&self.path(name))?;
        Some(Box::new(lock))
    }

    fn is_shared(&self, name: &str) -> bool {
        lock::is_shared(&self.path(name))
    }

    fn room(&self) -> Result<(u64, u64)> {
        let is = rustix::fs::statvfs(&self.place)
            .map_err(|error| Error::io("measure", &self.place, error.into()))?;
        Ok((is.f_blocks * is.f_frsize, is.f_bavail * is.f_frsize))
    }
}

struct RealFile {
    file: fs::File,
    path: PathBuf,
    /// How often it was cut off. Counted before it is cut, and looked at behind each write.
    /// Relaxed: the kernel's lock of the file orders a cut and the write behind it.
    cuts: AtomicU64,
}

const RESERVE: &str = "reserve room in";
/// Bytes that are written at once to reserve room.
const PIECE: u64 = 1 << 20;

impl RealFile {
    fn of(file: fs::File, path: PathBuf) -> RealFile {
        let cuts = AtomicU64::new(0);
        RealFile { file, path, cuts }
    }

    fn failed(&self, op: &'static str) -> impl Fn(std::io::Error) -> Error + '_ {
        move |error| Error::io(op, &self.path, error)
    }

    /// Reserves room by writing, where the filesystem sets none aside: ext2 and ext3, some network
    /// filesystems.
    fn fill(&self, len: u64) -> Result<()> {
        let cuts = self.cuts.load(Ordering::Relaxed);
        self.fill_since(cuts, len)
    }

    /// Ends with an error if the file was cut off since it had been `cuts` times: what is written
    /// behind the cut leaves a hole before it.
    fn fill_since(&self, cuts: u64, len: u64) -> Result<()> {
        let is_whole = || match self.cuts.load(Ordering::Relaxed) == cuts {
            true => Ok(()),
            false => Err(Error::NoSpace { what: RESERVE }),
        };
        let mut at = self.size()?;
        let room = rustix::fs::fstatvfs(&self.file);
        let room = room.map_err(|error| self.failed(RESERVE)(error.into()))?;
        // Looked at first: on a full disk this comes again and again.
        if room.f_bavail.saturating_mul(room.f_frsize) < len.saturating_sub(at) {
            return Err(Error::NoSpace { what: RESERVE });
        }
        let mut bytes = vec![0; PIECE as usize];
        while at < len {
            let piece = (len - at).min(PIECE);
            fill_with_noise(&mut bytes, at);
            let written = self.file.write_all_at(&bytes[..piece as usize], at);
            written.map_err(self.failed(RESERVE))?;
            is_whole()?;
            at += piece;
        }
        // A filesystem may find no room only when it writes back.
        self.sync()?;
        is_whole()
    }
}

/// Bytes that differ from place to place: a host that compresses, or that keeps equal blocks once,
/// needs room for all of them.
fn fill_with_noise(bytes: &mut [u8], at: u64) {
    for (number, word) in bytes.chunks_exact_mut(8).enumerate() {
        // SplitMix64 of the place.
        let place = at / 8 + number as u64 + 1;
        let mut noise = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        noise = (noise ^ (noise >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        noise = (noise ^ (noise >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(noise ^ (noise >> 31)).to_le_bytes());
    }
}

impl File for RealFile {
    fn size(&self) -> Result<u64> {
        let is = self.file.metadata().map_err(self.failed("look at"))?;
        Ok(is.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read")(error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, at)
            .map_err(self.failed("write"))
    }

    fn start_writeback(&self, range: Range<u64>) {
        sys::start_writeback(&self.file, range);
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        use rustix::io::Errno as E;
        let reserved = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len);
        match reserved {
            Err(E::OPNOTSUPP | E::NOSYS) => self.fill(len),
            reserved => reserved.map_err(|error| self.failed(RESERVE)(error.into())),
        }
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.cuts.fetch_add(1, Ordering::Relaxed);
        self.file.set_len(len).map_err(self.failed("cut off"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballast() -> (tempfile::TempDir, RealFile) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("ballast");
        let file = fs::File::create_new(&path).unwrap();
        (root, RealFile::of(file, path))
    }

    /// Once, a volume was refused for lack of room on filesystems that set none aside.
    #[test]
    fn room_is_reserved_by_writing_where_the_filesystem_sets_none_aside() {
        let (_root, file) = ballast();
        let len = 2 * PIECE + 4096;
        for _ in 0..2 {
            file.fill(len).unwrap();
            let is = file.file.metadata().unwrap();
            assert_eq!(is.len(), len);
            assert!(is.blocks() * 512 >= len);
        }
        let failed = file.fill(1 << 60).unwrap_err();
        assert!(matches!(failed, Error::NoSpace { .. }), "{failed}");
        assert_eq!(file.size().unwrap(), len, "a full disk is not written to");
        // Once, zeros stood there, for which a host that compresses sets nothing aside.
        let mut bytes = vec![0; len as usize];
        assert_eq!(file.read_at(0, &mut bytes), Ok(bytes.len()));
        let packed = lz4_flex::block::compress(&bytes);
        assert!(packed.len() >= bytes.len());
    }

    /// Once, a ballast that was given up while it was filled kept its length, with a hole, and was
    /// taken for whole from then on.
    #[test]
    fn a_file_that_is_cut_off_while_it_is_filled_is_not_called_whole() {
        let (_root, file) = ballast();
        let before = file.cuts.load(Ordering::Relaxed);
        file.truncate(0).unwrap();
        let failed = file.fill_since(before, 4 * PIECE).unwrap_err();
        assert!(matches!(failed, Error::NoSpace { .. }), "{failed}");
        assert!(file.size().unwrap() <= PIECE, "the rest is not written");
        file.truncate(0).unwrap();
        file.fill(4 * PIECE).unwrap();
    }
}

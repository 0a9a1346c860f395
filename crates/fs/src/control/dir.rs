//! The directory `/.hearth` of a volume, and the inodes of the files that are added to it.

use super::file::ControlFile;
use super::held::HeldBytes;
use super::session::ControlSession;
use crate::attr::{Kind, Target};
use crate::caller::Caller;
use crate::directory::{Directory, EntryChange, Lookup};
use crate::errno::{Errno, Result};
use crate::flags;
use crate::inode::{Body, Fields, InodeExt, InodeInner};
use crate::number::{CONTROL, ROOT};
use crate::superblock::{ControlFiles, OpenControl, Superblock};
use crate::volume::Volume;
use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;

/// The control files of a volume.
struct Table {
    /// By the number that their inodes hold.
    files: Vec<Arc<dyn ControlFile>>,
    /// What their openers hold.
    held: Arc<HeldBytes>,
}

impl ControlFiles for Table {
    fn open(&self, file: usize, sb: &Superblock, caller: &Caller<'_>) -> OpenControl {
        let file = (&self.files[file], &self.held);
        OpenControl(ControlSession::open(file, sb, caller))
    }
}

impl Volume {
    /// Adds the files below `/.hearth`, with the directories above them. Once for a volume; before,
    /// the directory is empty.
    ///
    /// # Errors
    /// `EEXIST` if the volume has control files.
    pub fn add_control_files(&self, files: Vec<Arc<dyn ControlFile>>) -> Result<()> {
        let mut next = CONTROL + 1;
        if self.sb.objects.inodes.get(next, &pin()).is_some() {
            return Err(Errno::EEXIST);
        }
        let table = Table {
            files: files.clone(),
            held: Arc::default(),
        };
        self.sb.control.set(Box::new(table));
        for (number, file) in files.iter().enumerate() {
            add_file(&self.sb, (number, &**file), &mut next)?;
        }
        Ok(())
    }
}

/// Makes the directory of a new volume.
pub(crate) fn make_dir(sb: &Superblock) -> Result<()> {
    make_subdir(sb, &mut { CONTROL }, ROOT).map(|_| ())
}

fn add_file(
    sb: &Superblock,
    (number, file): (usize, &dyn ControlFile),
    next: &mut u64,
) -> Result<()> {
    let (dirs, name) = file.path().rsplit_once('/').unwrap_or(("", file.path()));
    let mut parent = CONTROL;
    for dir in dirs.split('/').filter(|dir| !dir.is_empty()) {
        parent = match find(sb, parent, dir) {
            Some(ino) => ino,
            None => {
                let ino = make_subdir(sb, next, parent)?;
                enter(sb, parent, dir, (ino, Kind::Directory))?;
                ino
            }
        };
    }
    let ino = make(sb, next, Kind::File, file.mode(), Body::Control(number))?;
    enter(sb, parent, name, (ino, Kind::File))
}

fn make_subdir(sb: &Superblock, next: &mut u64, parent: u64) -> Result<u64> {
    let body = Body::Directory(Box::new(Directory::new(parent, true)));
    make(sb, next, Kind::Directory, 0o555, body)
}

fn make(sb: &Superblock, next: &mut u64, kind: Kind, perm: u16, body: Body) -> Result<u64> {
    let ino = *next;
    *next += 1;
    let (uid, gid) = sb.options.owner;
    let mut fields = Fields::new(perm, uid, gid, sb.now());
    if kind == Kind::Directory {
        fields.flags = flags::IMMUTABLE;
    }
    let inode = sb.objects.inodes.insert_at(ino, 0, |number, generation| {
        InodeInner::new((number, generation), kind, &fields, body)
    });
    sb.pin_forever(inode.map_err(|_| Errno::EEXIST)?);
    Ok(ino)
}

fn find(sb: &Superblock, parent: u64, name: &str) -> Option<u64> {
    let g = pin();
    let directory = sb.objects.inodes.get(parent, &g)?.directory()?;
    match directory.lookup(&sb.hashed(name.as_bytes()), &g) {
        Lookup::Hit(entry) => Some(entry.ino()),
        _ => None,
    }
}

fn enter(sb: &Superblock, parent: u64, name: &str, (ino, kind): (u64, Kind)) -> Result<()> {
    let g = pin();
    let inode = sb.objects.inodes.get(parent, &g).ok_or(Errno::ENOENT)?;
    let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
    let at = sb.hashed(name.as_bytes());
    let locked = directory.lock(at, &g).map_err(|_| Errno::ENOENT)?;
    let to = Target {
        ino,
        generation: 0,
        kind,
    };
    locked.apply(EntryChange { at, to: Some(to) }, &g);
    inode.count_entry(1, kind == Kind::Directory, sb.now().nanos());
    Ok(())
}

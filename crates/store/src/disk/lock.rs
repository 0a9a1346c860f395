//! The lock of a volume in a directory of the host: `flock` of a file, exclusive for a writer.

use super::modes::{OTHERS, OWN_FILE};
use crate::error::{Error, Result};
use hearth_sync::primitive::{Mutex, thread};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the end of a volume of this process is waited for, and how often it is looked at.
const ENDING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// Device and inode of the files that this process has locked.
static HELD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// What is said of readers that keep a writer out: how the name of such a user ends.
pub const READS: &str = "which reads it";

/// What is said of whoever holds the lock and is not the writer that the file names.
pub const UNNAMED: &str = "a process that did not say who it is";

/// A lock of a file. It ends with this value although forks of the process share the open file,
/// and not with their copies of this value.
pub struct HeldLock {
    file: File,
    id: (u64, u64),
    /// The process that took the lock.
    process: u32,
}

/// Locks the file `path` of the volume at `place`, for the writer `owner` or for a reader.
///
/// A writer waits a moment for what the process has locked itself: a volume ends with the last
/// thread that has it, which may be one of its own, a moment after the program has dropped it.
///
/// # Errors
/// [`Error::InUse`], and those of the filesystem.
pub fn take(path: &Path, place: &Path, owner: Option<&str>) -> Result<HeldLock> {
    let failed = |op| move |error| Error::io(op, path, error);
    let mut file = fs::OpenOptions::new()
        .read(true)
        .write(owner.is_some())
        .create(owner.is_some())
        .truncate(false)
        .mode(OWN_FILE)
        .open(path)
        .map_err(failed("open"))?;
    let is = file.metadata().map_err(failed("look at"))?;
    if owner.is_some() && is.mode() & OTHERS != 0 {
        // Of an older version: who may read the file may lock it, and keep every writer out.
        let own = Permissions::from_mode(is.mode() & 0o7777 & !OTHERS);
        let _ = file.set_permissions(own);
    }
    let id = (is.dev(), is.ino());
    let how = match owner {
        Some(_) => FlockOperation::NonBlockingLockExclusive,
        None => FlockOperation::NonBlockingLockShared,
    };
    let begun = Instant::now();
    loop {
        match flock(&file, how) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) => {
                if owner.is_some() && begun.elapsed() < ENDING && HELD.lock().contains(&id) {
                    thread::sleep(LOOK);
                    continue;
                }
                let mut who = holder(&mut file, path);
                if is.nlink() > 1 {
                    who += &of_another(is.nlink());
                }
                return Err(Error::InUse {
                    path: place.to_owned(),
                    who,
                });
            }
            Err(error) => return Err(failed("lock")(error.into())),
        }
    }
    HELD.lock().push(id);
    let mut lock = HeldLock {
        file,
        id,
        process: std::process::id(),
    };
    if let Some(owner) = owner {
        lock.file.set_len(0).map_err(failed("write"))?;
        // A full disk keeps nobody from opening: the name is for messages.
        let _ = lock.file.write_all(owner.as_bytes());
    }
    Ok(lock)
}

/// Takes a shared lock of the folder `path` for who reads files in it beside its writer. `None`
/// where the filesystem locks no folder, or it cannot be opened.
pub fn share(path: &Path) -> Option<HeldLock> {
    let file = File::open(path).ok()?;
    let is = file.metadata().ok()?;
    let begun = Instant::now();
    // A writer that asks whether it is shared has it for a moment.
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockShared) {
        if error != rustix::io::Errno::WOULDBLOCK || begun.elapsed() > ENDING {
            return None;
        }
        thread::sleep(LOOK);
    }
    let id = (is.dev(), is.ino());
    HELD.lock().push(id);
    Some(HeldLock {
        file,
        id,
        process: std::process::id(),
    })
}

/// Whether anybody has such a lock.
pub fn is_shared(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let asked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    // Without this it would last for as long as a fork has the file.
    let _ = flock(&file, FlockOperation::Unlock);
    asked == Err(rustix::io::Errno::WOULDBLOCK)
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // Without it the lock would last until the last fork has closed the file.
        let _ = flock(&self.file, FlockOperation::Unlock);
        let mut held = HELD.lock();
        if let Some(at) = held.iter().position(|id| *id == self.id) {
            held.swap_remove(at);
        }
    }
}

/// What is added to the name of who holds a lock: a copy made of hard links (`cp -al`, `rsync
/// --link-dest`) has one lock with the volume that it was made of.
fn of_another(names: u64) -> String {
    format!(
        " (perhaps as another directory: lock has {names} names, as in a copy made of hard links; \
         a copy by 'cp -a' has its own)"
    )
}

/// The name of who holds a lock that was refused. Readers write none, the kernel has their numbers:
/// where another reader would be let in, the text is of a writer that is gone.
fn holder(file: &mut File, path: &Path) -> String {
    if flock(&*file, FlockOperation::NonBlockingLockShared).is_ok() {
        return match reader(file) {
            Some(process) => format!("process {process}, {READS}"),
            None => format!("a process, {READS}"),
        };
    }
    let mut text = String::new();
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_string(&mut text));
    match read {
        Ok(_) if may_hold(text.trim_end(), file, path) => text.trim_end().to_owned(),
        _ => UNNAMED.to_owned(),
    }
}

/// Whether the process that a writer's name begins with may hold the lock. The name of one that has
/// ended stays in the file; one of this machine lives and has the file open, as far as this user
/// is told.
fn may_hold(name: &str, file: &File, path: &Path) -> bool {
    let words = name.strip_prefix("process ");
    let Some((process, rest)) = words.and_then(|words| words.split_once(" on ")) else {
        return !name.is_empty();
    };
    let host = rest.split_once(',').map_or(rest, |(host, _)| host);
    let here = rustix::system::uname();
    if host != here.nodename().to_string_lossy() || !Path::new("/proc/self").exists() {
        return true;
    }
    let open_files = match fs::read_dir(format!("/proc/{process}/fd")) {
        Ok(open_files) => open_files,
        // It lives, and is somebody else's.
        Err(error) => return error.kind() == ErrorKind::PermissionDenied,
    };
    let Ok(is) = file.metadata() else {
        return true;
    };
    let is_it = |open: PathBuf| {
        // By its name first: of other files nothing is asked that their filesystem must answer.
        let is_named = fs::read_link(&open).is_ok_and(|to| to.file_name() == path.file_name());
        let found = is_named.then(|| fs::metadata(&open).ok()).flatten();
        found.is_some_and(|found| (found.dev(), found.ino()) == (is.dev(), is.ino()))
    };
    open_files.flatten().any(|open| is_it(open.path()))
}

/// The process that has taken a shared lock of the file, the first where there are several.
fn reader(file: &File) -> Option<u32> {
    let is = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(is.dev()), rustix::fs::minor(is.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", is.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next()? == "FLOCK" && words.nth(1)? == "READ";
        let process: u32 = words.next()?.parse().ok()?;
        let is_it = is_flock && words.next()? == place && process != std::process::id();
        is_it.then_some(process)
    })
}

//! From a directory up to the root: its name, and its path.

use super::list::list_all;
use super::lookup::{above, find, hashed};
use crate::attr::DirEntry;
use crate::directory::Directory;
use crate::errno::Errno;
use crate::inode::Inode;
use crate::number::ROOT;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, STILL_ATTEMPTS, Stop};
use hearth_sync::epoch::Guard;
use hearth_sync::primitive::thread::yield_now;

/// Attempts to find a path without a lock.
const ATTEMPTS: usize = 3;

/// The directories on the way up.
#[derive(Default)]
struct Way<'g> {
    noted: Vec<Noted<'g>>,
    /// The parent of each, and its name there.
    names: Vec<(&'g Inode, Vec<u8>)>,
}

/// A directory with the count of its renames before anything above it was looked at.
struct Noted<'g> {
    inode: &'g Inode,
    directory: &'g Directory,
    count: u32,
}

/// The path from `root` to `inode`, which it had at one moment. `ENOENT` for a directory that was
/// removed, or does not lie below `root`.
pub(crate) fn path_of<'g>(
    cx: &Ctx<'_>,
    inode: &'g Inode,
    root: &Inode,
    g: &'g Guard,
) -> Attempt<Vec<u8>> {
    for _ in 0..ATTEMPTS {
        if let Some(path) = try_path_of(cx, inode, root, g)? {
            return Ok(path);
        }
    }
    // No directory gets another parent or name meanwhile. Who renames one waits while parents are
    // listed, so this comes last.
    let _still = cx.sb.names.keep_still();
    for _ in 0..STILL_ATTEMPTS {
        if let Some(path) = try_path_of(cx, inode, root, g)? {
            return Ok(path);
        }
        yield_now();
    }
    Err(Stop::Restart)
}

/// One attempt; `None` if directories moved meanwhile.
fn try_path_of<'g>(
    cx: &Ctx<'_>,
    inode: &'g Inode,
    root: &Inode,
    g: &'g Guard,
) -> Attempt<Option<Vec<u8>>> {
    let mut way = Way::default();
    match way.go_up(cx, inode, root, g) {
        Err(Stop::Errno(_) | Stop::Restart) if way.has_moved() => return Ok(None),
        gone => gone?,
    }
    if !way.is_whole(cx, g)? {
        return Ok(None);
    }
    let names = way.names.iter().rev();
    let path = names.flat_map(|(_, name)| [b"/", &name[..]]);
    let path = path.collect::<Vec<_>>().concat();
    Ok(Some(if path.is_empty() { b"/".to_vec() } else { path }))
}

impl<'g> Way<'g> {
    /// Finds the names of `inode` and of what is above it, up to `root`.
    fn go_up(
        &mut self,
        cx: &Ctx<'_>,
        mut inode: &'g Inode,
        root: &Inode,
        g: &'g Guard,
    ) -> Attempt<()> {
        if inode.meta.is_unlinked() {
            return Err(Errno::ENOENT.into());
        }
        while inode.number() != root.number() {
            if inode.number() == ROOT {
                return Err(Errno::ENOENT.into());
            }
            let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
            let count = directory.moves().peek();
            self.noted.push(Noted {
                inode,
                directory,
                count,
            });
            let parent = above(cx, inode, directory, g)?;
            let name = name_of(cx, (inode, directory), (parent, count), g)?;
            self.names.push((parent, name));
            inode = parent;
        }
        Ok(())
    }

    /// Whether all have these names at one moment. Listing their parents took longer, and they may
    /// have been renamed since.
    fn is_whole(&mut self, cx: &Ctx<'_>, g: &Guard) -> Attempt<bool> {
        for noted in &mut self.noted {
            noted.count = noted.directory.moves().peek();
        }
        for (Noted { inode, .. }, (parent, name)) in self.noted.iter().zip(&self.names) {
            let entry = find(parent, hashed(cx, name), g)?;
            let id = entry.map(|entry| (entry.ino(), entry.generation()));
            if id != Some((inode.number(), inode.generation())) {
                return Ok(false);
            }
        }
        Ok(!self.has_moved())
    }

    /// Whether one was renamed since its count was noted. What was evicted may have come back as
    /// another object, and moved as that.
    fn has_moved(&self) -> bool {
        let has_moved = |noted: &Noted<'_>| {
            noted.directory.moves().has_moved_since(noted.count) || noted.inode.is_dead()
        };
        self.noted.iter().any(has_moved)
    }
}

/// The name of a directory in its parent. `count`: that of its renames, from before the parent was
/// looked at. `ENOENT` if it was removed.
pub(crate) fn name_of(
    cx: &Ctx<'_>,
    (inode, directory): (&Inode, &Directory),
    (parent, count): (&Inode, u32),
    g: &Guard,
) -> Attempt<Vec<u8>> {
    let mut name = None;
    let mut look = |entry: DirEntry<'_>| {
        if entry.ino == inode.number() && entry.name != b"." && entry.name != b".." {
            name = Some(entry.name.to_vec());
        }
        name.is_none()
    };
    list_all(cx, parent, &mut look, g)?;
    match name {
        Some(name) => Ok(name),
        // It has left a bucket that was still to come for one that had been listed, or for another
        // directory.
        None if directory.moves().has_moved_since(count) => Err(Stop::Restart),
        None => Err(Errno::ENOENT.into()),
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use crate::{Credentials, Volume};

    /// Regression: who asked for a path held up everybody who moved a directory while the parents
    /// were listed.
    #[test]
    fn a_path_is_found_while_another_holds_the_lock_of_moves() {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        for path in ["/a", "/a/b"] {
            process.mkdir(path, 0o755).unwrap();
        }
        process.chdir("/a/b").unwrap();
        let held = volume.sb.names.rename.0.lock();
        // It would wait for ever, which debug builds find.
        assert_eq!(process.getcwd().unwrap(), b"/a/b");
        process.rmdir("/a/b").unwrap();
        assert_eq!(process.getcwd(), Err(crate::Errno::ENOENT));
        drop(held);
    }
}

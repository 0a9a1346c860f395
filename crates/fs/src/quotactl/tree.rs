//! Making a directory tree a project.

use super::{Quota, QuotaError, check_id};
use crate::attr::FsXAttr;
use crate::cache::check_unpinned;
use crate::caller::Caller;
use crate::errno::Errno;
use crate::flags::{PROJINHERIT, to_xflags};
use crate::inode::{Inode, InodeRef};
use crate::number::{ROOT, is_control};
use crate::ops::ctx::Ctx;
use crate::ops::{ioctl, list};
use crate::quota::{QuotaId, QuotaKind, SetProjectError, TreeChange};
use crate::superblock::{Attempt, Stop, Superblock};
use crate::walk::{Follow, From, walk as find};
use hearth_sync::epoch::{self, Guard, pin};
use std::collections::HashSet;

impl Quota<'_> {
    /// Gives the directory at `path`, and everything below it, the project id `project` and lets
    /// new inodes inherit it; 0 takes them out of any project. What the tree holds is charged to
    /// the project even above its limits.
    ///
    /// Directories come before their contents, so whatever is created later inherits. An inode that
    /// was being created or moved when its directory was changed is found by a second walk.
    ///
    /// # Errors
    /// The reason; after [`QuotaError::Path`] part of the tree may have changed, and doing it again
    /// goes on. After [`QuotaError::NotKept`] all of it may have, until the unmount. `EDEADLK` as
    /// its errno inside a callback of the library, where nothing changes.
    pub fn set_project_tree(
        &self,
        path: impl AsRef<[u8]>,
        project: u32,
    ) -> Result<TreeChange, QuotaError> {
        let path = path.as_ref();
        self.may_enter(project)?;
        let top = self.sb.run(&Caller::ROOT, |cx, g| {
            let root = cx.sb.inode(ROOT, g)?;
            let from = From { start: root, root };
            let top: &Inode = find(cx, from, path, Follow::Yes, g)?.existing()?;
            top.hold().ok_or(Stop::Restart)
        });
        self.enter_held(top, path, project)
    }

    /// [`Quota::set_project_tree`] for the directory with inode number `ino`; errors name it by
    /// `path`.
    ///
    /// # Errors
    /// See [`Quota::set_project_tree`].
    pub fn set_project_of(
        &self,
        ino: u64,
        path: &[u8],
        project: u32,
    ) -> Result<TreeChange, QuotaError> {
        self.may_enter(project)?;
        if let Some(counter) = self.counter() {
            return counter
                .set_project(ino, project)
                .map_err(|error| match error {
                    SetProjectError::Keep(error) => QuotaError::NotKept { error },
                    SetProjectError::Host(Errno::ENOTDIR) => {
                        QuotaError::NotADirectory { path: path.into() }
                    }
                    SetProjectError::Host(errno) => QuotaError::Path {
                        path: path.into(),
                        errno,
                    },
                });
        }
        let top = self.sb.run(&Caller::ROOT, |cx, g| {
            let top = cx.sb.inode(ino, g)?;
            top.hold().ok_or(Stop::Restart)
        });
        self.enter_held(top, path, project)
    }

    fn may_enter(&self, project: u32) -> Result<(), QuotaError> {
        self.check_keeper()?;
        self.is_on(QuotaKind::Project)?;
        check_id(QuotaId::project(project))
    }

    /// `top` is held, so that its number stays its own during the walk.
    fn enter_held(
        &self,
        top: Result<InodeRef, Errno>,
        path: &[u8],
        project: u32,
    ) -> Result<TreeChange, QuotaError> {
        let failed = |errno| QuotaError::Path {
            path: path.into(),
            errno,
        };
        let top = top.map_err(failed)?;
        let done = match top.is_dir() && !is_control(top.number()) {
            true => self.enter_tree(top.number(), project).map_err(failed),
            false => Err(QuotaError::NotADirectory { path: path.into() }),
        };
        self.sb.release(top, &pin());
        done
    }

    fn enter_tree(&self, top: u64, project: u32) -> Result<TreeChange, Errno> {
        check_unpinned()?;
        // Two threads that change each other's trees would never finish. Nothing is pinned here.
        let _entering = self.sb.quotas.entering.lock_guard();
        let (mut done, mut directories) = self.enter_all(top, project)?;
        while directories > 0 {
            // An operation that creates or moves an inode reads the project of the directory under
            // a guard, and has entered the inode when that guard is gone.
            epoch::synchronize();
            let (missed, more) = self.enter_all(top, project)?;
            done.changed += missed.changed;
            directories = more;
        }
        Ok(done)
    }

    /// One walk over the tree; also returns how many directories were changed.
    fn enter_all(&self, top: u64, project: u32) -> Result<(TreeChange, u64), Errno> {
        let (mut done, mut directories) = (TreeChange::default(), 0);
        let mut walk = TreeWalk::from(self.sb, top);
        while walk.step(&mut |cx, inode, g| {
            if enter(cx, inode, project, g)? {
                done.changed += 1;
                directories += u64::from(inode.is_dir());
            } else {
                done.kept += 1;
            }
            Ok(())
        })? {}
        Ok((done, directories))
    }
}

/// A walk over all inodes below a directory, each once, directories before their contents. Inodes
/// that are removed meanwhile may be left out.
pub(super) struct TreeWalk<'v> {
    sb: &'v Superblock,
    top: u64,
    seen: HashSet<u64>,
    next: Vec<u64>,
}

impl<'v> TreeWalk<'v> {
    /// From directory `top`, which is seen first.
    pub fn from(sb: &'v Superblock, top: u64) -> TreeWalk<'v> {
        TreeWalk {
            sb,
            top,
            seen: HashSet::from([top]),
            next: vec![top],
        }
    }

    /// Calls `see` with the next inode; false if there is none. Nothing is pinned between two
    /// steps.
    pub fn step(
        &mut self,
        see: &mut dyn FnMut(&Ctx<'_>, &Inode, &Guard) -> Attempt<()>,
    ) -> Result<bool, Errno> {
        let Some(ino) = self.next.pop() else {
            return Ok(false);
        };
        let gone = |errno| matches!(errno, Errno::ESTALE | Errno::ENOENT);
        let is_dir = self.sb.run(&Caller::ROOT, |cx, g| {
            let inode = cx.sb.inode(ino, g)?;
            see(cx, inode, g)?;
            Ok(inode.is_dir())
        });
        match is_dir {
            Ok(true) => {}
            Ok(false) => return Ok(true),
            Err(errno) if gone(errno) && ino != self.top => return Ok(true),
            Err(errno) => return Err(errno),
        }
        let below = self.sb.run(&Caller::ROOT, |cx, g| {
            let mut below = Vec::new();
            let mut take = |entry: crate::attr::DirEntry<'_>| {
                if entry.name != b"." && entry.name != b".." {
                    below.push(entry.ino);
                }
                true
            };
            list::list_all(cx, cx.sb.inode(ino, g)?, &mut take, g)?;
            Ok(below)
        });
        match below {
            Ok(below) => {
                let new = below.into_iter().filter(|&ino| self.seen.insert(ino));
                self.next.extend(new);
            }
            Err(errno) if gone(errno) => {}
            Err(errno) => return Err(errno),
        }
        Ok(true)
    }
}

/// Changes one inode; true if it was of another project or did not pass it on.
fn enter(cx: &Ctx<'_>, inode: &Inode, project: u32, g: &Guard) -> Attempt<bool> {
    let now = ioctl::get_fsxattr(inode);
    let inherit = to_xflags(PROJINHERIT);
    let xflags = match inode.is_dir() && project != 0 {
        true => now.xflags | inherit,
        false => now.xflags & !inherit,
    };
    let new = FsXAttr {
        xflags,
        project,
        ..FsXAttr::default()
    };
    if (new.xflags, new.project) == (now.xflags, now.project) {
        return Ok(false);
    }
    ioctl::set_fsxattr(cx, inode, &new, g)?;
    Ok(true)
}

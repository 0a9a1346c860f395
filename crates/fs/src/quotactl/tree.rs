//! Making a directory tree a project.

use super::{Quota, QuotaError, check_id};
use crate::attr::FsXAttr;
use crate::caller::{Caller, Credentials};
use crate::errno::Errno;
use crate::flags::{PROJINHERIT, to_xflags};
use crate::inode::Node;
use crate::ops::{ioctl, list};
use crate::quota::{QuotaId, QuotaKind};
use crate::volume::{Core, Ctx, Step};
use hearth_sync::epoch::Guard;
use std::collections::HashSet;

/// What [`Quota::set_project_tree`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeChange {
    /// Inodes whose project changed.
    pub changed: u64,
    /// Inodes that had it already.
    pub kept: u64,
}

impl Quota {
    /// Gives the directory at `path`, and everything below it, the project id `project` and lets
    /// new inodes inherit it; 0 takes them out of any project. What the tree holds is charged to
    /// the project even above its limits.
    ///
    /// Directories go before what is in them, so whatever is made meanwhile inherits.
    ///
    /// # Errors
    /// The reason; after [`QuotaError::Path`] part of the tree may have changed, and doing it again
    /// goes on.
    pub fn set_project_tree(
        &self,
        path: impl AsRef<[u8]>,
        project: u32,
    ) -> Result<TreeChange, QuotaError> {
        let path = path.as_ref();
        self.keeps()?;
        self.is_on(QuotaKind::Project)?;
        check_id(QuotaId::project(project))?;
        let failed = |errno| match errno {
            Errno::ENOTDIR => QuotaError::NotADirectory { path: path.into() },
            errno => QuotaError::Path {
                path: path.into(),
                errno,
            },
        };
        let process = self.volume.process(Credentials::root());
        let fd = process
            .open(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)
            .map_err(failed)?;
        let top = process.fstat(fd).map_err(failed)?.ino;
        let mut done = TreeChange::default();
        walk(&self.volume.core, top, &mut |cx, node, g| {
            if enter(cx, node, project, g)? {
                done.changed += 1;
            } else {
                done.kept += 1;
            }
            Ok(())
        })
        .map_err(failed)?;
        Ok(done)
    }
}

/// Shows every inode below directory `top` to `see`, once each, directories before what is in them.
/// What goes meanwhile may be left out.
pub(super) fn walk(
    core: &Core,
    top: u64,
    see: &mut dyn FnMut(&Ctx<'_>, &Node, &Guard) -> Step<()>,
) -> Result<(), Errno> {
    let mut seen = HashSet::from([top]);
    let mut next = vec![top];
    while let Some(ino) = next.pop() {
        let gone = |errno| matches!(errno, Errno::ESTALE | Errno::ENOENT);
        let is_dir = core.run(&Caller::ROOT, |cx, g| {
            let node = cx.core.node(ino, g)?;
            see(cx, node, g)?;
            Ok(node.is_dir())
        });
        match is_dir {
            Ok(true) => {}
            Ok(false) => continue,
            Err(errno) if gone(errno) && ino != top => continue,
            Err(errno) => return Err(errno),
        }
        let below = core.run(&Caller::ROOT, |cx, g| {
            let mut below = Vec::new();
            let mut take = |entry: crate::attr::DirEntry<'_>| {
                if entry.name != b"." && entry.name != b".." {
                    below.push(entry.ino);
                }
                true
            };
            list::list(cx, cx.core.node(ino, g)?, 0, true, &mut take, g)?;
            Ok(below)
        });
        match below {
            Ok(below) => next.extend(below.into_iter().filter(|&ino| seen.insert(ino))),
            Err(errno) if gone(errno) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// True if the inode was of another project, or did not hand it on.
fn enter(cx: &Ctx<'_>, node: &Node, project: u32, g: &Guard) -> Step<bool> {
    let now = ioctl::get_fsxattr(node);
    let inherit = to_xflags(PROJINHERIT);
    let xflags = match node.is_dir() && project != 0 {
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
    ioctl::set_fsxattr(cx, node, &new, g)?;
    Ok(true)
}

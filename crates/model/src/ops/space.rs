//! Size and allocation: truncate, fallocate, copy_file_range.

use libc::{EBADF, EFBIG, EINVAL, EISDIR, EOPNOTSUPP, EOVERFLOW, EPERM, O_APPEND, O_NOATIME};
use libc::{FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE};
use libc::{FALLOC_FL_PUNCH_HOLE, FALLOC_FL_UNSHARE_RANGE, FALLOC_FL_ZERO_RANGE};

use crate::data::{MAX, PAGE};
use crate::model::{Answer, Model};
use crate::node::NodeId;
use crate::op::{CWD, Fd};
use crate::outcome::Outcome;
use crate::permission::WRITE;

/// Ranges of more pages than this are left to the filesystem: it may be out of space.
const ALLOCATION_MAX: u64 = 1 << 12;

impl Model {
    pub(crate) fn truncate(&mut self, p: usize, path: &[u8], len: i64) -> Answer {
        let size = u64::try_from(len).map_err(|_| EINVAL)?;
        let id = self.lookup(p, CWD, path, true)?;
        let node = self.node(id);
        if node.is_dir() {
            return Err(EISDIR);
        }
        let old = node.pages().ok_or(EINVAL)?.size();
        self.may(p, id, WRITE)?;
        if self.node(id).append_only() {
            return Err(EPERM);
        }
        if size == old {
            // tmpfs counts it as a modification if there are pages, others never.
            let is_empty = node.pages().is_some_and(|pages| pages.count().most == 0);
            if !is_empty {
                return Ok(Outcome::Unspecified);
            }
            self.strip_privileges(p, id);
            return Ok(Outcome::Done);
        }
        self.change_data(p, id);
        self.set_size(id, size);
        Ok(Outcome::Done)
    }

    pub(crate) fn truncate_fd(&mut self, p: usize, fd: Fd, len: i64) -> Answer {
        let size = u64::try_from(len).map_err(|_| EINVAL)?;
        let file = self.file(p, fd)?.clone();
        if self.node(file.node).pages().is_none() || !file.writable() {
            return Err(EINVAL);
        }
        if self.node(file.node).append_only() {
            return Err(EPERM);
        }
        if self.is_frozen(p, fd)? {
            return Ok(Outcome::Unspecified);
        }
        self.change_data(p, file.node);
        self.set_size(file.node, size);
        Ok(Outcome::Done)
    }

    pub(crate) fn allocate(
        &mut self,
        p: usize,
        fd: Fd,
        mode: i32,
        offset: i64,
        len: i64,
    ) -> Answer {
        let file = self.file(p, fd)?.clone();
        let kind = mode & !FALLOC_FL_KEEP_SIZE;
        let keep_size = mode != kind;
        let offset = u64::try_from(offset).map_err(|_| EINVAL)?;
        let len = u64::try_from(len)
            .ok()
            .filter(|len| *len > 0)
            .ok_or(EINVAL)?;
        match (kind, keep_size) {
            (0 | FALLOC_FL_ZERO_RANGE, _) | (FALLOC_FL_PUNCH_HOLE, true) => {}
            (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE, false) => {}
            (FALLOC_FL_UNSHARE_RANGE, _) => {}
            _ => return Err(EOPNOTSUPP),
        }
        if !file.writable() {
            return Err(EBADF);
        }
        let node = self.node(file.node);
        if (kind != 0 && node.append_only()) || node.immutable() {
            return Err(EPERM);
        }
        let pages = node.pages().ok_or(libc::ENODEV)?;
        let size = pages.size();
        if offset + len > MAX {
            return Err(EFBIG);
        }
        let aligned = offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        match kind {
            // Known to Linux but not to a filesystem without shared blocks.
            FALLOC_FL_UNSHARE_RANGE => return Err(EOPNOTSUPP),
            FALLOC_FL_COLLAPSE_RANGE if !aligned || offset + len >= size => return Err(EINVAL),
            FALLOC_FL_INSERT_RANGE if !aligned || offset >= size => return Err(EINVAL),
            FALLOC_FL_INSERT_RANGE if size + len > MAX => return Err(EFBIG),
            FALLOC_FL_INSERT_RANGE if pages.insert_overflows(offset, len) => return Err(EINVAL),
            0 | FALLOC_FL_ZERO_RANGE if len / PAGE > ALLOCATION_MAX => {
                return Ok(Outcome::Unspecified);
            }
            _ => {}
        }
        self.change_data(p, file.node);
        let pages = self.node_mut(file.node).pages_mut().expect("checked above");
        match kind {
            FALLOC_FL_PUNCH_HOLE => pages.punch(offset, len),
            FALLOC_FL_ZERO_RANGE => pages.zero_range(offset, len, keep_size),
            FALLOC_FL_COLLAPSE_RANGE => pages.collapse(offset, len),
            FALLOC_FL_INSERT_RANGE => pages.insert(offset, len),
            _ => pages.allocate(offset, len, keep_size),
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn copy(
        &mut self,
        p: usize,
        (from, from_at): (Fd, Option<i64>),
        (to, to_at): (Fd, Option<i64>),
        len: usize,
        flags: u32,
    ) -> Answer {
        let (source, target) = (self.file(p, from)?.clone(), self.file(p, to)?.clone());
        if flags != 0 {
            return Err(EINVAL);
        }
        let (source_node, target_node) = (self.node(source.node), self.node(target.node));
        if source_node.is_dir() || target_node.is_dir() {
            return Err(EISDIR);
        }
        let size = source_node.pages().ok_or(EINVAL)?.size();
        target_node.pages().ok_or(EINVAL)?;
        if !source.readable() || !target.writable() || target.flags & O_APPEND != 0 {
            return Err(EBADF);
        }
        if target_node.immutable() {
            return Err(EPERM);
        }
        let start = from_at.map_or(source.offset, |at| at as u64);
        let place = to_at.map_or(target.offset, |at| at as u64);
        if start.checked_add(len as u64).is_none() || place.checked_add(len as u64).is_none() {
            return Err(EOVERFLOW);
        }
        let mut count = (len as u64).min(size.saturating_sub(start));
        if place == MAX {
            return Err(EFBIG);
        }
        if start > MAX || place > MAX {
            return Err(EINVAL);
        }
        count = count.min(MAX - place);
        let overlaps = place + count > start && place < start + count;
        if source.node == target.node && overlaps {
            return Err(EINVAL);
        }
        if count == 0 {
            return Ok(Outcome::Number(0));
        }
        let data = self
            .node(source.node)
            .pages()
            .expect("checked above")
            .read(start, count as usize);
        if source.flags & O_NOATIME == 0 {
            self.node_mut(source.node).accessed();
        }
        self.change_data(p, target.node);
        let pages = self
            .node_mut(target.node)
            .pages_mut()
            .expect("checked above");
        pages.write_copy(place, &data);
        if from_at.is_none() {
            self.file_mut(p, from)?.offset = start + count;
        }
        if to_at.is_none() {
            self.file_mut(p, to)?.offset = place + count;
        }
        Ok(Outcome::Number(count))
    }

    pub(crate) fn set_size(&mut self, id: NodeId, size: u64) {
        if let Some(pages) = self.node_mut(id).pages_mut() {
            pages.truncate(size);
        }
    }
}

//! utimensat.

use libc::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, EINVAL, EPERM};

use crate::model::{Answer, Model};
use crate::node::NodeId;
use crate::op::{Fd, SetTime};
use crate::ops::attributes::at_flags;
use crate::outcome::{Outcome, Stamp};
use crate::permission::WRITE;

impl Model {
    pub(crate) fn set_times(
        &mut self,
        p: usize,
        dirfd: Fd,
        path: &[u8],
        times: [SetTime; 2],
        flags: i32,
    ) -> Answer {
        if times == [SetTime::Omit; 2] {
            return Ok(Outcome::Done);
        }
        let how = at_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
        let node = self.lookup_at(p, dirfd, path, how)?;
        self.set_node_times(p, node, times)
    }

    pub(crate) fn set_times_fd(&mut self, p: usize, fd: Fd, times: [SetTime; 2]) -> Answer {
        if times == [SetTime::Omit; 2] {
            return Ok(Outcome::Done);
        }
        let node = self.file(p, fd)?.node;
        self.set_node_times(p, node, times)
    }

    fn set_node_times(&mut self, p: usize, id: NodeId, times: [SetTime; 2]) -> Answer {
        let node = self.node(id);
        if times
            .iter()
            .any(|t| matches!(t, SetTime::At(_, nsec) if *nsec >= 1_000_000_000))
        {
            return Err(EINVAL);
        }
        let touch = times == [SetTime::Now; 2];
        if node.immutable() || (node.append_only() && !touch) {
            return Err(EPERM);
        }
        if !self.owns(p, id) {
            match touch {
                true => self.may(p, id, WRITE)?,
                false => return Err(EPERM),
            }
        }
        let node = self.node_mut(id);
        for (stamp, time) in [(&mut node.atime, times[0]), (&mut node.mtime, times[1])] {
            match time {
                SetTime::Now => *stamp = Stamp::Now,
                SetTime::At(sec, nsec) => *stamp = Stamp::of(sec, nsec),
                SetTime::Omit => {}
            }
        }
        Ok(Outcome::Done)
    }
}

//! Listing directories.

use libc::{EBADF, ENOENT, ENOTDIR, O_NOATIME};

use crate::bytes::Bytes;
use crate::model::{Answer, Model};
use crate::node::NodeId;
use crate::op::{CWD, Fd};
use crate::outcome::{Entry, Kind, Outcome};
use crate::permission::READ;

impl Model {
    pub(crate) fn list(&mut self, p: usize, path: &[u8]) -> Answer {
        let dir = self.lookup(p, CWD, path, true)?;
        if !self.node(dir).is_dir() {
            return Err(ENOTDIR);
        }
        self.may(p, dir, READ)?;
        let mut entries = self.list_node(dir, true)?;
        entries.retain(|entry| !matches!(&entry.name[..], b"." | b".."));
        Ok(Outcome::Entries(entries))
    }

    pub(crate) fn list_fd(&mut self, p: usize, fd: Fd) -> Answer {
        let file = self.file(p, fd)?.clone();
        if !file.readable() && self.node(file.node).is_dir() {
            return Err(EBADF);
        }
        self.list_node(file.node, file.flags & O_NOATIME == 0)
            .map(Outcome::Entries)
    }

    fn list_node(&mut self, dir: NodeId, access: bool) -> Answer<Vec<Entry>> {
        let directory = self.node(dir).directory().ok_or(ENOTDIR)?;
        if directory.removed {
            return Err(ENOENT);
        }
        let entry = |name: &[u8], ino: NodeId, kind| Entry {
            name: Bytes(name.to_vec()),
            kind,
            ino,
        };
        let mut entries: Vec<Entry> = directory
            .entries
            .iter()
            .map(|(name, id)| entry(name, *id, self.node(*id).kind()))
            .collect();
        entries.push(entry(b".", dir, Kind::Directory));
        entries.push(entry(b"..", 0, Kind::Directory));
        entries.sort();
        if access {
            self.node_mut(dir).accessed();
        }
        Ok(entries)
    }
}

//! Filesystems that tell late what they have allocated: FUSE and network filesystems when a file is
//! closed, ZFS seconds after. What was reserved for a write stays charged until then.

use super::Quotas;
use super::charged::Record;
use super::counting::Key;
use super::settle::Touched;
use crate::identity::Identity;
use crate::node::Node;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::{Arc, Weak, thread};
use rustix::fd::BorrowedFd;
use rustix::fs::fstatfs;
use std::collections::HashMap;
use std::time::{Duration, Instant};

lock_class!(LateLock = "host.late", 815);

/// ZFS writes its transaction groups every 5 s, and tells then.
const UNTIL_TOLD: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);
/// `f_type` of ext4, XFS, tmpfs, btrfs and f2fs: their `st_blocks` has what is yet to be written
/// back.
const TELL_AT_ONCE: [u64; 5] = [0xEF53, 0x5846_5342, 0x0102_1994, 0x9123_683E, 0xF2F5_2010];

/// Files whose blocks may be told late.
#[derive(Debug)]
pub struct Late {
    /// Whether the filesystem of the root tells at once.
    is_root_prompt: bool,
    quotas: Weak<Quotas>,
    state: Lock<LateLock, LateFiles>,
}

#[derive(Debug, Default)]
struct LateFiles {
    files: HashMap<Identity, Arc<Node>>,
    /// A thread looks after them.
    is_swept: bool,
}

impl LateFiles {
    /// Takes out the file that has this identity, if it is one that is meant.
    fn take(&mut self, id: &Identity, is: impl Fn(&Arc<Node>) -> bool) -> Option<Arc<Node>> {
        self.files.get(id).filter(|one| is(one))?;
        self.files.remove(id)
    }
}

impl Late {
    /// For `quotas` of the directory that is open as `root`.
    pub fn of(root: BorrowedFd<'_>, quotas: &Weak<Quotas>) -> Late {
        let kind = fstatfs(root).map(|found| found.f_type as u64);
        Late {
            is_root_prompt: kind.is_ok_and(|kind| TELL_AT_ONCE.contains(&kind)),
            quotas: quotas.clone(),
            state: Lock::default(),
        }
    }

    /// Whether something is charged that was not told yet.
    pub fn has_some(&self) -> bool {
        !self.state.lock().files.is_empty()
    }

    /// The files, by device and inode number.
    pub fn by_key(&self) -> HashMap<Key, Arc<Node>> {
        let state = self.state.lock();
        let files = state.files.iter();
        files
            .map(|(id, node)| ((id.dev, id.ino), Arc::clone(node)))
            .collect()
    }

    /// Looks after a file from now on. One thread does, while there are any.
    pub fn add(&self, node: &Arc<Node>) {
        let mut state = self.state.lock();
        state.files.insert(node.id, Arc::clone(node));
        let is_swept = std::mem::replace(&mut state.is_swept, true);
        drop(state);
        if is_swept {
            return;
        }
        let quotas = self.quotas.clone();
        let thread = thread::Builder::new().name("hearth-late".into());
        let thread = thread.spawn(move || {
            loop {
                thread::sleep(LOOK);
                if quotas.upgrade().is_none_or(|quotas| quotas.settle_late()) {
                    break;
                }
            }
        });
        if thread.is_err() {
            // The next file tries again.
            self.state.lock().is_swept = false;
        }
    }

    /// The thread may end: there are none.
    fn is_over(&self) -> bool {
        let mut state = self.state.lock();
        state.is_swept = !state.files.is_empty();
        !state.is_swept
    }
}

impl Quotas {
    /// The file was written to: if its filesystem tells late, what is charged for it stays for a
    /// while.
    pub fn wrote(&self, touched: &mut Touched<'_>) {
        let node = touched.node;
        if !self.tells_late(node) {
            return;
        }
        let until = Instant::now() + UNTIL_TOLD;
        if touched.record().late_until.replace(until).is_none() {
            self.late.add(node);
        }
    }

    fn tells_late(&self, node: &Node) -> bool {
        !self.late.is_root_prompt || node.id.dev != self.tree.nodes.root().id.dev
    }

    /// What the ledger holds for a file that the kernel has forgotten, and that comes back as
    /// `node`.
    pub fn take_late(&self, node: &Arc<Node>) -> Option<Record> {
        if !self.tells_late(node) || node.charged.record().lock().is_some() {
            return None;
        }
        let is_other = |one: &Arc<Node>| !Arc::ptr_eq(one, node);
        let old = self.late.state.lock().take(&node.id, is_other)?;
        old.charged.record().lock().take()
    }

    /// Settles the files whose time is over. True if none are left.
    fn settle_late(&self) -> bool {
        let files: Vec<_> = self.late.state.lock().files.values().cloned().collect();
        let now = Instant::now();
        for node in files {
            if let Some(record) = node.charged.record().lock().as_mut() {
                if record.late_until.is_some_and(|until| until > now) {
                    continue;
                }
                record.late_until = None;
            }
            // A write that comes in between adds the file once more.
            let is_same = |one: &Arc<Node>| Arc::ptr_eq(one, &node);
            let taken = self.late.state.lock().take(&node.id, is_same);
            if taken.is_some() {
                self.settle_node(&node);
            }
        }
        self.late.is_over()
    }
}

//! What is known of one file with heat.

use crate::identity::Identity;
use crate::node::Node;
use hearth::heat::{ForeignFacts, ForeignFile};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, Weak};
use rustix::fs::Statx;

lock_class!(KnownLock = "host.heat-known", 974);

/// What is known of a file with heat.
///
/// The facts are relaxed: each is a statistic of its own.
#[derive(Debug)]
pub struct Known {
    /// The file of records. Immutable.
    pub file: ForeignFile,
    /// The inode of the host. Immutable.
    pub id: Identity,
    uid: AtomicU32,
    gid: AtomicU32,
    project: AtomicU32,
    size: AtomicU64,
    seen: Lock<KnownLock, LastSeen>,
}

#[derive(Debug)]
struct LastSeen {
    /// Below the source, without a slash before it; empty if it never was seen.
    path: Box<[u8]>,
    /// Its node, as long as the kernel refers to it.
    node: Weak<Node>,
}

impl Known {
    /// A file that programs see by `number`.
    pub fn new(number: u64, id: Identity, facts: &ForeignFacts, path: &[u8]) -> Known {
        let file = ForeignFile {
            number,
            generation: id.generation(),
        };
        Known {
            file: file.normal(),
            id,
            uid: AtomicU32::new(facts.uid),
            gid: AtomicU32::new(facts.gid),
            project: AtomicU32::new(facts.project),
            size: AtomicU64::new(facts.size),
            seen: Lock::new(LastSeen {
                path: path.into(),
                node: Weak::new(),
            }),
        }
    }

    /// Owners and size.
    pub fn facts(&self) -> ForeignFacts {
        ForeignFacts {
            uid: self.uid.load(Relaxed),
            gid: self.gid.load(Relaxed),
            project: self.project.load(Relaxed),
            size: self.size.load(Relaxed),
        }
    }

    /// Owners and size are these now.
    pub fn refresh(&self, uid: u32, gid: u32, size: u64) {
        self.uid.store(uid, Relaxed);
        self.gid.store(gid, Relaxed);
        self.size.store(size, Relaxed);
    }

    /// What the host said just now.
    pub fn refresh_by(&self, stat: &Statx) {
        self.refresh(stat.stx_uid, stat.stx_gid, stat.stx_size);
    }

    /// It reaches at least this far.
    pub fn reaches(&self, end: u64) {
        // Looked at first: writes of one file may come from several cores.
        if self.size.load(Relaxed) < end {
            self.size.fetch_max(end, Relaxed);
        }
    }

    /// The path where it was last seen, if there is one.
    pub fn path(&self) -> Option<Box<[u8]>> {
        let seen = self.seen.lock();
        (!seen.path.is_empty()).then(|| seen.path.clone())
    }

    /// It was seen there.
    pub fn set_path(&self, path: &[u8]) {
        let old = std::mem::replace(&mut self.seen.lock().path, path.into());
        drop(old);
    }

    /// Its node is this one, which knows its project where quotas are kept.
    pub fn set_node(&self, node: &Arc<Node>) {
        if let Some(project) = node.charged.project() {
            self.project.store(project, Relaxed);
        }
        let old = std::mem::replace(&mut self.seen.lock().node, Arc::downgrade(node));
        drop(old);
    }

    /// Its node, while there is one.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.seen.lock().node.upgrade()
    }
}

//! Small writes of several writers share a segment.
//!
//! A write joins the open group and packs its pages there, beside the others. The one that opened
//! the group leads: as soon as it has its turn it closes the group, waits for those that are still
//! packing and stores the segment. Nobody waits for a group to become full: while segments are
//! being stored, the next group gathers.
//!
//! ```text
//! Groups::state
//!   Group::parts      neither is held while bytes are packed or stored
//! ```

use super::coder::{BlockOwner, Coder, Target};
use super::folder::Folder;
use super::layout::{HEAD, HEADER, PAGE, Summary, head};
use super::stored::Written;
use crate::codec::OVERHEAD;
use crate::error::{Error, Result};
use bytes::Bytes;
use hearth_backend::{Errno, PageSource};
use hearth_sync::primitive::{Arc, Condvar, Mutex};
use std::ops::Range;

/// Bytes of a segment that a group may fill, before they are packed.
const ROOM: usize = 32 << 20;
/// Groups that may be stored at once: with two, one is written while the other is synced.
const TURNS: usize = 2;

/// The groups of one directory of segments.
#[derive(Debug, Default)]
pub struct Groups {
    state: Mutex<Gathering>,
    /// A turn became free.
    turn: Condvar,
}

/// Protected by [`Groups::state`].
#[derive(Debug, Default)]
struct Gathering {
    /// Writers join this one.
    open: Option<Arc<Group>>,
    /// Bytes that its members may add.
    promised: usize,
    /// Groups that are being stored.
    storing: usize,
}

/// The writes of one segment.
#[derive(Debug)]
struct Group {
    /// Immutable.
    target: Target,
    parts: Mutex<GroupParts>,
    /// A member has packed, or the segment is stored.
    changed: Condvar,
}

/// Protected by [`Group::parts`].
#[derive(Debug)]
struct GroupParts {
    /// Members that still pack.
    packing: usize,
    /// What the others packed.
    packed: Vec<Bytes>,
    /// Length of the segment so far.
    len: usize,
    /// What its trailer will say.
    summary: Summary,
    /// How storing it ended.
    stored: Option<Result<()>>,
}

impl Groups {
    /// Stores the pages of `source`, cut into `blocks`, in a segment with what others write now;
    /// `next` gives a new segment.
    pub fn write(
        &self,
        coder: &Coder,
        files: &Folder,
        next: impl FnOnce() -> Target,
        owner: BlockOwner,
        source: &dyn PageSource,
        blocks: &[Range<u64>],
    ) -> Result<Vec<Written>> {
        let (group, leads) = self.join(coder, room_of(blocks), next);
        let leader = leads.then(|| Leader {
            groups: self,
            group: &group,
            files,
            ended: Err(Error::Io {
                op: "write",
                path: super::files::shown(group.target.segment),
                errno: Errno::ECANCELED,
            }),
            has_turn: false,
        });
        let written = Member(&group).pack(coder, owner, source, blocks);
        if let Some(leader) = leader {
            leader.store();
        }
        group.end().map(|()| written)
    }

    /// Joins the open group with up to `bytes` bytes, or opens one and leads it.
    fn join(
        &self,
        coder: &Coder,
        bytes: usize,
        next: impl FnOnce() -> Target,
    ) -> (Arc<Group>, bool) {
        let mut state = self.state.lock();
        if state.promised + bytes <= ROOM
            && let Some(group) = state.open.clone()
        {
            state.promised += bytes;
            group.parts.lock().packing += 1;
            return (group, false);
        }
        let target = next();
        let head = head(coder.place(target.segment), target.epoch);
        let group = Arc::new(Group {
            target,
            parts: Mutex::new(GroupParts {
                packing: 1,
                packed: vec![Bytes::copy_from_slice(&head)],
                len: HEAD,
                summary: Summary::new(&head),
                stored: None,
            }),
            changed: Condvar::new(),
        });
        state.open = Some(Arc::clone(&group));
        state.promised = bytes;
        (group, true)
    }

    /// Waits for a turn and closes the group: none joins it any more.
    fn begin_turn(&self, group: &Arc<Group>) {
        let mut state = self.state.lock();
        while state.storing >= TURNS {
            self.turn.wait(&mut state);
        }
        state.storing += 1;
        self.close(&mut state, group);
    }

    fn end_turn(&self) {
        self.state.lock().storing -= 1;
        self.turn.notify_one();
    }

    fn close(&self, state: &mut Gathering, group: &Arc<Group>) {
        if state.open.as_ref().is_some_and(|o| Arc::ptr_eq(o, group)) {
            state.open = None;
        }
    }
}

impl Group {
    /// All that members packed, with head and trailer.
    fn gathered(&self) -> Vec<Bytes> {
        let mut parts = self.parts.lock();
        while parts.packing > 0 {
            self.changed.wait(&mut parts);
        }
        let mut packed = std::mem::take(&mut parts.packed);
        packed.push(Bytes::copy_from_slice(&parts.summary.trailer()));
        packed
    }

    /// Waits until the leader has stored the segment, or failed.
    fn end(&self) -> Result<()> {
        let mut parts = self.parts.lock();
        loop {
            match &parts.stored {
                Some(ended) => return ended.clone(),
                None => self.changed.wait(&mut parts),
            }
        }
    }
}

/// Bytes that blocks of these pages take where none of them packs.
fn room_of(blocks: &[Range<u64>]) -> usize {
    let room = |block: &Range<u64>| HEADER + OVERHEAD + (block.end - block.start) as usize * PAGE;
    blocks.iter().map(room).sum()
}

/// One that packs for a group. Dropped, it no longer does.
struct Member<'a>(&'a Group);

impl Member<'_> {
    fn pack(
        self,
        coder: &Coder,
        owner: BlockOwner,
        source: &dyn PageSource,
        blocks: &[Range<u64>],
    ) -> Vec<Written> {
        let mut bytes = Vec::with_capacity(room_of(blocks));
        let mut packed = Vec::new();
        let encode = |block: &Range<u64>| {
            let pages = (source, block.clone());
            coder.encode(self.0.target, owner, pages, &mut packed, &mut bytes)
        };
        let mut written: Vec<Written> = blocks.iter().map(encode).collect();
        let mut parts = self.0.parts.lock();
        for block in &mut written {
            let at = block.stored.at as usize;
            parts.summary.add(&bytes[at..at + HEADER]);
            block.stored.at = (parts.len + at) as u32;
        }
        parts.len += bytes.len();
        parts.packed.push(Bytes::from(bytes));
        written
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.parts.lock().packing -= 1;
        self.0.changed.notify_all();
    }
}

/// The one that stores a group's segment. Dropped, it has told the members how that ended.
struct Leader<'a> {
    groups: &'a Groups,
    group: &'a Arc<Group>,
    files: &'a Folder,
    ended: Result<()>,
    has_turn: bool,
}

impl Leader<'_> {
    fn store(mut self) {
        self.groups.begin_turn(self.group);
        self.has_turn = true;
        let parts = self.group.gathered();
        self.ended = self.files.put(self.group.target.segment, &parts);
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if self.has_turn {
            self.groups.end_turn();
        }
        self.groups.close(&mut self.groups.state.lock(), self.group);
        self.group.parts.lock().stored = Some(self.ended.clone());
        self.group.changed.notify_all();
    }
}

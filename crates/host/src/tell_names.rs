//! Telling listeners what callers do to names (`docs/design/events.md`). Nothing is looked for
//! while nobody listens.

use crate::attributes;
use crate::heat::path_of;
use crate::identity::Identity;
use crate::node::Node;
use crate::vfs::HostVfs;
use hearth::{Attr, Caller, Clock, EventInode, Kind, NameChange, NamePlace, SystemClock};
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;
use rustix::fs::RenameFlags;

/// An inode as programs see it, and the kind.
type NameMeaning = (EventInode, Kind);
/// A name in a directory.
type At<'a> = (&'a Arc<Node>, &'a [u8]);

/// What two names meant before a rename.
pub struct BeforeRename {
    source: Option<NameMeaning>,
    target: Option<NameMeaning>,
}

impl HostVfs {
    /// Tells that a name was made, of what has these attributes, as far as they can be told.
    pub fn tell_made(&self, caller: &Caller<'_>, at: At<'_>, attr: Option<&Attr>) {
        if self.names.is_watched() {
            let what = attr.map(|attr| {
                let id = EventInode {
                    ino: attr.shown_ino,
                    generation: attr.generation,
                };
                (id, attr.kind)
            });
            self.tell(caller, what, at, NameChange::Create);
        }
    }

    /// What a name means that is about to be removed.
    pub fn before_removal(&self, at: At<'_>) -> Option<NameMeaning> {
        self.names.is_watched().then(|| self.seen(at)).flatten()
    }

    /// Tells that a name was removed, with what it meant [before](HostVfs::before_removal).
    pub fn tell_removed(&self, caller: &Caller<'_>, at: At<'_>, seen: Option<NameMeaning>) {
        if self.names.is_watched() {
            self.tell(caller, seen, at, NameChange::Remove);
        }
    }

    /// What the names of a rename mean.
    pub fn before_rename(&self, from: At<'_>, to: At<'_>) -> Option<BeforeRename> {
        self.names.is_watched().then(|| BeforeRename {
            source: self.seen(from),
            target: self.seen(to),
        })
    }

    /// Tells that a name was changed, if somebody listened [before](HostVfs::before_rename). Two
    /// names of one inode stay as they are.
    pub fn tell_renamed(
        &self,
        caller: &Caller<'_>,
        (from, to): (At<'_>, At<'_>),
        flags: u32,
        before: Option<BeforeRename>,
    ) {
        let Some(BeforeRename { source, target }) = before else {
            return;
        };
        if source.is_some() && source == target {
            return;
        }
        let flags = RenameFlags::from_bits_retain(flags);
        let change = NameChange::Rename {
            to: self.place(to),
            displaced: target,
            exchange: flags.contains(RenameFlags::EXCHANGE),
        };
        self.tell(caller, source, from, change);
        if flags.contains(RenameFlags::WHITEOUT) {
            self.tell(caller, self.seen(from), from, NameChange::Create);
        }
    }

    fn tell(&self, caller: &Caller<'_>, what: Option<NameMeaning>, at: At<'_>, change: NameChange) {
        let at = self.place(at);
        self.names.tell(caller, SystemClock.now(), what, at, change);
    }

    /// The number and generation of an inode, as programs see them.
    pub(crate) fn shown_id(&self, id: &Identity) -> EventInode {
        EventInode {
            ino: self.tree.shown(id.dev, id.ino),
            generation: attributes::generation(id),
        }
    }

    /// A name with the path of its directory as of now.
    fn place(&self, (parent, name): At<'_>) -> NamePlace {
        let tree = &self.tree;
        let above = match Arc::ptr_eq(parent, tree.nodes.root()) {
            true => Some(Box::default()),
            false => tree
                .reach(parent)
                .ok()
                .and_then(|directory| path_of(tree, directory.as_fd())),
        };
        let path = above.map(|above| match above.is_empty() {
            true => [b"/", name].concat().into(),
            false => [b"/", &*above, b"/", name].concat().into(),
        });
        NamePlace {
            path,
            ..NamePlace::new(self.shown_id(&parent.id), name)
        }
    }

    fn seen(&self, (parent, name): At<'_>) -> Option<NameMeaning> {
        let directory = self.tree.reach(parent).ok()?;
        let found = self.tree.find(directory.as_fd(), name).ok()?;
        let kind = attributes::kind(&found.stat).ok()?;
        Some((self.shown_id(&found.id), kind))
    }
}

//! Paths of events: what a listener knows of the names of directories, as of each event.

use super::event::{EventInode, NameChange, NameEvent, NamePlace};
use crate::attr::Kind;
use crate::caller::Caller;
use crate::errno::Errno;
use crate::number::ROOT;
use crate::ops::lookup::above;
use crate::ops::path::name_of;
use crate::superblock::Superblock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Directories whose names are known at most.
const MOST: usize = 16_384;
/// Directories above each other at most: what was met while others moved it may lead in a circle.
const DEPTH: usize = 4096;

/// The directory above, and the name in it.
type DirectoryName = (EventInode, Box<[u8]>);

/// Where directories are, as of the last event that was read.
#[derive(Default)]
pub(super) struct Places(HashMap<EventInode, DirectoryName>);

impl Places {
    /// Everything is forgotten: events were lost.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Gives each event the path that its names had then. Nothing may be pinned or locked: a
    /// directory that is not known is looked for in the volume.
    pub fn complete(&mut self, sb: &Superblock, events: &mut [NameEvent]) {
        if self.0.len() > MOST {
            self.forget();
        }
        for (directory, place) in before(events) {
            // Also in place of what was found: the volume may have been ahead of the events.
            self.0.insert(directory, place);
        }
        for event in events.iter_mut().filter(|event| !event.is_foreign) {
            if event.at.path.is_none() {
                event.at.path = self.path(sb, &event.at);
            }
            self.apply(event);
            if let NameChange::Rename { to, .. } = &mut event.change
                && to.path.is_none()
            {
                to.path = self.path(sb, to);
            }
        }
    }

    /// Learns what an event says of directories.
    fn apply(&mut self, event: &NameEvent) {
        let here = || (event.at.directory, event.at.name.clone());
        match (&event.change, event.directory()) {
            (NameChange::Create, Some(id)) => drop(self.0.insert(id, here())),
            (NameChange::Remove, Some(id)) => drop(self.0.remove(&id)),
            (NameChange::Rename { to, .. }, Some(id)) => {
                self.0.insert(id, (to.directory, to.name.clone()));
            }
            _ => {}
        }
        if let NameChange::Rename {
            displaced: Some((id, Kind::Directory)),
            exchange,
            ..
        } = event.change
        {
            match exchange {
                true => drop(self.0.insert(id, here())),
                false => drop(self.0.remove(&id)),
            }
        }
    }

    /// The path of a name; `None` if a directory above it is gone, or cannot be read.
    fn path(&mut self, sb: &Superblock, at: &NamePlace) -> Option<Box<[u8]>> {
        let mut names = vec![at.name.clone()];
        let mut directory = at.directory;
        while directory.ino != ROOT {
            if names.len() > DEPTH {
                return None;
            }
            let place = match self.0.entry(directory) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(unknown) => unknown.insert(find(sb, directory)?).clone(),
            };
            names.push(place.1);
            directory = place.0;
        }
        let path = names.iter().rev().flat_map(|name| [b"/", &name[..]]);
        Some(path.collect::<Vec<_>>().concat().into())
    }
}

/// Where the directories that events move or remove were before the first of these events.
fn before(events: &[NameEvent]) -> HashMap<EventInode, DirectoryName> {
    let mut places = HashMap::new();
    for event in events.iter().rev() {
        let here = || (event.at.directory, event.at.name.clone());
        if let Some(id) = event.directory() {
            match event.change {
                NameChange::Create => drop(places.remove(&id)),
                NameChange::Remove | NameChange::Rename { .. } => {
                    places.insert(id, here());
                }
            }
        }
        if let NameChange::Rename {
            to,
            displaced: Some((id, Kind::Directory)),
            ..
        } = &event.change
            && !event.is_foreign
        {
            places.insert(*id, (to.directory, to.name.clone()));
        }
    }
    places
}

/// Looks a directory up by its number, in the listing of its parent.
fn find(sb: &Superblock, directory: EventInode) -> Option<DirectoryName> {
    let found = sb.run(&Caller::ROOT, |cx, g| {
        let inode = cx.sb.inode(directory.ino, g)?;
        if inode.meta.is_unlinked() || EventInode::of(inode) != directory {
            return Ok(None);
        }
        let table = inode.directory().ok_or(Errno::ENOTDIR)?;
        let count = table.moves().peek();
        let parent = above(cx, inode, table, g)?;
        let name = name_of(cx, (inode, table), (parent, count), g)?;
        Ok(Some((EventInode::of(parent), name.into())))
    });
    found.ok().flatten()
}

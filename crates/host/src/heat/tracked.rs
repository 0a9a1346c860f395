//! The answers to what heat asks of the files of a directory: see [`ForeignFiles`].

use super::files::Files;
use super::kept;
use super::known::Known;
use super::names::{self, Whereabouts};
use crate::attributes;
use crate::heat_by::HeatBy;
use crate::identity::Identity;
use crate::say::say;
use crate::state::StateDir;
use crate::tree::Tree;
use hearth::heat::{ForeignFacts, ForeignFile, ForeignFiles, KeptGroup, PathInfo};
use hearth::{Kind, Result};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use rustix::fd::AsFd;
use rustix::fs::{Statx, fstatvfs};
use std::collections::{HashMap, HashSet};

lock_class!(FailedLock = "host.heat-failed", 973);

/// The name of what is kept.
pub const KEPT: &str = "heat";

/// The files of a directory that have heat.
#[derive(Debug)]
pub struct TrackedFiles {
    pub tree: Arc<Tree>,
    pub files: Files,
    pub by: HeatBy,
    /// Where heat is kept.
    state: Option<StateDir>,
    /// Whether heat could not be kept the last time, which is said once.
    failed: Lock<FailedLock, bool>,
}

impl TrackedFiles {
    /// No file yet.
    pub fn new(tree: Arc<Tree>, by: HeatBy, state: Option<StateDir>) -> TrackedFiles {
        TrackedFiles {
            tree,
            files: Files::new(),
            by,
            state,
            failed: Lock::new(false),
        }
    }

    /// What was kept; what cannot be read is put aside, and said.
    pub fn take_kept(&self) -> Vec<KeptGroup> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let place = state.path().join(KEPT);
        let bytes = match state.read(KEPT) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Vec::new(),
            Err(error) => {
                say(&format!(
                    "heat of before cannot be read: {}: {error}",
                    place.display()
                ));
                return Vec::new();
            }
        };
        let Some(kept) = kept::decode(&bytes, &self.root()) else {
            state.put_aside(KEPT);
            let place = place.display();
            say(&format!(
                "heat of before is damaged: put aside as {place}.bad; it begins anew"
            ));
            return Vec::new();
        };
        for known in kept.files {
            self.files.insert(Arc::new(known));
        }
        kept.groups
    }

    /// Takes a file in, which programs see where `path` says.
    pub fn register(&self, id: &Identity, stat: &Statx, project: u32, path: &[u8]) -> Arc<Known> {
        let facts = ForeignFacts {
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            project,
            size: stat.stx_size,
        };
        let number = self.tree.shown(id.dev, id.ino);
        let known = Known::new(number, *id, &facts, path);
        let known = self.files.insert(Arc::new(known));
        known.refresh_by(stat);
        if !path.is_empty() {
            known.set_path(path);
        }
        known
    }

    fn root(&self) -> Identity {
        self.tree.nodes.root().id
    }

    /// A file that has no record, if the kernel refers to it.
    fn untracked(&self, number: u64) -> Option<Statx> {
        let is_it = |id: &Identity| self.tree.shown(id.dev, id.ino) == number;
        let node = self.tree.nodes.find(is_it)?;
        let reached = self.tree.reach(&node).ok()?;
        attributes::stat(reached.as_fd()).ok()
    }
}

impl ForeignFiles for TrackedFiles {
    fn facts(&self, file: ForeignFile) -> Option<ForeignFacts> {
        self.files.get(file).map(|known| known.facts())
    }

    fn of_number(&self, number: u64) -> Option<ForeignFile> {
        self.files.of_number(number).map(|known| known.file)
    }

    fn end_of(&self, file: ForeignFile) -> Result<Option<u64>> {
        let Some(known) = self.files.get(file) else {
            return Ok(None);
        };
        match names::find(&self.tree, &known) {
            Whereabouts::At(path, stat) => {
                known.set_path(&path);
                known.refresh_by(&stat);
                Ok(Some(stat.stx_size))
            }
            Whereabouts::Somewhere(stat) => {
                known.refresh_by(&stat);
                Ok(Some(stat.stx_size))
            }
            Whereabouts::Nameless(stat) if known.node().is_some() => Ok(Some(stat.stx_size)),
            Whereabouts::Nameless(_) | Whereabouts::Gone => {
                self.files.remove(file);
                Ok(None)
            }
            Whereabouts::Unknown => Err(hearth::Errno::EAGAIN),
        }
    }

    fn at_path(&self, path: &[u8]) -> Option<ForeignFile> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let (fd, id) = names::at_path(&self.tree, path)?;
        let stat = attributes::stat(fd.as_fd()).ok()?;
        if attributes::kind(&stat) != Ok(Kind::File) {
            return None;
        }
        Some(self.register(&id, &stat, 0, path).file)
    }

    fn paths(&self, numbers: &[u64]) -> Result<HashMap<u64, PathInfo>> {
        let (mut rows, mut searched) = (HashMap::new(), Vec::new());
        for &number in numbers {
            let Some(known) = self.files.of_number(number) else {
                let attributes = self.untracked(number);
                rows.extend(attributes.map(|stat| (number, row(None, &stat))));
                continue;
            };
            match names::find(&self.tree, &known) {
                Whereabouts::At(path, stat) => {
                    known.set_path(&path);
                    known.refresh_by(&stat);
                    rows.insert(number, row(Some(&path), &stat));
                }
                Whereabouts::Somewhere(stat) => {
                    known.refresh_by(&stat);
                    rows.insert(number, row(None, &stat));
                    searched.push(known);
                }
                Whereabouts::Nameless(stat) => {
                    rows.insert(number, row(None, &stat));
                    if known.node().is_none() {
                        self.files.remove(known.file);
                    }
                }
                Whereabouts::Gone => self.files.remove(known.file),
                Whereabouts::Unknown => searched.push(known),
            }
        }
        if searched.is_empty() {
            return Ok(rows);
        }
        let mut found_now = HashMap::new();
        let is_whole = names::search(&self.tree, &searched, |known, path| {
            known.set_path(path);
            found_now.insert(known.file.number, path.to_vec());
        });
        for known in searched {
            let number = known.file.number;
            match found_now.remove(&number) {
                Some(path) => {
                    if let Some((fd, _)) = names::at_path(&self.tree, &path)
                        && let Ok(stat) = attributes::stat(fd.as_fd())
                    {
                        known.refresh_by(&stat);
                        rows.insert(number, row(Some(&path), &stat));
                    }
                }
                None if is_whole && !rows.contains_key(&number) => self.files.remove(known.file),
                None => {}
            }
        }
        Ok(rows)
    }

    fn keep(
        &self,
        groups: Vec<KeptGroup>,
        kept: &HashSet<ForeignFile>,
        is_recorded: &dyn Fn(ForeignFile) -> bool,
    ) -> bool {
        let mut files = self.files.all();
        // Whoever has one open may use it again.
        let is_used = |known: &Known| is_recorded(known.file) || known.node().is_some();
        for known in files.iter().filter(|known| !is_used(known)) {
            self.files.remove(known.file);
        }
        files.retain(|known| kept.contains(&known.file));
        let Some(state) = &self.state else {
            return true;
        };
        let bytes = kept::encode(&groups, &files, &self.root());
        let written = state.replace(KEPT, &bytes);
        let is_kept = written.is_ok();
        let had_failed = std::mem::replace(&mut *self.failed.lock(), !is_kept);
        if let (Err(error), false) = (written, had_failed) {
            let place = state.path().display();
            say(&format!(
                "heat cannot be kept in {place}: {error}; it lasts until the unmount"
            ));
        }
        is_kept
    }

    fn used(&self) -> (u64, u64) {
        let Ok(stat) = fstatvfs(self.tree.root()) else {
            return (0, 0);
        };
        let blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
        let inodes = stat.f_files.saturating_sub(stat.f_ffree);
        (inodes, blocks.saturating_mul(stat.f_frsize))
    }

    fn in_memory(&self) -> u64 {
        self.tree.nodes.len()
    }

    fn counts(&self) -> &'static str {
        self.by.counts()
    }
}

/// A file as reports show it.
fn row(path: Option<&[u8]>, stat: &Statx) -> PathInfo {
    PathInfo {
        path: path.map(|path| [b"/", path].concat()),
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
    }
}

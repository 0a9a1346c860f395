//! What a script has done so far, and what may be found of it after a cut.

use super::watched::Commits;
use hearth_model::{Bytes, Kind, Model, Op, Outcome, PROCESSES, Stamp, Tree, TreeEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Size of a file, and its pages that are not all zero.
type Contents = (u64, BTreeMap<u64, Bytes>);

/// Contents that a file got.
struct Version {
    /// From this position on.
    position: u64,
    contents: Contents,
    /// What moved for it: the byte from which on, and how far.
    shift: Option<(u64, i64)>,
}

impl Version {
    /// The size without what was written and not written back, if it was `before` until now.
    fn size_without_unwritten(&self, before: u64) -> u64 {
        match self.shift {
            Some((from, by)) if before > from => before.saturating_add_signed(by),
            Some((from, by)) => before.min(from.saturating_add_signed(by)),
            None => before.min(self.contents.0),
        }
    }
}

/// The tree at one position of the script, and the numbers of its inodes.
struct Moment {
    tree: Tree,
    numbers: BTreeMap<Bytes, u64>,
}

/// The model, and how it came to be what it is. A position is a number of calls.
pub struct History {
    pub model: Model,
    pub commits: Arc<Commits>,
    position: u64,
    moments: BTreeMap<u64, Moment>,
    /// Contents of each file, by rising position.
    versions: BTreeMap<u64, Vec<Version>>,
    /// The position behind which each sync has returned.
    promises: Vec<u64>,
    /// Syncs of a file that have returned, by number from 1 on, and their positions.
    synced: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Epochs with all contents that a file had at a position.
    kept: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Times of the last change of contents.
    modified: BTreeMap<u64, Stamp>,
    /// Files that replaced others, or were cut to nothing: the next commit has their contents up to
    /// this position, or all of them.
    first: BTreeMap<u64, u64>,
    /// Epochs that were looked at.
    epochs: usize,
    /// What was so before the call that was made last.
    before: Option<(Moment, BTreeMap<u64, u64>)>,
    /// Positions of calls that had to wait for a commit, before what they did or behind it.
    waited: BTreeSet<u64>,
}

impl History {
    pub fn new() -> History {
        let mut model = Model::new();
        for (uid, gid, groups) in PROCESSES {
            model.add_process(uid, gid, groups);
        }
        let mut history = History {
            model,
            commits: Arc::default(),
            position: 0,
            moments: BTreeMap::new(),
            versions: BTreeMap::new(),
            promises: Vec::new(),
            synced: BTreeMap::new(),
            kept: BTreeMap::new(),
            modified: BTreeMap::new(),
            first: BTreeMap::new(),
            epochs: 0,
            before: None,
            waited: BTreeSet::new(),
        };
        history.remember();
        history
    }

    /// How many syncs have returned.
    pub fn promised(&self) -> u64 {
        self.promises.len() as u64
    }

    /// Applies a call to the model.
    pub fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        self.before = Some((self.moment(), self.first.clone()));
        let is_rename = matches!(op, Op::Rename { flags: 0, .. });
        let before = is_rename.then(|| self.model.numbers());
        let outcome = self.model.apply(p, op);
        self.position += 1;
        self.commits.position.store(self.position, Relaxed);
        if let Some(before) = before {
            self.note_replaced(&before);
        }
        for (ino, contents) in self.model.contents() {
            let modified = self.model.modified(ino);
            let before = self.modified.insert(ino, modified);
            // An allocation, for example. It is recorded with the contents, as a write is.
            let is_touched = modified == Stamp::Now && before.is_some_and(|was| was != modified);
            let versions = self.versions.entry(ino).or_default();
            let last = versions.last().map(|last| &last.contents);
            if last != Some(&contents) || is_touched {
                if contents.0 == 0 && last.is_some_and(|last| last.0 > 0) {
                    self.first.insert(ino, u64::MAX);
                }
                versions.push(Version {
                    position: self.position,
                    contents,
                    shift: shift(op),
                });
            }
        }
        outcome
    }

    /// Looks for files that have the name of another one now. What they were given before that is
    /// in the commit that has the name.
    fn note_replaced(&mut self, before: &BTreeMap<Bytes, u64>) {
        let contents = self.model.contents();
        for (path, ino) in self.model.numbers() {
            let was = before.get(&path);
            if was.is_some_and(|was| *was != ino) && contents.contains_key(&ino) {
                let through = self.first.entry(ino).or_default();
                *through = self.position.max(*through);
            }
        }
    }

    /// Notes what became durable in the call that was made last. Returns whether it was a sync that
    /// has promised everything before it.
    pub fn note_call(&mut self, p: usize, op: &Op, outcome: &Outcome) -> bool {
        match op {
            Op::Sync { .. } | Op::SyncFs { .. } => self.note_commits(),
            _ => self.note_waiting(),
        }
        let file = match (op, outcome) {
            (Op::SyncFs { .. }, Outcome::Done) => {
                self.note_all_synced();
                return true;
            }
            (Op::Sync { fd, .. }, Outcome::Done) => self.model.number_of(p, *fd),
            (
                Op::Write { fd, .. }
                | Op::WriteV { fd, .. }
                | Op::WriteAt { fd, .. }
                | Op::WriteVAt { fd, .. },
                Outcome::Number(1..),
            ) if self.is_synchronous(p, *fd) => self.model.number_of(p, *fd),
            _ => None,
        };
        if let Some(ino) = file {
            let promise = self.promise();
            self.synced.entry(ino).or_default().push(promise);
        }
        file.is_some()
    }

    /// Notes what idle work or a sync made durable.
    pub fn note_commits(&mut self) {
        if let Some(epoch) = self.committed() {
            for (ino, through) in std::mem::take(&mut self.first) {
                self.keep(ino, epoch, through.min(self.position));
            }
            self.remember();
        }
    }

    /// Notes a commit that a call waited for: a commit takes so many records at most.
    fn note_waiting(&mut self) {
        if let Some(epoch) = self.committed()
            && let Some((moment, first)) = self.before.take()
        {
            for (ino, through) in first {
                self.first.remove(&ino);
                self.keep(ino, epoch, through.min(self.position - 1));
            }
            self.moments.insert(self.position - 1, moment);
            self.waited.insert(self.position);
            self.remember();
        }
    }

    /// The commit of `epoch` has the contents of a file at a position.
    fn keep(&mut self, ino: u64, epoch: u64, position: u64) {
        self.kept.entry(ino).or_default().push((epoch, position));
    }

    /// The first commit since the last look.
    fn committed(&mut self) -> Option<u64> {
        let epochs = self.commits.epochs();
        let known = std::mem::replace(&mut self.epochs, epochs.len());
        epochs.keys().nth(known).copied()
    }

    pub fn note_all_synced(&mut self) {
        self.note_commits();
        let promise = self.promise();
        for &ino in self.versions.keys() {
            self.synced.entry(ino).or_default().push(promise);
        }
    }

    /// A sync has returned: its number and its position.
    fn promise(&mut self) -> (u64, u64) {
        self.remember();
        self.promises.push(self.position);
        (self.promised(), self.position)
    }

    fn is_synchronous(&self, p: usize, fd: i32) -> bool {
        let status = self.model.clone().apply(p, &Op::GetStatus { fd });
        let bits = (libc::O_SYNC | libc::O_DSYNC) as u64;
        matches!(status, Outcome::Number(flags) if flags & bits != 0)
    }

    fn moment(&self) -> Moment {
        Moment {
            tree: self.model.snapshot(),
            numbers: self.model.numbers(),
        }
    }

    fn remember(&mut self) {
        self.moments.insert(self.position, self.moment());
    }

    /// Compares what was found with what the commit of `epoch` has, if that is nothing before the
    /// end of sync number `promised`, 0 for none.
    pub fn check(&self, epoch: u64, promised: u64, found: Tree) -> Result<(), String> {
        let position = match epoch {
            0 => 0,
            epoch => *(self.commits.epochs().get(&epoch))
                .ok_or_else(|| format!("epoch {epoch} was never committed"))?,
        };
        let least = promised
            .checked_sub(1)
            .map_or(0, |at| self.promises[at as usize]);
        let at = |position: u64| {
            // A sync of nothing commits nothing: then the tree was the same already.
            let compared = self.compare(position.max(least), epoch, promised, found.clone());
            compared.map_err(|why| format!("epoch {epoch}, promised {promised}: {why}"))
        };
        if self.waited.contains(&position) && at(position - 1).is_ok() {
            return Ok(());
        }
        at(position)
    }

    /// Compares what was found with the tree at a position.
    fn compare(
        &self,
        position: u64,
        epoch: u64,
        promised: u64,
        mut found: Tree,
    ) -> Result<(), String> {
        let moment = &self.moments[&position];
        let mut expected = moment.tree.clone();
        for (path, entry) in &mut expected.entries {
            if let Some(found) = found.entries.get_mut(path)
                && (entry.attr.kind, found.attr.kind) == (Kind::File, Kind::File)
            {
                let ino = moment.numbers[path];
                let durable = self.durable(ino, epoch, promised);
                self.check_contents(ino, durable..=position, entry, found)
                    .map_err(|why| format!("{path:?}: {why}"))?;
            }
        }
        match expected.difference(&found) {
            Some(difference) => Err(format!("position {position}:\n{difference}")),
            None => Ok(()),
        }
    }

    /// The last position whose contents of a file are durable.
    fn durable(&self, ino: u64, epoch: u64, promised: u64) -> u64 {
        let synced = self.synced.get(&ino).into_iter().flatten();
        let synced = synced
            .filter(|(sync, _)| *sync <= promised)
            .map(|(_, at)| *at);
        let kept = self.kept.get(&ino).into_iter().flatten();
        let kept = kept.filter(|(by, _)| *by <= epoch).map(|(_, at)| *at);
        synced.chain(kept).max().unwrap_or(0)
    }

    /// Checks the contents of a file that was changed within `since`, where the first position is
    /// the last one that is durable, and makes both entries equal where neither is wrong.
    fn check_contents(
        &self,
        ino: u64,
        since: RangeInclusive<u64>,
        expected: &mut TreeEntry,
        found: &mut TreeEntry,
    ) -> Result<(), String> {
        let (durable, position) = since.into_inner();
        let all = self.versions.get(&ino).map_or(&[][..], |versions| versions);
        let before = all.iter().rposition(|version| version.position <= durable);
        let possible = all.iter().skip(before.unwrap_or(0));
        let possible = possible.take_while(|version| version.position <= position);
        let possible: Vec<&Version> = possible.collect();
        if before.is_some() && possible.len() < 2 {
            return Ok(());
        }
        let sizes = || possible.iter().map(|version| version.contents.0);
        let least = before.map_or(0, |_| least_size(&possible));
        let most = sizes().max().unwrap_or(0);
        if !(least..=most).contains(&found.attr.size) {
            return Err(format!(
                "{} bytes; it had {least} to {most} since position {durable}",
                found.attr.size
            ));
        }
        for (page, bytes) in &found.pages {
            let mut pages = possible
                .iter()
                .flat_map(|version| version.contents.1.values());
            if !pages.any(|own| is_beginning(bytes, own)) {
                return Err(format!("page {page} has bytes that the file never had"));
            }
        }
        for entry in [expected, found] {
            entry.pages.clear();
            entry.attr.size = 0;
            entry.attr.pages = hearth_model::PageCount { least: 0, most: 0 };
            entry.attr.mtime = Stamp::Now;
            entry.attr.ctime = Stamp::Now;
        }
        Ok(())
    }
}

/// The least size that a file may have after a cut: that of a version, or without what was written
/// since the first one, which is durable.
fn least_size(versions: &[&Version]) -> u64 {
    let Some((first, later)) = versions.split_first() else {
        return 0;
    };
    let (mut unwritten, mut least) = (first.contents.0, first.contents.0);
    for version in later {
        unwritten = version.size_without_unwritten(unwritten);
        least = least.min(unwritten).min(version.contents.0);
    }
    least
}

/// What a call moves of a file: the byte from which on, and how far. Numbers that no file has move
/// nothing.
fn shift(op: &Op) -> Option<(u64, i64)> {
    let Op::Allocate {
        mode, offset, len, ..
    } = *op
    else {
        return None;
    };
    let end = u64::try_from(offset.checked_add(len)?).ok()?;
    match mode {
        libc::FALLOC_FL_COLLAPSE_RANGE => Some((end, len.checked_neg()?)),
        libc::FALLOC_FL_INSERT_RANGE => Some((u64::try_from(offset).ok()?, len)),
        _ => None,
    }
}

/// Whether `found` is the beginning of `own`, which zeros follow.
fn is_beginning(found: &[u8], own: &[u8]) -> bool {
    let both = found.len().min(own.len());
    found[..both] == own[..both] && found[both..].iter().all(|byte| *byte == 0)
}

//! The tree as users see it, and how much of it the directory below holds.
//!
//! Every file has a second name in a directory beside the one below (the *stage*), by its number,
//! so that its kept bytes can be reached whether or not a kept name leads to it. A directory is in
//! the stage only while no kept name leads to it. A sync of a directory makes its kept names those
//! that users see; a directory that a rename took something from or put something into goes with
//! it, so that a rename is whole or did not happen.

use super::blocks::Unsynced;
use super::node::{Body, Directory, Node};
use crate::random::Random;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of the root.
pub const ROOT: u64 = 1;

/// All files, and where their kept parts are.
#[derive(Debug)]
pub struct Tree {
    below: PathBuf,
    stage: PathBuf,
    nodes: HashMap<u64, Node>,
    next: u64,
    /// Every sync keeps all names.
    journals: bool,
}

impl Tree {
    /// The tree below, all of which is kept.
    pub fn load(below: &Path, stage: &Path, journals: bool) -> io::Result<Tree> {
        let mut tree = Tree {
            below: below.to_owned(),
            stage: stage.to_owned(),
            nodes: HashMap::new(),
            next: ROOT + 1,
            journals,
        };
        match fs::remove_dir_all(stage) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(stage)?,
        }
        let root = Node::found(&fs::symlink_metadata(below)?);
        tree.nodes.insert(ROOT, root);
        tree.load_directory(ROOT, below, &mut HashMap::new())?;
        Ok(tree)
    }

    fn load_directory(
        &mut self,
        dir: u64,
        path: &Path,
        known: &mut HashMap<(u64, u64), u64>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
            let found = fs::symlink_metadata(&path)?;
            let same = (found.dev(), found.ino());
            let number = match known.get(&same) {
                Some(&number) => number,
                None => {
                    let number = self.add(Node::found(&found));
                    known.insert(same, number);
                    number
                }
            };
            if found.is_dir() {
                let directory = self.directory(number)?;
                (directory.parent, directory.place) = (dir, Some((dir, name.clone())));
                self.load_directory(number, &path, known)?;
            } else {
                let node = self.node(number)?;
                node.links += 1;
                if node.links == 1 {
                    link(&path, &self.staged(number))?;
                }
            }
            let directory = self.directory(dir)?;
            directory.kept.insert(name.clone(), number);
            directory.seen.insert(name, number);
        }
        Ok(())
    }

    /// The file of that number.
    pub fn node(&mut self, number: u64) -> io::Result<&mut Node> {
        self.nodes
            .get_mut(&number)
            .ok_or(rustix::io::Errno::STALE.into())
    }

    /// The names of the directory of that number.
    pub fn directory(&mut self, number: u64) -> io::Result<&mut Directory> {
        match &mut self.node(number)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(rustix::io::Errno::NOTDIR.into()),
        }
    }

    /// The kept file of a number and what has changed since.
    pub fn contents(&mut self, number: u64) -> io::Result<(&File, &mut Unsynced)> {
        let path = self.staged(number);
        match &mut self.node(number)?.body {
            Body::File { kept, unsynced } => {
                let kept = match kept {
                    Some(kept) => kept,
                    None => kept.insert(File::options().read(true).write(true).open(path)?),
                };
                Ok((kept, unsynced))
            }
            Body::Directory(_) => Err(rustix::io::Errno::ISDIR.into()),
            Body::Other => Err(rustix::io::Errno::INVAL.into()),
        }
    }

    /// The number behind a name.
    pub fn lookup(&mut self, dir: u64, name: &OsStr) -> io::Result<u64> {
        let found = self.directory(dir)?.seen.get(name).copied();
        found.ok_or(rustix::io::Errno::NOENT.into())
    }

    /// Makes a file of the kind that `node.mode` says, and its name; `target` for a symlink.
    pub fn make(
        &mut self,
        dir: u64,
        name: &OsStr,
        node: Node,
        target: Option<&Path>,
    ) -> io::Result<u64> {
        if self.directory(dir)?.seen.contains_key(name) {
            return Err(rustix::io::Errno::EXIST.into());
        }
        let (mode, rdev) = (node.mode, node.rdev);
        let number = self.add(node);
        let path = self.staged(number);
        match (FileType::from_raw_mode(mode), target) {
            (FileType::Directory, _) => fs::create_dir(&path)?,
            (FileType::RegularFile, _) => drop(File::create(&path)?),
            (FileType::Symlink, Some(target)) => std::os::unix::fs::symlink(target, &path)?,
            (kind, _) => {
                let mode = Mode::from_raw_mode(mode);
                rustix::fs::mknodat(CWD, &path, kind, mode, u64::from(rdev))?;
            }
        }
        if let Ok(directory) = self.directory(number) {
            directory.parent = dir;
        }
        self.keep_attributes(number)?;
        self.link(number, dir, name)?;
        Ok(number)
    }

    /// Gives a file one more name.
    pub fn link(&mut self, number: u64, dir: u64, name: &OsStr) -> io::Result<()> {
        let names = &mut self.directory(dir)?.seen;
        if names.contains_key(name) {
            return Err(rustix::io::Errno::EXIST.into());
        }
        names.insert(name.to_owned(), number);
        self.node(number)?.links += 1;
        self.touch(&[dir, number]);
        Ok(())
    }

    /// Takes a name away.
    pub fn unlink(&mut self, dir: u64, name: &OsStr) -> io::Result<()> {
        let number = self.lookup(dir, name)?;
        if let Ok(directory) = self.directory(number)
            && !directory.seen.is_empty()
        {
            return Err(rustix::io::Errno::NOTEMPTY.into());
        }
        self.directory(dir)?.seen.remove(name);
        self.node(number)?.links -= 1;
        self.touch(&[dir, number]);
        self.drop_dead(number);
        Ok(())
    }

    /// Moves a name; what has the new one loses it, or gets the old one.
    pub fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        exchange: bool,
        replace: bool,
    ) -> io::Result<()> {
        let number = self.lookup(from.0, from.1)?;
        let victim = self.lookup(to.0, to.1).ok();
        match victim {
            Some(_) if !replace => return Err(rustix::io::Errno::EXIST.into()),
            None if exchange => return Err(rustix::io::Errno::NOENT.into()),
            Some(victim) if victim == number => return Ok(()),
            Some(_) if !exchange => self.unlink(to.0, to.1)?,
            _ => (),
        }
        self.directory(from.0)?.seen.remove(from.1);
        if exchange && let Some(victim) = victim {
            self.directory(from.0)?
                .seen
                .insert(from.1.to_owned(), victim);
            if let Ok(moved) = self.directory(victim) {
                moved.parent = from.0;
            }
        }
        self.directory(to.0)?.seen.insert(to.1.to_owned(), number);
        if let Ok(moved) = self.directory(number) {
            moved.parent = to.0;
        }
        if from.0 != to.0 {
            self.directory(from.0)?.tied.insert(to.0);
            self.directory(to.0)?.tied.insert(from.0);
        }
        self.touch(&[from.0, to.0, number]);
        Ok(())
    }

    /// A sync of a file.
    pub fn sync_file(&mut self, number: u64) -> io::Result<()> {
        let (kept, unsynced) = self.contents(number)?;
        unsynced.keep_all(kept)?;
        self.keep_attributes(number)?;
        self.commit_journal()
    }

    /// A sync of a directory.
    pub fn sync_directory(&mut self, number: u64) -> io::Result<()> {
        self.keep_names(number)?;
        self.commit_journal()
    }

    /// Keeps all names where a journal does.
    fn commit_journal(&mut self) -> io::Result<()> {
        if self.journals {
            let is_directory =
                |(number, node): (&u64, &Node)| node.is_directory().then_some(*number);
            let directories: Vec<u64> = self.nodes.iter().filter_map(is_directory).collect();
            for directory in directories {
                self.keep_names(directory)?;
            }
        }
        Ok(())
    }

    /// Makes the kept names of a directory those that users see.
    fn keep_names(&mut self, number: u64) -> io::Result<()> {
        let mut group = BTreeSet::new();
        let mut todo = vec![number];
        while let Some(dir) = todo.pop() {
            if !self.nodes.contains_key(&dir) || !group.insert(dir) {
                continue;
            }
            let directory = self.directory(dir)?;
            todo.extend(&directory.tied);
            let gone: Vec<u64> = directory.lost().map(|(_, number)| number).collect();
            // A directory that is no more is emptied below before it goes there too.
            todo.extend(gone.into_iter().filter(|number| {
                let node = self.nodes.get(number);
                node.is_some_and(|node| node.is_directory() && node.links == 0)
            }));
        }
        for &dir in &group {
            self.take_off(dir)?;
        }
        for &dir in &group {
            self.put_on(dir)?;
        }
        for dir in group {
            self.keep_attributes(dir)?;
            self.drop_dead(dir);
        }
        Ok(())
    }

    /// A sync of all there is.
    pub fn keep_everything(&mut self) -> io::Result<()> {
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            if self.directory(number).is_ok() {
                self.sync_directory(number)?;
            } else if self.contents(number).is_ok() {
                self.sync_file(number)?;
                self.close(number);
            }
        }
        Ok(())
    }

    /// A power cut: some unsynced blocks and names reached the disk, by the seed; none without.
    pub fn cut(mut self, seed: Option<u64>) -> io::Result<()> {
        if let Some(seed) = seed {
            let mut random = Random(seed);
            let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
            numbers.sort_unstable();
            for number in numbers {
                if let Ok((kept, unsynced)) = self.contents(number) {
                    unsynced.keep_some(kept, &mut random)?;
                    // Descriptors are few.
                    self.close(number);
                } else if self.directory(number).is_ok() && random.below(4) == 0 {
                    self.sync_directory(number)?;
                }
            }
        }
        fs::remove_dir_all(&self.stage)
    }

    /// Gives the kept file back to the system.
    pub fn close(&mut self, number: u64) {
        if let Some(Body::File { kept, .. }) = self.nodes.get_mut(&number).map(|n| &mut n.body) {
            *kept = None;
        }
    }

    /// Removes what has no name and no user any more.
    pub fn drop_dead(&mut self, number: u64) {
        let Some(node) = self.nodes.get(&number) else {
            return;
        };
        let is_placed = matches!(&node.body, Body::Directory(d) if d.place.is_some());
        if node.links > 0 || node.held > 0 || node.opened > 0 || is_placed || number == ROOT {
            return;
        }
        let path = self.staged(number);
        // What stays is removed with the stage.
        let _ = match node.is_directory() {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        };
        self.nodes.remove(&number);
    }

    /// Where a file that is no directory can be reached below.
    pub fn staged(&self, number: u64) -> PathBuf {
        self.stage.join(number.to_string())
    }

    /// The directory that everything is kept in.
    pub fn below(&self) -> &Path {
        &self.below
    }

    /// New times of change.
    pub fn touch(&mut self, numbers: &[u64]) {
        let now = SystemTime::now();
        for number in numbers {
            if let Some(node) = self.nodes.get_mut(number) {
                node.changed = now;
                if node.is_directory() {
                    node.modified = now;
                }
            }
        }
    }

    /// Writes mode, owner and times down.
    pub fn keep_attributes(&mut self, number: u64) -> io::Result<()> {
        let path = match self.nodes.get(&number) {
            Some(node) if node.is_directory() => self.path(number),
            Some(_) => self.staged(number),
            None => return Ok(()),
        };
        let node = self.node(number)?;
        let (uid, gid) = (Uid::from_raw(node.uid), Gid::from_raw(node.gid));
        let follow = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(CWD, &path, Some(uid), Some(gid), follow)?;
        if FileType::from_raw_mode(node.mode) != FileType::Symlink {
            let mode = Mode::from_raw_mode(node.mode);
            rustix::fs::chmodat(CWD, &path, mode, AtFlags::empty())?;
        }
        let times = Timestamps {
            last_access: timespec(node.accessed),
            last_modification: timespec(node.modified),
        };
        Ok(rustix::fs::utimensat(CWD, &path, &times, follow)?)
    }

    fn add(&mut self, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }

    /// Where a directory is kept.
    fn path(&self, dir: u64) -> PathBuf {
        let body = self.nodes.get(&dir).map(|node| &node.body);
        match body {
            _ if dir == ROOT => self.below.clone(),
            Some(Body::Directory(Directory {
                place: Some((parent, name)),
                ..
            })) => self.path(*parent).join(name),
            _ => self.staged(dir),
        }
    }

    /// Removes the kept names that users do not see any more.
    fn take_off(&mut self, dir: u64) -> io::Result<()> {
        let path = self.path(dir);
        let gone: Vec<(OsString, u64)> = self.directory(dir)?.lost().collect();
        for (name, number) in gone {
            let staged = self.staged(number);
            if let Ok(directory) = self.directory(number) {
                directory.place = None;
                fs::rename(path.join(&name), staged)?;
            } else {
                fs::remove_file(path.join(&name))?;
            }
            self.directory(dir)?.kept.remove(&name);
        }
        Ok(())
    }

    /// Makes the names below that users see.
    fn put_on(&mut self, dir: u64) -> io::Result<()> {
        let path = self.path(dir);
        let directory = self.directory(dir)?;
        directory.tied.clear();
        let is_new = |name: &OsString| !directory.kept.contains_key(name);
        let seen = directory.seen.iter();
        let new = seen.filter(|(name, _)| is_new(name));
        let new: Vec<(OsString, u64)> = new.map(|(name, &number)| (name.clone(), number)).collect();
        for (name, number) in new {
            if self.directory(number).is_ok() {
                let old = self.path(number);
                fs::rename(old, path.join(&name))?;
                self.directory(number)?.place = Some((dir, name.clone()));
            } else {
                link(&self.staged(number), &path.join(&name))?;
            }
            self.directory(dir)?.kept.insert(name, number);
        }
        Ok(())
    }
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty())?)
}

fn timespec(time: SystemTime) -> Timespec {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timespec {
        tv_sec: since.as_secs() as i64,
        tv_nsec: since.subsec_nanos().into(),
    }
}

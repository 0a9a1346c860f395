//! Path walk: from a path to a directory and a name, and to the inode behind them.
//!
//! The walk takes no lock: each component is a lookup under the epoch guard. While names of
//! directories or links change, `..`, a missing name or another error could show a path that never
//! existed. Such a result counts only if everything that the walk passed through is still where it
//! was ([`SeqTrail`]). A walk that finds its name and uses no `..` needs no such check. After
//! [`RESTARTS`] attempts the walk is made under the rename lock.

mod seq_trail;

use crate::attr::Kind;
use crate::directory::{Directory, Entry};
use crate::errno::Errno;
use crate::hashed::Hashed;
use crate::inode::{Body, Inode};
use crate::ops::ctx::Ctx;
use crate::ops::link::readlink;
use crate::ops::lookup::{Named, WalkEnd, hashed, named, plain};
use crate::ops::perm::{may_search, may_search_all};
use crate::stats::Event;
use crate::superblock::{Attempt, STILL_ATTEMPTS, Stop};
use hearth_sync::epoch::Guard;
use hearth_sync::primitive::thread::yield_now;
use seq_trail::SeqTrail;

/// Symbolic links followed in one walk at most, as in Linux.
const LINKS: u32 = 40;
/// Attempts without a lock.
const RESTARTS: u32 = 3;

/// Where a walk begins and what bounds it.
#[derive(Clone, Copy)]
pub(crate) struct From<'x> {
    /// Where a relative path begins.
    pub start: &'x Inode,
    /// What `/` means; `..` does not leave it.
    pub root: &'x Inode,
}

/// Whether the last component is followed if it is a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Always (`stat`, `open`).
    Yes,
    /// Only if a slash follows it (`lstat`).
    Slash,
    /// Never: the name itself is meant (`mkdir`, `unlink`, `rename`).
    Never,
    /// The last component is not even looked up: only its directory is meant.
    Parent,
}

/// Kind of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Name,
    Dot,
    DotDot,
    /// The path is nothing but slashes.
    Root,
}

impl Last {
    #[inline(always)]
    fn of(name: &[u8]) -> Last {
        match name.first() {
            Some(b'.') => Last::of_dots(name),
            _ => Last::Name,
        }
    }

    #[inline(never)]
    fn of_dots(name: &[u8]) -> Last {
        match name {
            b"." => Last::Dot,
            b".." => Last::DotDot,
            _ => Last::Name,
        }
    }
}

/// End of a walk, with the inode or with its name alone.
#[derive(Clone, Copy)]
pub(crate) struct Walked<'x, F> {
    /// Directory of the last component.
    pub parent: &'x Inode,
    /// Last component. Its hash is taken once, for the walk and for the operation behind it.
    pub at: Hashed<'x>,
    pub last: Last,
    /// The inode or entry; `None` if the name is not there.
    found: Option<F>,
    /// Slashes followed the last component.
    pub slash: bool,
}

/// A walk that ends with an inode.
pub(crate) type ToInode<'x> = Walked<'x, &'x Inode>;
/// A walk that ends with a name.
pub(crate) type ToName<'x> = Walked<'x, Named<'x>>;

impl<'x, F: WalkEnd<'x>> Walked<'x, F> {
    /// The inode or entry; `ENOENT` without one, `ENOTDIR` if slashes follow something that is no
    /// directory.
    pub fn existing(&self) -> Result<F, Errno> {
        let found = self.found.ok_or(Errno::ENOENT)?;
        if self.slash && found.kind() != Kind::Directory {
            Err(Errno::ENOTDIR)
        } else {
            Ok(found)
        }
    }

    /// The inode or entry, if it is there, whatever follows the name.
    pub fn found(&self) -> Option<F> {
        self.found
    }
}

/// Walks `path`, which begins at `from.start` and is neither empty nor too long.
// Always inlined: mostly it is one lookup, and its result is large.
#[inline(always)]
pub(crate) fn walk<'x, F: WalkEnd<'x>>(
    cx: &Ctx<'_>,
    from: From<'x>,
    path: &'x [u8],
    follow: Follow,
    g: &'x Guard,
) -> Attempt<Walked<'x, F>> {
    let left = after_slashes(path, path.len());
    let at = cx.sb.names.keys.first_of(path, left);
    // A plain name that is the whole path passes no directory, so its walk always counts.
    let is_plain = at.name.len() == left && at.name.first().is_some_and(|&first| first != b'.');
    if !is_plain || follow == Follow::Parent {
        return walk_far(cx, from, (path, at), follow, g);
    }
    let parent = from.start;
    let found = if_there(named(cx, parent, at, g))?;
    if follow == Follow::Yes
        && let Some(link) = link_of(found)
    {
        return walk_link(cx, from, link, path, g);
    }
    Ok(Walked {
        parent,
        at,
        last: Last::Name,
        found: end_of(cx, found, g)?,
        slash: false,
    })
}

/// [`walk`] of any path, whose first name this is.
#[inline(never)]
fn walk_far<'x, F: WalkEnd<'x>>(
    cx: &Ctx<'_>,
    from: From<'x>,
    (path, first): (&'x [u8], Hashed<'x>),
    follow: Follow,
    g: &'x Guard,
) -> Attempt<Walked<'x, F>> {
    let mut walker = Walker::new(cx, from.root, g);
    let ended = match walker.go_to_end(from.start, (path, first), follow) {
        Ok(ended) => ended,
        Err(stop) => return walker.stopped(stop, (from, path), follow),
    };
    if let Some(link) = ended.link {
        let at = (ended.parent, link, ended.slash);
        return walker.follow_end(at, (from, path), follow);
    }
    // Its parts are put together only here: in one variable with the results of calls they would be
    // stored one by one and read as a whole at once, which a processor waits for.
    match end_of(cx, ended.found, g) {
        Ok(found) if (found.is_none() || walker.up) && !walker.trail.is_valid() => {
            walk_again(cx, from, path, follow, g)
        }
        Ok(found) => Ok(Walked {
            parent: ended.parent,
            at: ended.at,
            last: ended.last,
            found,
            slash: ended.slash,
        }),
        Err(stop) => walker.stopped(stop, (from, path), follow),
    }
}

/// The entry of what was found, if it is a link.
#[inline(always)]
fn link_of(found: Option<Named<'_>>) -> Option<&Entry> {
    let entry = found.and_then(Named::entry);
    entry.filter(|entry| entry.kind() == Kind::Symlink)
}

/// What was found as the end of a walk.
#[inline(always)]
fn end_of<'x, F: WalkEnd<'x>>(
    cx: &Ctx<'_>,
    found: Option<Named<'x>>,
    g: &'x Guard,
) -> Attempt<Option<F>> {
    match found {
        Some(named) => F::of_named(cx, named, g).map(Some),
        None => Ok(None),
    }
}

/// [`walk`] of a path that is the name of `link` alone, to the end of the link.
#[cold]
#[inline(never)]
fn walk_link<'x, F: WalkEnd<'x>>(
    cx: &Ctx<'_>,
    from: From<'x>,
    link: &'x Entry,
    path: &'x [u8],
    g: &'x Guard,
) -> Attempt<Walked<'x, F>> {
    let mut walker = Walker::new(cx, from.root, g);
    walker.follow_end((from.start, link, false), (from, path), Follow::Yes)
}

/// What was found, if it is there.
#[inline(always)]
fn if_there<F>(found: Attempt<F>) -> Attempt<Option<F>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Errno(Errno::ENOENT)) => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// Walks after an attempt that does not count.
#[cold]
#[inline(never)]
fn walk_again<'x, F: WalkEnd<'x>>(
    cx: &Ctx<'_>,
    from: From<'x>,
    path: &'x [u8],
    follow: Follow,
    g: &'x Guard,
) -> Attempt<Walked<'x, F>> {
    for _ in 1..RESTARTS {
        cx.sb.stats.event(Event::WalkRestart);
        let mut walker = Walker::new(cx, from.root, g);
        let walked = walker.run_by_call(from.start, path, follow);
        if walker.counts(&walked) {
            return walked;
        }
    }
    cx.sb.stats.event(Event::WalkRestart);
    walk_slowly(cx, from, path, follow, g)
}

/// Walks while directories and links keep their names: only renames and removals that were under
/// way spoil an attempt.
#[cold]
fn walk_slowly<'x, F: WalkEnd<'x>>(
    cx: &Ctx<'_>,
    from: From<'x>,
    path: &'x [u8],
    follow: Follow,
    g: &'x Guard,
) -> Attempt<Walked<'x, F>> {
    cx.sb.stats.event(Event::WalkFallback);
    let _still = cx.sb.names.keep_still();
    for _ in 0..STILL_ATTEMPTS {
        let mut walker = Walker::new(cx, from.root, g);
        let walked = walker.run_by_call(from.start, path, follow);
        if walker.counts(&walked) {
            return walked;
        }
        yield_now();
    }
    Err(Stop::Restart)
}

/// Where a path ends, before a link there is followed.
struct Ended<'x> {
    parent: &'x Inode,
    at: Hashed<'x>,
    last: Last,
    found: Option<Named<'x>>,
    /// What was found, if it is a link that is to be followed.
    link: Option<&'x Entry>,
    slash: bool,
}

struct Walker<'c, 'x> {
    cx: &'c Ctx<'c>,
    root: &'x Inode,
    links: u32,
    /// Nested symbolic links in the middle of a path that are being followed.
    inner: u32,
    /// Whether `..` was used.
    up: bool,
    trail: SeqTrail<'x>,
    g: &'x Guard,
}

impl<'c, 'x> Walker<'c, 'x> {
    fn new(cx: &'c Ctx<'c>, root: &'x Inode, g: &'x Guard) -> Walker<'c, 'x> {
        Walker {
            cx,
            root,
            links: 0,
            inner: 0,
            up: false,
            trail: SeqTrail::new(),
            g,
        }
    }

    /// Whether the result of a walk counts: it does not depend on where directories and links were,
    /// or all are still there.
    #[inline(always)]
    fn counts<F: WalkEnd<'x>>(&self, walked: &Attempt<Walked<'x, F>>) -> bool {
        let is_doubtful = self.up
            || match walked {
                Ok(walked) => walked.found.is_none(),
                Err(stop) => matches!(stop, Stop::Errno(_)),
            };
        !is_doubtful || self.trail.is_valid()
    }

    /// [`Walker::run`] where a call more does not matter.
    #[cold]
    #[inline(never)]
    fn run_by_call<F: WalkEnd<'x>>(
        &mut self,
        start: &'x Inode,
        path: &'x [u8],
        follow: Follow,
    ) -> Attempt<Walked<'x, F>> {
        self.run(start, path, follow)
    }

    fn run<F: WalkEnd<'x>>(
        &mut self,
        start: &'x Inode,
        path: &'x [u8],
        follow: Follow,
    ) -> Attempt<Walked<'x, F>> {
        let left = after_slashes(path, path.len());
        let first = self.cx.sb.names.keys.first_of(path, left);
        let ended = self.go_to_end(start, (path, first), follow)?;
        match ended.link {
            Some(link) => self.follow_last(ended.parent, link, ended.slash),
            None => Ok(Walked {
                parent: ended.parent,
                at: ended.at,
                last: ended.last,
                found: end_of(self.cx, ended.found, self.g)?,
                slash: ended.slash,
            }),
        }
    }

    /// Walks from `start` to the end of a path whose first name is `at`.
    #[inline(always)]
    fn go_to_end(
        &mut self,
        start: &'x Inode,
        (path, mut at): (&'x [u8], Hashed<'x>),
        follow: Follow,
    ) -> Attempt<Ended<'x>> {
        let absolute = path.first() == Some(&b'/');
        let mut here = if absolute { self.root } else { start };
        if at.name.is_empty() {
            // Nothing but slashes.
            return Ok(Ended {
                parent: here,
                at: self.unnamed(b"/"),
                last: Last::Root,
                found: Some(Named::Inode(here)),
                link: None,
                slash: false,
            });
        }
        let behind = after_slashes(path, path.len()) - at.name.len();
        let has_more = behind > 0;
        if has_more {
            (here, at) = self.descend(here, (path, behind), at)?;
        }
        let slash = has_more && path.last() == Some(&b'/');
        let kind = Last::of(at.name);
        // The name of the directory where a walk begins was not looked up. So a plain name that is
        // missing in it, and is all of the path, is missing wherever that directory lies.
        if kind != Last::Name
            && self.trail.is_empty()
            && let Some(directory) = here.directory()
        {
            self.trail.pass(here, directory);
        }
        let found = match follow {
            Follow::Parent => self.check_parent(here)?,
            _ => if_there(self.step(here, (at, kind)))?,
        };
        let follows = follow == Follow::Yes || (follow == Follow::Slash && slash);
        Ok(Ended {
            parent: here,
            at,
            last: kind,
            found,
            link: link_of(found).filter(|_| follows),
            slash,
        })
    }

    /// [`Walker::follow_last`] in the first attempt of a walk.
    #[cold]
    #[inline(never)]
    fn follow_end<F: WalkEnd<'x>>(
        &mut self,
        (parent, link, slash): (&'x Inode, &'x Entry, bool),
        (from, path): (From<'x>, &'x [u8]),
        follow: Follow,
    ) -> Attempt<Walked<'x, F>> {
        let walked = self.follow_last(parent, link, slash);
        match self.counts(&walked) {
            true => walked,
            false => walk_again(self.cx, from, path, follow, self.g),
        }
    }

    /// The end of the first attempt of a walk that could not go on.
    #[cold]
    #[inline(never)]
    fn stopped<F: WalkEnd<'x>>(
        &self,
        stop: Stop,
        (from, path): (From<'x>, &'x [u8]),
        follow: Follow,
    ) -> Attempt<Walked<'x, F>> {
        let stopped = Err(stop);
        match self.counts(&stopped) {
            true => stopped,
            false => walk_again(self.cx, from, path, follow, self.g),
        }
    }

    /// Walks through all names of `path` but the last one, from `here` on; the first one is `at`,
    /// and `left` bytes are behind it. Returns the directory of the last name, and that name.
    #[inline(always)]
    fn descend(
        &mut self,
        mut here: &'x Inode,
        (path, mut left): (&'x [u8], usize),
        mut at: Hashed<'x>,
    ) -> Attempt<(&'x Inode, Hashed<'x>)> {
        let sb = self.cx.sb;
        let searches_all = may_search_all(self.cx.caller);
        left = after_slashes(path, left);
        if left == 0 {
            return Ok((here, at));
        }
        let mut directory = here.directory().ok_or(Errno::ENOTDIR)?;
        if self.trail.is_empty() {
            self.trail.pass(here, directory);
        }
        loop {
            if at.name.first() == Some(&b'.') {
                (here, directory) = self.step_dotted(here, at.name)?;
            } else {
                if !searches_all {
                    may_search(self.cx.caller, here, self.g)?;
                }
                let entry = plain(here, directory, at, self.g)?;
                let inode = sb.entry_inode(here, entry, self.g)?;
                (here, directory) = self.pass(here, inode, entry)?;
            }
            at = sb.names.keys.first_of(path, left);
            left = after_slash(path, left - at.name.len());
            if left == 0 {
                return Ok((here, at));
            }
        }
    }

    /// Goes on from `here` to the directory `inode`, or to that at the end of this link; `entry` is
    /// its name.
    #[inline(always)]
    fn pass(
        &mut self,
        here: &'x Inode,
        inode: &'x Inode,
        entry: &'x Entry,
    ) -> Attempt<(&'x Inode, &'x Directory)> {
        match inode.directory() {
            Some(directory) => {
                self.trail.pass_named(inode, entry);
                Ok((inode, directory))
            }
            None => self.through(here, inode, entry),
        }
    }

    /// Goes on to the directory that was found at the end of a link, or without an entry.
    fn pass_found(&mut self, found: Named<'x>) -> Attempt<(&'x Inode, &'x Directory)> {
        let inode = found.inode(self.cx, self.g)?;
        let directory = inode.directory().ok_or(Errno::ENOTDIR)?;
        match found.entry() {
            Some(entry) => self.trail.pass_named(inode, entry),
            None => self.trail.pass(inode, directory),
        }
        Ok((inode, directory))
    }

    /// A step through a name that begins with a dot.
    #[cold]
    #[inline(never)]
    fn step_dotted(&mut self, here: &'x Inode, name: &[u8]) -> Attempt<(&'x Inode, &'x Directory)> {
        let at = hashed(self.cx, name);
        let found = self.step(here, (at, Last::of(name)))?;
        match found.entry() {
            Some(entry) => self.pass(here, found.inode(self.cx, self.g)?, entry),
            None => self.pass_found(found),
        }
    }

    /// The directory at the end of the link `inode`, which was found in `here` in the middle of a
    /// path by this name. `ENOTDIR` if it is no link, or leads to no directory.
    #[cold]
    #[inline(never)]
    fn through(
        &mut self,
        here: &'x Inode,
        inode: &'x Inode,
        entry: &'x Entry,
    ) -> Attempt<(&'x Inode, &'x Directory)> {
        if !matches!(inode.body, Body::Symlink(_)) {
            return Err(Errno::ENOTDIR.into());
        }
        self.trail.pass_named(inode, entry);
        self.inner += 1;
        let walked = self.follow::<Named>(here, inode)?;
        self.inner -= 1;
        self.pass_found(walked.existing()?)
    }

    /// Finds nothing, in a directory that may be searched.
    #[inline(never)]
    fn check_parent(&mut self, parent: &'x Inode) -> Attempt<Option<Named<'x>>> {
        self.stay(parent)?;
        Ok(None)
    }

    /// The end of the link at the end of a path.
    #[cold]
    #[inline(never)]
    fn follow_last<F: WalkEnd<'x>>(
        &mut self,
        parent: &'x Inode,
        entry: &'x Entry,
        slash: bool,
    ) -> Attempt<Walked<'x, F>> {
        let link = self.cx.sb.entry_inode(parent, entry, self.g)?;
        // What the link leads to may begin with `..`.
        if self.trail.is_empty()
            && let Some(directory) = parent.directory()
        {
            self.trail.pass(parent, directory);
        }
        self.trail.pass_named(link, entry);
        // Linux does not apply the protection to the end of a link in the middle of a path.
        if self.cx.sb.options.protection.symlinks && self.inner == 0 {
            may_follow(self.cx, parent, link)?;
        }
        let walked = self.follow(parent, link)?;
        Ok(Walked {
            slash: walked.slash || slash,
            ..walked
        })
    }

    #[inline(always)]
    fn step(&mut self, here: &'x Inode, (at, kind): (Hashed<'_>, Last)) -> Attempt<Named<'x>> {
        if kind == Last::DotDot {
            self.up = true;
            if std::ptr::eq(here, self.root) {
                return self.stay(here);
            }
        }
        named(self.cx, here, at, self.g)
    }

    /// A step that leads nowhere else. In a function of its own, the name that it does not use
    /// stays in registers.
    #[cold]
    #[inline(never)]
    fn stay(&self, here: &'x Inode) -> Attempt<Named<'x>> {
        named(self.cx, here, self.itself().0, self.g)
    }

    /// What stands for a directory itself.
    #[cold]
    fn itself(&self) -> (Hashed<'static>, Last) {
        (self.unnamed(b"."), Last::Dot)
    }

    /// What stands for a directory itself, and is in no table.
    #[cold]
    fn unnamed(&self, name: &'static [u8]) -> Hashed<'static> {
        hashed(self.cx, name)
    }

    #[cold]
    #[inline(never)]
    fn follow<F: WalkEnd<'x>>(
        &mut self,
        parent: &'x Inode,
        link: &'x Inode,
    ) -> Attempt<Walked<'x, F>> {
        self.links += 1;
        if self.links > LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = readlink(self.cx, link)?;
        self.run(parent, target, Follow::Yes)
    }
}

/// `may_follow_link` of Linux with `fs.protected_symlinks`.
fn may_follow(cx: &Ctx<'_>, parent: &Inode, link: &Inode) -> Result<(), Errno> {
    let (directory, link) = (parent.meta.owner(), link.meta.owner());
    let open_to_all = libc::S_ISVTX | libc::S_IWOTH;
    let is_safe = !cx.caller.checks()
        || cx.caller.uid == link.uid
        || directory.uid == link.uid
        || u32::from(directory.perm) & open_to_all != open_to_all;
    if is_safe { Ok(()) } else { Err(Errno::EACCES) }
}

/// How many of the last `left` bytes of `path` are left behind the slashes that they begin with.
#[inline(always)]
fn after_slashes(path: &[u8], left: usize) -> usize {
    match &path[path.len() - left..] {
        [b'/', b'/', rest @ ..] => after_many(rest),
        [b'/', rest @ ..] => rest.len(),
        _ => left,
    }
}

/// [`after_slashes`] of a path where the last `left` bytes begin with a slash, or there are none.
#[inline(always)]
fn after_slash(path: &[u8], left: usize) -> usize {
    match path.get(path.len() - left + 1..) {
        Some([b'/', rest @ ..]) => after_many(rest),
        Some(rest) => rest.len(),
        None => 0,
    }
}

#[cold]
#[inline(never)]
fn after_many(mut path: &[u8]) -> usize {
    while let [b'/', rest @ ..] = path {
        path = rest;
    }
    path.len()
}

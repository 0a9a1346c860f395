//! Cases on the reference model: the small state, and the effect of a call on it.

use super::argument::{
    CHUNK, DUP2_TARGETS, PAGE, XATTR, flags, length, lock, mode, modified, path, record,
};
use super::bare_tree::{extra_names, fixture, open_op};
use super::case::{Case, Open, Sharing};
use super::operation::{Dir, Name, Operation, Place, Slot};
use super::verb::Verb;
use hearth_model::{
    Bytes, CWD, Fd, Fill, LockSpec, Model, Op, Outcome, SetTime, State, Target, bytes,
};
use std::collections::{BTreeSet, HashMap};

/// Models of the bare tree, by its directories.
#[derive(Default)]
pub struct TreeModels(HashMap<Vec<Dir>, Model>);

/// A model in the state of a case.
#[derive(Clone)]
pub struct Reference {
    model: Model,
    sharing: Sharing,
    sides: [ModelSide; 2],
    /// Inodes whose change time has moved.
    changed: BTreeSet<u64>,
    /// Inodes read after they changed: `relatime` moves their access time.
    aged: BTreeSet<u64>,
}

/// The state of one side.
#[derive(Clone, Default)]
struct ModelSide {
    process: usize,
    /// Its descriptors; each repetition's own where there are many.
    open: Vec<(Open, Vec<Fd>)>,
    /// Descriptors that it has made.
    made: Fd,
    children: Vec<usize>,
    ending: Vec<usize>,
}

/// The result of a call, as far as it is not the system's choice.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An outcome of the model.
    Plain(Outcome),
    /// `stat`: attributes, and whether the change time has moved.
    Attr(Outcome, bool),
    /// `statfs`: inodes and pages in use.
    Usage(u64, u64),
}

/// What can be told apart after a case.
#[derive(Debug, PartialEq)]
pub struct After {
    state: State,
    changed: BTreeSet<u64>,
    /// Inodes whose access time has moved, and would not with `noatime`.
    pub aged: BTreeSet<u64>,
}

impl TreeModels {
    /// Returns the state of `case` for windows of `count` calls.
    pub fn state(&mut self, case: &Case, count: usize) -> Reference {
        let dirs = case.dirs();
        let fixture = self.0.entry(dirs.clone()).or_insert_with(|| fixture(&dirs));
        let mut model = fixture.clone();
        extra_names(&mut model, case, count);
        let first = model.add_process(0, 0, &[]);
        let mut reference = Reference {
            model,
            sharing: case.sharing,
            sides: [ModelSide::default(), ModelSide::default()],
            changed: BTreeSet::new(),
            aged: BTreeSet::new(),
        };
        reference.sides[0].process = first;
        reference.sides[1].process = match case.sharing {
            Sharing::Processes => reference.model.add_process(0, 0, &[]),
            Sharing::Threads | Sharing::Kin => first,
        };
        for (side, opens) in case.opens().iter().enumerate() {
            for open in opens {
                reference.open(side, open, count);
            }
        }
        if case.sharing == Sharing::Kin {
            reference.sides[1].process = reference.fork(first);
        }
        for (side, op) in case.sides.iter().enumerate() {
            reference.prepare_ends(side, op, count);
        }
        reference
    }
}

impl Reference {
    /// Lets a side make its call for the `i`-th time.
    pub fn call(&mut self, side: usize, op: &Operation, i: usize) -> Answer {
        let p = self.sides[side].process;
        match op.verb {
            Verb::StatFs => {
                let (inodes, pages) = self.model.usage();
                return Answer::Usage(inodes, pages);
            }
            Verb::Fork => {
                let child = self.fork(p);
                self.sides[side].children.push(child);
                return Answer::Plain(Outcome::Done);
            }
            Verb::Exit => {
                let ending = self.sides[side].ending[i];
                return Answer::Plain(self.model.apply(ending, &Op::Exit));
            }
            _ => {}
        }
        let call = self.translate(side, op, i);
        let inodes = self.inodes(side, op, i);
        let outcome = self.model.apply(p, &call);
        let is_done = !matches!(outcome, Outcome::Error(_) | Outcome::Unspecified);
        if is_done {
            self.note(op, &inodes);
        }
        if let (Outcome::Fd(fd), true) = (&outcome, op.verb != Verb::Dup2) {
            self.claim(side, *fd);
            return Answer::Plain(Outcome::Done);
        }
        match op.verb {
            Verb::Stat | Verb::FStat if is_done => {
                let is_changed = inodes.target.is_some_and(|it| self.changed.contains(&it));
                Answer::Attr(outcome, is_changed)
            }
            _ => Answer::Plain(outcome),
        }
    }

    /// Returns what can be told apart now.
    pub fn after(self) -> After {
        let sides = self.sides.iter();
        let mut order: Vec<usize> = sides.map(|side_state| side_state.process).collect();
        for side_state in &self.sides {
            order.extend(side_state.children.iter().chain(&side_state.ending));
        }
        After {
            state: self.model.state(&order),
            changed: self.changed,
            aged: self.aged,
        }
    }

    fn open(&mut self, side: usize, open: &Open, count: usize) {
        let p = self.sides[side].process;
        let count = if open.is_many { count } else { 1 };
        let mut fds = Vec::new();
        for _ in 0..count {
            let outcome = match open.slot {
                Slot::Twin => {
                    let fd = self.descriptor(side, open.place, Slot::First, 0);
                    self.model.apply(p, &Op::Dup { fd })
                }
                Slot::First | Slot::Again => {
                    let appends = if open.appends { libc::O_APPEND } else { 0 };
                    self.model
                        .apply(p, &open_op(path(open.place, 0), libc::O_RDWR | appends))
                }
            };
            let Outcome::Fd(fd) = outcome else {
                unreachable!("files of the state can be opened: {outcome:?}")
            };
            fds.push(fd);
            if open.page > 0 && open.slot != Slot::Twin {
                let offset = (u64::from(open.page) * PAGE) as i64;
                let whence = libc::SEEK_SET;
                self.model.apply(p, &Op::Seek { fd, offset, whence });
            }
        }
        self.sides[side].open.push((*open, fds));
    }

    fn prepare_ends(&mut self, side: usize, op: &Operation, count: usize) {
        if op.verb != Verb::Exit {
            return;
        }
        for _ in 0..count {
            let ending = if op.choice == 1 {
                self.fork(self.sides[side].process)
            } else {
                let ending = self.model.add_process(0, 0, &[]);
                self.model
                    .apply(ending, &open_op(path(op.on, 0), libc::O_RDWR));
                ending
            };
            self.sides[side].ending.push(ending);
        }
    }

    fn fork(&mut self, p: usize) -> usize {
        match self.model.apply(p, &Op::Fork) {
            Outcome::Process(child) => child,
            other => unreachable!("a process can fork: {other:?}"),
        }
    }

    /// Returns the descriptor of a side; that of the other side if they share a table or an
    /// ancestor.
    fn descriptor(&self, side: usize, place: Place, slot: Slot, i: usize) -> Fd {
        let is_own = self.sharing == Sharing::Processes;
        let sides = if is_own { side..side + 1 } else { 0..2 };
        let mut open = self.sides[sides]
            .iter()
            .flat_map(|side_state| &side_state.open);
        let found = open.find(|(open, _)| open.place == place && open.slot == slot);
        let (_, fds) = found.expect("the state has the descriptors that its calls use");
        fds[if fds.len() > 1 { i } else { 0 }]
    }

    /// Gives a new descriptor a number that only this side uses, like a table per core.
    fn claim(&mut self, side: usize, fd: Fd) {
        if self.sharing != Sharing::Threads {
            return;
        }
        let side_state = &mut self.sides[side];
        let least = 10_000 * (side as Fd + 1) + side_state.made;
        side_state.made += 1;
        let p = side_state.process;
        let cloexec = false;
        self.model.apply(p, &Op::DupFrom { fd, least, cloexec });
        self.model.apply(p, &Op::Close { fd });
    }

    #[rustfmt::skip] // One line per verb reads as a table.
    fn translate(&self, side: usize, op: &Operation, i: usize) -> Op {
        let dirfd = CWD;
        let name = |place, varies| bytes(path(place, if varies { i } else { 0 }));
        let on = name(op.on, op.varies_on());
        let to = || name(op.to.expect("the verb has two names"), op.varies_to());
        let fd = match op.descriptor() {
            Some((place, slot)) => self.descriptor(side, place, slot, i),
            None => -1,
        };
        let offset = (u64::from(op.choice) * PAGE) as i64;
        let data = Fill { seed: 2 + op.value, len: CHUNK };
        let target = Target::Path(on.clone());
        let create = libc::O_CREAT | libc::O_RDWR;
        match op.verb {
            Verb::Open => open_op(&*on, flags(op)),
            Verb::CreateNew | Verb::CreateExisting => open_op(&*on, create),
            Verb::Exclusive => open_op(&*on, create | libc::O_EXCL),
            Verb::Close => Op::Close { fd },
            Verb::Read => Op::Read { fd, len: CHUNK },
            Verb::PRead => Op::ReadAt { fd, len: CHUNK, offset },
            Verb::Write | Verb::Append => Op::Write { fd, data },
            Verb::PWrite => Op::WriteAt { fd, data, offset },
            Verb::Stat => Op::Stat { dirfd, path: on, flags: 0 },
            Verb::FStat => Op::StatFd { fd },
            Verb::LSeek => Op::Seek { fd, offset, whence: libc::SEEK_SET },
            Verb::Truncate => Op::Truncate { path: on, len: length(op) as i64 },
            Verb::Link =>
                Op::Link { old_dirfd: CWD, old: on, new_dirfd: CWD, new: to(), flags: 0 },
            Verb::Unlink => Op::Unlink { dirfd, path: on, flags: 0 },
            Verb::Rename =>
                Op::Rename { old_dirfd: CWD, old: on, new_dirfd: CWD, new: to(), flags: 0 },
            Verb::MkDir => Op::MakeDir { dirfd, path: on, mode: 0o755 },
            Verb::RmDir => Op::Unlink { dirfd, path: on, flags: libc::AT_REMOVEDIR },
            Verb::ReadDir => Op::List { path: on },
            Verb::Symlink => Op::Symlink { target: bytes("f"), dirfd, path: on },
            Verb::ReadLink => Op::ReadLink { dirfd, path: on },
            Verb::ChMod => Op::Chmod { dirfd, path: on, mode: mode(op), flags: 0 },
            Verb::UTimens => Op::SetTimes { dirfd, path: on, times: times(op), flags: 0 },
            Verb::Access => Op::Access { dirfd, path: on, mask: 4, flags: 0 },
            Verb::Dup => Op::Dup { fd },
            Verb::Dup2 => Op::Dup2 { fd, to: self.dup2_target(side, op) },
            Verb::GetXattr => Op::GetXattr { target, name: bytes(XATTR) },
            Verb::SetXattr =>
                Op::SetXattr { target, name: bytes(XATTR), value: value(op), flags: 0 },
            Verb::FLock => Op::Flock { fd, op: lock(op) },
            Verb::SetLock => Op::SetLock { fd, lock: record_lock(op) },
            Verb::StatFs | Verb::Fork | Verb::Exit => unreachable!("done by the caller"),
        }
    }

    fn dup2_target(&self, side: usize, op: &Operation) -> Fd {
        match op.to {
            Some(to) => self.descriptor(side, to, Slot::First, 0),
            None => DUP2_TARGETS[usize::from(op.choice) % 2],
        }
    }

    fn inodes(&self, side: usize, op: &Operation, i: usize) -> Inodes {
        let p = self.sides[side].process;
        let at = |place, varies| {
            let path = path(place, if varies { i } else { 0 });
            self.model.number_at(path.as_bytes())
        };
        let on = match op.descriptor() {
            Some((place, slot)) => self
                .model
                .number_of(p, self.descriptor(side, place, slot, i)),
            None => at(op.on, op.varies_on()),
        };
        let behind = Place {
            name: Name::File,
            ..op.on
        };
        Inodes {
            on,
            target: if op.on.name == Name::Link {
                at(behind, false)
            } else {
                on
            },
            to: op.to.and_then(|to| at(to, op.varies_to())),
        }
    }

    /// Notes which times a successful call has moved.
    fn note(&mut self, op: &Operation, inodes: &Inodes) {
        let both = [inodes.on, inodes.to];
        let changed: &[Option<u64>] = match op.verb {
            Verb::ChMod | Verb::UTimens | Verb::SetXattr | Verb::Truncate => &both[..1],
            Verb::Write | Verb::PWrite | Verb::Append | Verb::Unlink | Verb::Link => &both[..1],
            Verb::Rename => &both,
            _ => &[],
        };
        let follows = matches!(
            op.verb,
            Verb::Open | Verb::CreateExisting | Verb::Stat | Verb::Access | Verb::ReadLink
        );
        let reads = matches!(op.verb, Verb::Read | Verb::PRead | Verb::ReadDir)
            || follows && op.on.name == Name::Link;
        if let Some(read) = inodes.on.filter(|on| reads && self.changed.contains(on)) {
            self.aged.insert(read);
        }
        self.changed.extend(changed.iter().flatten());
    }
}

/// Returns the inodes that a call concerns, before it.
struct Inodes {
    on: Option<u64>,
    /// Behind a symbolic link.
    target: Option<u64>,
    to: Option<u64>,
}

fn times(op: &Operation) -> [SetTime; 2] {
    [SetTime::Omit, SetTime::At(modified(op), 0)]
}

fn record_lock(op: &Operation) -> LockSpec {
    let (kind, start) = record(op);
    LockSpec {
        ofd: false,
        kind,
        whence: libc::SEEK_SET,
        start: start as i64,
        len: PAGE as i64,
    }
}

fn value(op: &Operation) -> Bytes {
    Bytes(vec![1 + op.value; CHUNK])
}

//! The state in which a case begins, in the library.

use super::argument::{CHUNK, DUP2_TARGETS, PAGE, XATTR};
use super::case::{Case, Open, Sharing};
use super::fixture::Fixture;
use super::operation::{Dir, Name, Operation, Place, Slot};
use super::opts::Opts;
use super::perform::{Call, CallBuffers};
use super::reserve::Reserve;
use super::verb::Verb;
use super::warm;
use hearth::fdtable::FdPolicy;
use hearth::{Fd, Process};
use std::sync::Arc;

/// The state of one case.
pub struct CaseState {
    fixture: Arc<Fixture>,
    case: Case,
    base: String,
    /// Calls a side.
    count: usize,
    sides: [Option<SideState>; 2],
    open: [Vec<(Open, Vec<Fd>)>; 2],
    /// Shifts the addresses of later allocations.
    padding: Vec<Vec<u8>>,
    seed: usize,
    is_lean: bool,
}

/// The state of one side.
pub struct SideState {
    /// Its process.
    pub process: Arc<Process>,
    /// Its calls.
    pub calls: Vec<Call>,
    /// What the calls need.
    pub buffers: CallBuffers,
    /// What they may allocate from.
    _reserve: Option<Reserve>,
}

impl CaseState {
    /// Makes the tree of `case`, for `count` calls a side. On the thread of the maker.
    ///
    /// # Panics
    /// When the library refuses, like all methods here.
    pub fn new(fixture: Arc<Fixture>, base: String, case: Case, opts: Opts) -> CaseState {
        fixture.make_base(&base);
        let process = fixture.process();
        let (count, seed) = (opts.count, opts.layout.seed);
        let mut case_state = CaseState {
            fixture,
            case,
            base,
            count,
            sides: [None, None],
            open: Default::default(),
            padding: Vec::new(),
            seed,
            is_lean: opts.is_lean,
        };
        for dir in case.dirs() {
            process
                .mkdir(case_state.dir(dir), 0o755)
                .expect("a new directory");
            case_state.widen(&process, dir);
            for name in Name::ALL {
                let place = Place { dir, name };
                if case_state.has(place) {
                    case_state.make(&process, place, 0);
                }
            }
        }
        for place in case.varying() {
            for i in 1..count {
                case_state.make(&process, place, i);
            }
        }
        case_state
    }

    /// Opens the process and the descriptors of a side. On its thread, the first side before the
    /// second.
    pub fn open_side(&mut self, side: usize) {
        let process = match (side, self.case.sharing) {
            (1, Sharing::Threads) => self.process(0),
            (1, Sharing::Kin) => Arc::new(self.process(0).fork()),
            (_, sharing) => {
                let mut process = self.fixture.process();
                if sharing == Sharing::Threads {
                    process
                        .set_fd_policy(FdPolicy::PerCore)
                        .expect("nothing is open");
                }
                Arc::new(process)
            }
        };
        for open in &self.case.opens()[side] {
            let fds = self.open(&process, side, open);
            self.open[side].push((*open, fds));
        }
        self.sides[side] = Some(SideState {
            process,
            calls: Vec::new(),
            buffers: CallBuffers::default(),
            _reserve: None,
        });
    }

    /// Does everything once in the directories of the case, so that what is made on first use, or
    /// splits for a second core, exists. On the thread of each side.
    pub fn warm(&mut self, side: usize) {
        let process = self.process(side);
        for dir in self.case.dirs() {
            warm::directory(&process, &self.dir(dir), side, self.is_lean);
        }
        for op in self.case.sides {
            for place in op.places() {
                let path = self.path(place, 0);
                match place.name {
                    Name::Empty | Name::Empty2 => warm::empty(&process, &path, self.is_lean),
                    name if name.is_file() => warm::file(&process, &path, self.is_lean),
                    _ => {}
                }
            }
        }
        if !self.is_lean {
            drop(process.fork());
            process.statfs("/").expect("statfs");
            self.settle(side);
        }
    }

    /// Reads everything once. On the thread of each side.
    pub fn settle(&self, side: usize) {
        let process = self.process(side);
        for dir in self.case.dirs() {
            process
                .read_dir(self.dir(dir))
                .expect("a directory can be listed");
            let here = [Name::File, Name::File2, Name::Link].map(|name| Place { dir, name });
            for place in here.into_iter().filter(|&place| self.has(place)) {
                let path = self.path(place, 0);
                if place.name == Name::Link {
                    process.readlink(&path).expect("a link can be read");
                }
                let fd = process
                    .open(&path, libc::O_RDONLY, 0)
                    .expect("a file can be opened");
                process
                    .pread(fd, &mut [0; CHUNK], 0)
                    .expect("a file can be read");
                process.close(fd).expect("it is open");
            }
        }
    }

    /// Prepares the calls of a side. On its thread.
    pub fn prepare(&mut self, side: usize) {
        let op = self.case.sides[side];
        let calls = (0..self.count).map(|i| self.call(side, op, i)).collect();
        let process = self.process(side);
        let mut buffers = CallBuffers::default();
        if op.verb == Verb::Fork {
            buffers.children.reserve(self.count);
        }
        if op.verb == Verb::Exit {
            buffers.ending = (0..self.count)
                .map(|_| Some(self.ending(&process, &op)))
                .collect();
        }
        let reserve = (self.count > 1).then(Reserve::new);
        let side_state = self.sides[side].as_mut().expect("the side is open");
        (side_state.calls, side_state.buffers, side_state._reserve) = (calls, buffers, reserve);
    }

    /// Takes the state of a side.
    pub fn take(&mut self, side: usize) -> SideState {
        self.sides[side].take().expect("the side is open")
    }

    /// Gives it back.
    pub fn put(&mut self, side: usize, side_state: SideState) {
        self.sides[side] = Some(side_state);
    }

    fn process(&self, side: usize) -> Arc<Process> {
        let side_state = self.sides[side].as_ref().expect("the side is open");
        side_state.process.clone()
    }

    fn path(&self, place: Place, i: usize) -> Vec<u8> {
        self.fixture.path(&self.base, place, i)
    }

    /// Returns whether the place is made. A lean state has what the calls name and what keeps `s`
    /// from being empty: two files, because a call may remove one.
    fn has(&self, place: Place) -> bool {
        let is_file = place.name == Name::File;
        let behind = Place {
            name: Name::Link,
            ..place
        };
        let mut named = self.case.sides.iter().flat_map(|op| op.places());
        !self.is_lean
            || place.name.is_file() && place.dir.above().is_some()
            || named.any(|other| other == place || is_file && other == behind)
    }

    fn dir(&self, dir: Dir) -> Vec<u8> {
        self.fixture.dir(&self.base, dir)
    }

    fn inside(&self, dir: Dir, name: &str) -> Vec<u8> {
        [&self.dir(dir)[..], b"/", name.as_bytes()].concat()
    }

    fn call(&self, side: usize, op: Operation, i: usize) -> Call {
        let at = |place, varies| self.path(place, if varies { i } else { 0 });
        let fd = match op.descriptor() {
            Some((place, slot)) => self.descriptor(side, place, slot, i),
            None => -1,
        };
        Call {
            op,
            on: at(op.on, op.varies_on()),
            to: op.to.map(|to| at(to, op.varies_to())).unwrap_or_default(),
            fd,
            to_fd: match op.to {
                Some(to) if op.verb == Verb::Dup2 => self.descriptor(side, to, Slot::First, 0),
                _ => DUP2_TARGETS[usize::from(op.choice) % 2],
            },
        }
    }

    fn ending(&self, process: &Process, op: &Operation) -> Process {
        if op.choice == 1 {
            return process.fork();
        }
        let ending = self.fixture.process();
        let opened = ending.open(self.path(op.on, 0), libc::O_RDWR, 0);
        opened.expect("a file of the state can be opened");
        ending
    }

    fn open(&self, process: &Process, side: usize, open: &Open) -> Vec<Fd> {
        let count = if open.is_many { self.count } else { 1 };
        let one = |_| {
            let fd = if open.slot == Slot::Twin {
                process.dup(self.descriptor(side, open.place, Slot::First, 0))
            } else {
                let appends = if open.appends { libc::O_APPEND } else { 0 };
                process.open(self.path(open.place, 0), libc::O_RDWR | appends, 0)
            };
            let fd = fd.expect("a file of the state can be opened");
            // A twin has the offset of the descriptor it was made of.
            if open.slot != Slot::Twin {
                let offset = u64::from(open.page) * PAGE;
                process
                    .lseek(fd, offset as i64, libc::SEEK_SET)
                    .expect("it is open");
            }
            fd
        };
        (0..count).map(one).collect()
    }

    fn descriptor(&self, side: usize, place: Place, slot: Slot, i: usize) -> Fd {
        let is_own = self.case.sharing == Sharing::Processes;
        let lists = if is_own { side..side + 1 } else { 0..2 };
        let mut open = self.open[lists].iter().flatten();
        let found = open.find(|(open, _)| open.place == place && open.slot == slot);
        let (_, fds) = found.expect("the state has the descriptors that its calls use");
        fds[if fds.len() > 1 { i } else { 0 }]
    }

    /// Lets the table of a directory grow to its final size.
    fn widen(&self, process: &Process, dir: Dir) {
        let varying = self.case.varying();
        let here = varying.iter().filter(|place| place.dir == dir);
        let pools = here.count();
        if self.count < 2 || pools == 0 {
            return;
        }
        // Space for the names that exist, those that come, and some.
        let names: Vec<Vec<u8>> = (0..(pools + 1) * self.count)
            .map(|n| self.inside(dir, &format!("wide{n}")))
            .collect();
        for name in &names {
            process.mknod(name, 0o100644, 0).expect("a new name");
        }
        for name in &names {
            process.unlink(name).expect("a name that was made");
        }
    }

    fn make(&mut self, process: &Process, place: Place, i: usize) {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.padding.push(vec![0; 16 + (self.seed >> 33) % 208]);
        let path = self.path(place, i);
        match place.name {
            Name::File | Name::File2 => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
                let fd = process.open(&path, flags, 0o644).expect("a new file");
                let data: [u8; CHUNK] = std::array::from_fn(|i| 1 + i as u8);
                for page in 0..2 {
                    process
                        .pwrite(fd, &data, page * PAGE)
                        .expect("room for a page");
                }
                process
                    .ftruncate(fd, 2 * PAGE)
                    .expect("it is open for writing");
                process.close(fd).expect("it is open");
                let set = process.setxattr(&path, XATTR.as_bytes(), &[0; CHUNK], 0);
                set.expect("a file has attributes");
            }
            Name::Link => {
                let target = self.fixture.name(Name::File);
                process.symlink(target, &path).expect("a new name");
            }
            Name::Empty | Name::Empty2 => process.mkdir(&path, 0o755).expect("a new name"),
            // The first is a directory of the state.
            Name::Sub if i > 0 => {
                process.mkdir(&path, 0o755).expect("a new name");
                let inside = [&path[..], b"/", self.fixture.name(Name::File).as_bytes()].concat();
                process.mknod(inside, 0o100644, 0).expect("a new name");
            }
            Name::Sub | Name::Missing | Name::Missing2 | Name::Itself => {}
        }
    }
}

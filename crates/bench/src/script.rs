//! Workloads as data: a tree, and the calls that make up one operation of a task.
//!
//! In paths, `{t}` is the number of the task, `{n}` that of the operation and `{m}` the one after
//! it. A path without `{n}` and `{m}` is made before what is measured.

use crate::target::{Client, Handle};
use crate::workload::{Place, Ready, STRIDE, Task, Workload, must, path};
use std::ffi::{CStr, CString};

/// What files are filled with.
pub const BYTE: u8 = 7;
/// Operations of a task that uses up its files, where it is repeated operation by operation.
pub const OPERATIONS: usize = 2048;
/// Flags of files that are made.
pub const NEW: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;

#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    /// One line for the report; may be empty.
    pub about: &'static str,
    /// Made once, for all tasks.
    pub tree: &'static [Make],
    /// Made by each task, on its core, before it begins.
    pub own: &'static [Make],
    /// What each task does once.
    pub begin: &'static [Step],
    /// One operation.
    pub steps: &'static [Step],
    /// Undoes one operation, where operations use up what they work on.
    pub back: &'static [Step],
    /// What has to be there afterwards.
    pub left: &'static [Left],
    /// Operations between two looks at the clock.
    pub stride: u64,
}

/// A part of a tree. With `{t}` in its path there is one for each task.
#[derive(Debug)]
pub enum Make {
    Dir(&'static str),
    /// A file of so many bytes.
    File(&'static str, u64),
    /// A file of so many bytes, all of them a hole.
    Hole(&'static str, u64),
    /// A number of empty files, with `{n}` in their path.
    Files(&'static str, usize),
    /// An empty file for each operation of the task, with `{n}` in their path.
    Each(&'static str),
    /// A file with so many bytes for each operation of the task.
    Long(&'static str, u64),
    /// One file with so many bytes for each task; for one task alone a page.
    Regions(&'static str, u64),
    /// An empty file and the directories that lead to it.
    Deep(&'static str),
    /// A number of directories in each directory down to a depth, where they are files.
    Tree(usize, usize),
}

/// One call. `usize` is the number of an open file, in the order of opening.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Chdir(&'static str),
    Open(&'static str, i32),
    /// Closes what was opened last.
    Close,
    Stat(&'static str),
    Missing(&'static str),
    /// Has to be refused.
    Refused(&'static str, i32),
    Unlink(&'static str),
    Rename(&'static str, &'static str),
    /// A number of bytes, the last of which has this value.
    Read(usize, At, usize, u8),
    Write(usize, At, usize),
    /// At the file's position.
    Append(usize, usize),
    Truncate(usize, At, usize),
    Sync(usize),
    /// Has to have so many entries.
    List(&'static str, fn(usize) -> usize),
    /// Takes a byte and gives it back.
    Lock(usize),
    /// A random file of `Make::Tree`.
    StatRandom(usize, usize),
    /// Each file of `Make::Tree`: one task alone would find less of it warm than two do.
    StatAll(usize, usize),
}

/// Where in a file.
#[derive(Clone, Copy, Debug)]
pub enum At {
    Begin,
    /// A number of blocks in turn.
    Cycle(usize),
    /// A random one of so many blocks.
    Random(usize),
    /// The region of the task, of so many bytes.
    Region(u64),
    /// One block less for each operation, down to 0.
    Down,
}

/// What has to be there afterwards. The arguments are the tasks, and the operations of a task.
#[derive(Debug)]
pub enum Left {
    Entries(&'static str, fn(usize, usize) -> usize),
    /// Bytes of a file.
    Size(&'static str, fn(usize) -> usize),
    /// A name, `{n}` being the operations.
    There(&'static str),
    /// The bytes of a file all have this value.
    Content(&'static str, usize, u8),
}

/// A script whose other parts are empty; the methods fill them.
pub const fn script(name: &'static str, tree: &'static [Make], steps: &'static [Step]) -> Script {
    Script {
        name,
        about: "",
        tree,
        own: &[],
        begin: &[],
        steps,
        back: &[],
        left: &[],
        stride: STRIDE,
    }
}

impl Script {
    pub const fn about(self, about: &'static str) -> Script {
        Script { about, ..self }
    }

    pub const fn own(self, own: &'static [Make]) -> Script {
        Script { own, ..self }
    }

    pub const fn begin(self, begin: &'static [Step]) -> Script {
        Script { begin, ..self }
    }

    pub const fn back(self, back: &'static [Step]) -> Script {
        Script { back, ..self }
    }

    pub const fn left(self, left: &'static [Left]) -> Script {
        Script { left, ..self }
    }

    pub const fn stride(self, stride: u64) -> Script {
        Script { stride, ..self }
    }

    /// Whether it moves bytes, not only names and attributes.
    pub fn moves_bytes(&self) -> bool {
        let moves = |step: &Step| matches!(step, Step::Read(..) | Step::Write(..));
        self.steps.iter().any(moves)
    }

    /// Whether an operation makes or drops contents.
    pub fn has_contents(&self) -> bool {
        let has = |step: &Step| {
            matches!(
                step,
                Step::Write(..) | Step::Append(..) | Step::Truncate(..)
            )
        };
        self.steps.iter().any(has)
    }

    /// Repeated for a while.
    pub fn repeated(&'static self) -> Times {
        Times {
            script: self,
            mode: Mode::Repeated,
        }
    }

    /// A fixed number of operations by each task.
    pub fn times(&'static self, times: usize) -> Times {
        Times {
            script: self,
            mode: Mode::Fixed(times),
        }
    }

    /// Whether the tree is as so many operations by each task leave it.
    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        let tasks = done.len();
        for left in self.left {
            let template = match left {
                Left::Entries(path, _) | Left::Size(path, _) => path,
                Left::There(path) | Left::Content(path, ..) => path,
            };
            let each = if template.contains("{t}") { tasks } else { 1 };
            for (task, &times) in done.iter().enumerate().take(each) {
                let place = path(filled(template, task, times));
                let times = times as usize;
                let (found, due) = match *left {
                    Left::Entries(_, due) => (client.list(&place)?, due(tasks, times)),
                    Left::Size(_, due) => (client.about(&place)?.size as usize, due(times)),
                    Left::There(_) => (usize::from(client.stat(&place)), 1),
                    Left::Content(_, size, byte) => {
                        let file = client.open(&place, libc::O_RDONLY)?;
                        let mut bytes = vec![!byte; size];
                        let got = client.read(file, &mut bytes, 0)?;
                        client.close(file)?;
                        let right = bytes[..got].iter().filter(|&&one| one == byte);
                        (right.count(), size)
                    }
                };
                must(found == due, || {
                    format!("{}: {place:?}: {found} of {due}", self.name)
                })?;
            }
        }
        Ok(())
    }
}

/// A template with its numbers.
fn filled(template: &str, task: usize, n: u64) -> String {
    let text = template.replace("{t}", &task.to_string());
    text.replace("{n}", &n.to_string())
        .replace("{m}", &(n + 1).to_string())
}

impl Make {
    fn run(
        &self,
        client: &dyn Client,
        tasks: std::ops::Range<usize>,
        all: usize,
        times: usize,
    ) -> Result<(), String> {
        let (Make::Dir(template)
        | Make::File(template, _)
        | Make::Hole(template, _)
        | Make::Files(template, _)
        | Make::Each(template)
        | Make::Long(template, _)
        | Make::Regions(template, _)
        | Make::Deep(template)) = self
        else {
            let Make::Tree(branches, depth) = *self else {
                return Ok(());
            };
            return make_tree(client, "", branches, depth);
        };
        let each = if template.contains("{t}") {
            tasks
        } else {
            0..1
        };
        for task in each {
            let name = |n: usize| path(filled(template, task, n as u64));
            match *self {
                Make::Dir(_) => client.mkdir(&name(0))?,
                Make::File(_, bytes) => fill(client, &name(0), bytes)?,
                Make::Hole(_, bytes) => {
                    let file = client.open(&name(0), NEW)?;
                    client.truncate(file, bytes)?;
                    client.close(file)?;
                }
                Make::Files(_, files) => (0..files).try_for_each(|n| fill(client, &name(n), 0))?,
                Make::Each(_) => (0..times).try_for_each(|n| fill(client, &name(n), 0))?,
                Make::Long(_, bytes) => fill(client, &name(0), bytes * times as u64)?,
                Make::Regions(_, bytes) => {
                    fill(
                        client,
                        &name(0),
                        if all > 1 { bytes * all as u64 } else { 4096 },
                    )?;
                }
                Make::Deep(_) => {
                    let file = name(0).into_bytes();
                    let slashes = (1..file.len()).filter(|&at| file[at] == b'/');
                    for dir in slashes.map(|at| path(&file[..at])) {
                        if !client.stat(&dir) {
                            client.mkdir(&dir)?;
                        }
                    }
                    fill(client, &path(file), 0)?;
                }
                Make::Tree(..) => {}
            }
        }
        Ok(())
    }
}

/// Makes a file of so many bytes.
fn fill(client: &dyn Client, file: &CStr, bytes: u64) -> Result<(), String> {
    let handle = client.open(file, NEW)?;
    let block = vec![BYTE; bytes.clamp(1, 1 << 20) as usize];
    for at in (0..bytes).step_by(block.len()) {
        let part = &block[..block.len().min((bytes - at) as usize)];
        let done = client.write(handle, part, at)?;
        must(done == part.len(), || format!("{done} bytes at {at}"))?;
    }
    client.close(handle)
}

fn make_tree(
    client: &dyn Client,
    above: &str,
    branches: usize,
    levels: usize,
) -> Result<(), String> {
    (0..branches)
        .map(|n| format!("{above}/{n}"))
        .try_for_each(|below| {
            if levels == 1 {
                return fill(client, &path(below), 0);
            }
            client.mkdir(&path(&*below))?;
            make_tree(client, &below, branches, levels - 1)
        })
}

/// A path, which is made for each operation only if it has its number in it.
enum Name {
    Fixed(CString),
    Numbered(String),
}

impl Name {
    fn new(template: &str, task: usize) -> Name {
        let text = template.replace("{t}", &task.to_string());
        match text.contains("{n}") || text.contains("{m}") {
            true => Name::Numbered(text),
            false => Name::Fixed(path(text)),
        }
    }

    /// The path of operation number `n`; `made` keeps one that is made for it.
    #[inline]
    fn at<'a>(&'a self, n: u64, made: &'a mut CString) -> &'a CStr {
        match self {
            Name::Fixed(path) => path,
            Name::Numbered(template) => {
                let (before, after) = template.split_once('{').unwrap_or((template, ""));
                let n = if after.starts_with('m') { n + 1 } else { n };
                *made = path(format!("{before}{n}{}", after.get(2..).unwrap_or("")));
                made
            }
        }
    }
}

/// A step with its paths.
struct Call {
    step: Step,
    names: [Name; 2],
}

impl Call {
    fn new(step: Step, task: usize) -> Call {
        let names = match step {
            Step::Rename(old, new) => [old, new],
            Step::Chdir(path)
            | Step::Open(path, _)
            | Step::Stat(path)
            | Step::Missing(path)
            | Step::Refused(path, _)
            | Step::Unlink(path)
            | Step::List(path, _) => [path, ""],
            _ => ["", ""],
        };
        Call {
            step,
            names: names.map(|name| Name::new(name, task)),
        }
    }
}

/// A script as a workload: repeated, or a fixed number of operations by each task. Those that use
/// up their files do all of it once and undo it before what is measured: then the memory that a run
/// takes is at hand, and the figure is not that of the kernel, or of a virtual machine's host,
/// which gives it.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub script: &'static Script,
    mode: Mode,
}

/// How often a task does the operation of its script.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// As long as it is run, a stride each time; there are files for [`OPERATIONS`].
    Repeated,
    /// In one phase, as often as this.
    Fixed(usize),
}

impl Mode {
    /// Operations of a task for which there are files.
    fn times(self) -> usize {
        match self {
            Mode::Repeated => OPERATIONS,
            Mode::Fixed(times) => times,
        }
    }
}

impl Workload for Times {
    fn name(&self) -> String {
        self.script.name.to_owned()
    }

    /// The last one is measured.
    fn phases(&self) -> Vec<&'static str> {
        match self.mode {
            Mode::Fixed(_) if !self.script.back.is_empty() => vec!["first", "back", "work"],
            _ => vec!["work"],
        }
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let make = |make: &Make| make.run(client, 0..tasks, tasks, OPERATIONS);
        self.script.tree.iter().try_for_each(make)
    }

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, place: Place) -> Ready<'c> {
        let (Times { script, mode }, (task, tasks)) = (*self, place);
        let times = mode.times();
        let make = |make: &Make| make.run(&*client, task..task + 1, tasks, times);
        script.own.iter().try_for_each(make)?;
        let compile = |steps: &'static [Step]| steps.iter().map(|&s| Call::new(s, task)).collect();
        let mut worker = ScriptTask {
            client,
            work: *self,
            times,
            calls: [
                compile(script.begin),
                compile(script.steps),
                compile(script.back),
            ],
            place,
            n: 0,
            made: Default::default(),
            files: Vec::new(),
            blocks: Default::default(),
            state: 0x9E37_79B9_7F4A_7C15 ^ task as u64,
        };
        worker.turn(0)?;
        worker.n = 0;
        Ok(Box::new(worker))
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        self.script.check(client, done)
    }
}

/// One task of a script.
struct ScriptTask<'c> {
    client: Box<dyn Client + 'c>,
    work: Times,
    /// Operations for which there are files.
    times: usize,
    /// Of its begin, of an operation, and of what undoes one.
    calls: [Vec<Call>; 3],
    /// Its number, and how many there are.
    place: Place,
    /// Number of the next operation.
    n: u64,
    /// Paths of this operation.
    made: [CString; 2],
    files: Vec<Handle>,
    /// What is written, and what is read.
    blocks: [Vec<u8>; 2],
    /// Of the random numbers.
    state: u64,
}

const OPERATION: usize = 1;
const BACK: usize = 2;

impl Task for ScriptTask<'_> {
    fn run(&mut self, phase: usize) -> Result<u64, String> {
        let Times { script, mode } = self.work;
        match mode {
            Mode::Repeated => {
                (0..script.stride).try_for_each(|_| self.turn(OPERATION))?;
                Ok(script.stride)
            }
            Mode::Fixed(times) => {
                self.n = 0;
                let is_back = phase == 1;
                let which = if is_back { BACK } else { OPERATION };
                (0..times).try_for_each(|_| self.turn(which))?;
                Ok(if is_back { 0 } else { times as u64 })
            }
        }
    }

    fn once(&mut self) -> Result<(), String> {
        self.turn(OPERATION)
    }
}

impl Drop for ScriptTask<'_> {
    fn drop(&mut self) {
        for file in self.files.drain(..) {
            let _ = self.client.close(file);
        }
    }
}

impl ScriptTask<'_> {
    /// Number `n` of the begin, of an operation or of its way back.
    #[inline]
    fn turn(&mut self, which: usize) -> Result<(), String> {
        for at in 0..self.calls[which].len() {
            self.call(which, at)?;
        }
        self.n += 1;
        Ok(())
    }

    #[inline]
    fn call(&mut self, which: usize, at: usize) -> Result<(), String> {
        let Call { step, names } = &self.calls[which][at];
        let (n, client) = (self.n, &*self.client);
        let [made, renamed] = &mut self.made;
        let path = names[0].at(n, made);
        let wrong = || format!("{path:?}");
        match *step {
            Step::Chdir(_) => client.chdir(path),
            Step::Open(_, flags) => client.open(path, flags).map(|file| self.files.push(file)),
            Step::Close => self.files.pop().map_or(Ok(()), |file| client.close(file)),
            Step::Stat(_) => must(client.stat(path), wrong),
            Step::Missing(_) => must(!client.stat(path), wrong),
            Step::Refused(_, flags) => must(client.refuses(path, flags), wrong),
            Step::Unlink(_) => client.unlink(path),
            Step::Rename(..) => client.rename(path, names[1].at(n, renamed)),
            Step::List(_, due) => must(client.list(path)? == due(self.place.1), wrong),
            Step::Lock(file) => {
                client.lock(self.files[file], 0, true)?;
                client.lock(self.files[file], 0, false)
            }
            Step::Sync(file) => client.sync(self.files[file]),
            Step::StatRandom(branches, depth) => {
                // The upper bits are the random ones.
                let number = (random(&mut self.state) >> 32) as usize;
                stat_in_tree(client, number, branches, depth)
            }
            Step::StatAll(branches, depth) => (0..branches.pow(depth as u32))
                .try_for_each(|number| stat_in_tree(client, number, branches, depth)),
            Step::Read(file, at, bytes, byte) => {
                let at = at.offset((n, bytes), (self.place.0, self.times), &mut self.state);
                let block = block(&mut self.blocks[1], bytes);
                let got = client.read(self.files[file], block, at)?;
                must(got == bytes && block[bytes - 1] == byte, || {
                    format!("read at {at}")
                })
            }
            Step::Write(file, at, bytes) => {
                let at = at.offset((n, bytes), (self.place.0, self.times), &mut self.state);
                let done = client.write(self.files[file], block(&mut self.blocks[0], bytes), at)?;
                must(done == bytes, || format!("write at {at}"))
            }
            Step::Append(file, bytes) => {
                let block = block(&mut self.blocks[0], bytes);
                let done = client.write_next(self.files[file], block)?;
                must(done == bytes, || format!("append number {n}"))
            }
            Step::Truncate(file, at, bytes) => {
                let size = at.offset((n, bytes), (self.place.0, self.times), &mut self.state);
                client.truncate(self.files[file], size)
            }
        }
    }
}

fn random(state: &mut u64) -> u64 {
    let next = state.wrapping_mul(6_364_136_223_846_793_005);
    *state = next.wrapping_add(1_442_695_040_888_963_407);
    *state
}

impl At {
    /// The place of block number `n`, for this task with so many operations.
    #[inline]
    fn offset(
        self,
        (n, bytes): (u64, usize),
        (task, times): (usize, usize),
        state: &mut u64,
    ) -> u64 {
        match self {
            At::Begin => 0,
            At::Cycle(blocks) => n % blocks as u64 * bytes as u64,
            At::Random(blocks) => (random(state) >> 33) % blocks as u64 * bytes as u64,
            At::Region(region) => task as u64 * region,
            At::Down => (times as u64 - n - 1) * bytes as u64,
        }
    }
}

#[inline]
fn block(block: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if block.len() < bytes {
        block.resize(bytes, BYTE);
    }
    &mut block[..bytes]
}

/// Looks up the file that the digits of `number` name.
fn stat_in_tree(
    client: &dyn Client,
    mut number: usize,
    branches: usize,
    depth: usize,
) -> Result<(), String> {
    // A path of one digit an element, and a NUL.
    let mut path = [b'/'; 32];
    path[2 * depth] = 0;
    for element in 0..depth {
        path[2 * element + 1] = b'0' + (number % branches) as u8;
        number /= branches;
    }
    let file = CStr::from_bytes_until_nul(&path).expect("digits, slashes and a NUL");
    must(client.stat(file), || format!("stat {file:?}"))
}

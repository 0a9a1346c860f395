//! The tests of thread_perf that use files.

use super::{Session, ThreadPerf};
use crate::activity::{Activity, Job, Phased, Repeat, must, path};
use crate::seeds::Family;
use crate::target::{Client, Handle};
use std::ffi::{CStr, CString};

/// One of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads 4,095 bytes of a file that is a hole, writes as many to another: what the original
    /// does with `/dev/zero` and `/dev/null`, which only a kernel has.
    ReadWrite,
    /// Asks for a name that is there and for one that is not.
    Stat,
    /// Lists its own directory.
    Dir,
    /// Lists the directory that all tasks have theirs in.
    DirSingle,
    /// Makes a file, is refused it again, closes and removes it.
    Create,
    /// Locks a byte and unlocks it.
    Lock,
}

/// Each with how often it is done.
pub const ALL: [(Kind, u32); 6] = [
    (Kind::ReadWrite, 20_000),
    (Kind::Stat, 10_000),
    (Kind::Dir, 2_000),
    (Kind::DirSingle, 2_000),
    (Kind::Create, 1_000),
    (Kind::Lock, 20_000),
];

/// Bytes of a read and a write.
const BYTES: usize = 4_095;
/// The two tests whose ratio is asked for run longer than the original where it is for figures: on
/// the library 20,000 reads and writes are 10 ms.
const LONGER: u32 = 10;

impl Kind {
    /// Its name in the original.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ReadWrite => "readwrite",
            Kind::Stat => "stat",
            Kind::Dir => "dir",
            Kind::DirSingle => "dirsingle",
            Kind::Create => "create",
            Kind::Lock => "lock",
        }
    }
}

/// A test, done so many times.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Which.
    pub kind: Kind,
    /// How often by each task.
    pub times: u32,
}

/// The tests that are wanted.
pub fn wanted(session: &Session) -> Vec<Test> {
    let wants = |kind: Kind| session.options().wants(ThreadPerf.name(), kind.name());
    let is_asked = |kind| matches!(kind, Kind::ReadWrite | Kind::Stat);
    let test = |(kind, times)| Test {
        kind,
        times: match is_asked(kind) && !session.is_quick() {
            true => times * LONGER,
            false => times,
        },
    };
    let wanted = ALL.into_iter().filter(|&(kind, _)| wants(kind));
    wanted.map(test).collect()
}

impl Test {
    fn directory(task: usize) -> String {
        format!("/task-{task}")
    }
}

impl Job for Test {
    fn name(&self) -> String {
        self.kind.name().to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        vec!["work"]
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        for task in 0..tasks {
            let own = Test::directory(task);
            client.mkdir(&path(&*own))?;
            for name in ["zero", "null", "there"] {
                let name = path(format!("{own}/{name}"));
                let file = client.open(&name, libc::O_CREAT | libc::O_RDWR)?;
                client.truncate(file, BYTES as u64)?;
                client.close(file)?;
            }
        }
        Ok(())
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        let work = Work::begin(self.kind, &*client, task, tasks)?;
        let times = self.times;
        Ok(Box::new(Task {
            client,
            work,
            times,
        }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        for task in 0..tasks {
            let own = Test::directory(task);
            let files = client.list(&path(&*own))?;
            must(files == 3, || format!("{own}: {files} files"))?;
            // The hole was read, and the other file written.
            let written = client.open(&path(format!("{own}/null")), libc::O_RDONLY)?;
            let mut bytes = [0; BYTES];
            let got = client.read(written, &mut bytes, 0)?;
            client.close(written)?;
            let mark = if self.kind == Kind::ReadWrite {
                MARK
            } else {
                0
            };
            must(got == BYTES && bytes == [mark; BYTES], || {
                format!("{own}/null")
            })?;
        }
        Ok(())
    }
}

/// What is written.
const MARK: u8 = 0x5a;

/// What a task works on.
struct Work {
    kind: Kind,
    zero: Handle,
    null: Handle,
    there: CString,
    missing: CString,
    own: CString,
    tasks: usize,
}

struct Task<'c> {
    client: Box<dyn Client + 'c>,
    work: Work,
    times: u32,
}

impl Phased for Task<'_> {
    fn phase(&mut self, _phase: usize) -> Result<u64, String> {
        self.work.repeat(&*self.client, self.times)?;
        Ok(self.times.into())
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        let _ = self.client.close(self.work.zero);
        let _ = self.client.close(self.work.null);
    }
}

impl Work {
    fn begin(kind: Kind, client: &dyn Client, task: usize, tasks: usize) -> Result<Work, String> {
        let own = Test::directory(task);
        let name = |name: &str| path(format!("{own}/{name}"));
        Ok(Work {
            kind,
            zero: client.open(&name("zero"), libc::O_RDONLY)?,
            null: client.open(&name("null"), libc::O_WRONLY)?,
            there: name("there"),
            missing: name("missing"),
            own: path(&*own),
            tasks,
        })
    }

    fn repeat(&self, client: &dyn Client, times: u32) -> Result<(), String> {
        match self.kind {
            Kind::ReadWrite => self.read_and_write(client, times),
            Kind::Stat => (0..times).try_for_each(|_| {
                let is_right = client.stat(&self.there) && !client.stat(&self.missing);
                must(is_right, || "stat".to_owned())
            }),
            Kind::Dir => lists(client, &self.own, 3, times),
            Kind::DirSingle => lists(client, c"/", self.tasks, times),
            Kind::Create => (0..times).try_for_each(|_| self.create(client)),
            Kind::Lock => (0..times).try_for_each(|_| {
                client.lock(self.null, 0, true)?;
                client.lock(self.null, 0, false)
            }),
        }
    }

    fn read_and_write(&self, client: &dyn Client, times: u32) -> Result<(), String> {
        let (mut zeros, marks) = ([1; BYTES], [MARK; BYTES]);
        for _ in 0..times {
            let got = client.read(self.zero, &mut zeros, 0)?;
            let done = client.write(self.null, &marks, 0)?;
            must((got, done) == (BYTES, BYTES), || "readwrite".to_owned())?;
        }
        must(zeros == [0; BYTES], || "a hole".to_owned())
    }

    fn create(&self, client: &dyn Client) -> Result<(), String> {
        let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY;
        let file = client.open(&self.missing, flags)?;
        let again = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        let is_refused = client.refuses(&self.missing, again);
        client.close(file)?;
        client.unlink(&self.missing)?;
        must(is_refused, || "creat, again".to_owned())
    }
}

fn lists(client: &dyn Client, directory: &CStr, entries: usize, times: u32) -> Result<(), String> {
    (0..times).try_for_each(|_| {
        let found = client.list(directory)?;
        must(found == entries, || {
            format!("{directory:?}: {found} entries")
        })
    })
}

/// A test as one operation again and again, for who counts what one does.
pub struct Again(pub Kind);

impl Again {
    fn test(&self) -> Test {
        Test {
            kind: self.0,
            times: 1,
        }
    }
}

impl Activity for Again {
    fn name(&self) -> String {
        self.test().name()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        self.test().prepare(client, tasks)
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let work = Work::begin(self.0, client, task, tasks)?;
        Ok(Box::new(Repeated { client, work }))
    }
}

struct Repeated<'c> {
    client: &'c dyn Client,
    work: Work,
}

impl Repeat for Repeated<'_> {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        self.work.repeat(self.client, times)
    }
}

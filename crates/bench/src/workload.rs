//! What is done to a target, again and again.

use crate::activity::{Activity, Repeat, must, path};
use crate::target::{Client, Handle};
use std::ffi::CString;

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `open` and `close` of a file of the task, in one directory.
    OpenClose,
    /// `stat` of a file of the task, in one directory.
    Stat,
    /// `stat` of one file by all tasks.
    StatSame,
    /// `stat` of a name that is not there.
    Missing,
    /// Make a file and take it away, each task its own, in one directory.
    CreateUnlink,
    /// List a directory of 10,000 files.
    List,
    /// Read so many bytes of a file of the task.
    Read(usize),
    /// Overwrite so many bytes of a file of the task.
    Write(usize),
}

/// Files in the directory that is listed.
const LISTED: usize = 10_000;
/// Bytes of a file that is read or written.
const FILE: usize = 4 << 20;

impl Workload {
    /// The rows of a table.
    pub const ALL: [Workload; 10] = [
        Workload::OpenClose,
        Workload::Stat,
        Workload::StatSame,
        Workload::Missing,
        Workload::CreateUnlink,
        Workload::List,
        Workload::Read(4 << 10),
        Workload::Write(4 << 10),
        Workload::Read(128 << 10),
        Workload::Write(128 << 10),
    ];

    /// Whether it moves names and attributes rather than bytes.
    pub fn is_metadata(self) -> bool {
        !matches!(self, Workload::Read(_) | Workload::Write(_))
    }
}

impl Activity for Workload {
    fn name(&self) -> String {
        match *self {
            Workload::OpenClose => "open/close".into(),
            Workload::Stat => "stat".into(),
            Workload::StatSame => "stat, one file".into(),
            Workload::Missing => "stat, missing".into(),
            Workload::CreateUnlink => "create/unlink".into(),
            Workload::List => "readdir 10,000".into(),
            Workload::Read(bytes) => format!("read {} KiB", bytes >> 10),
            Workload::Write(bytes) => format!("write {} KiB", bytes >> 10),
        }
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        client.mkdir(c"/bench")?;
        let make = |name: String| {
            let file = client.open(&path(name), libc::O_CREAT | libc::O_RDWR)?;
            client.close(file)
        };
        // A file for every task, and some to have company.
        (0..64.max(tasks)).try_for_each(|n| make(format!("/bench/file-{n}")))?;
        if *self == Workload::List {
            client.mkdir(c"/bench/many")?;
            (0..LISTED).try_for_each(|n| make(format!("/bench/many/entry-{n}")))?;
        }
        if matches!(self, Workload::Read(_) | Workload::Write(_)) {
            let block = vec![7; 1 << 20];
            for task in 0..tasks {
                let file = path(format!("/bench/file-{task}"));
                let file = client.open(&file, libc::O_RDWR)?;
                for at in (0..FILE).step_by(block.len()) {
                    client.write(file, &block, at as u64)?;
                }
                client.close(file)?;
            }
        }
        Ok(())
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let own = match self {
            Workload::StatSame => "/bench/file-0".to_owned(),
            Workload::Missing => format!("/bench/missing-{task}"),
            Workload::CreateUnlink => format!("/bench/new-{task}"),
            Workload::List => "/bench/many".to_owned(),
            _ => format!("/bench/file-{task}"),
        };
        let own = path(own);
        let (file, bytes) = match *self {
            Workload::Read(bytes) | Workload::Write(bytes) => {
                (client.open(&own, libc::O_RDWR)?, bytes)
            }
            _ => (-1, 0),
        };
        Ok(Box::new(Task {
            workload: *self,
            client,
            path: own,
            file,
            buffer: vec![9; bytes],
            at: 0,
        }))
    }
}

struct Task<'c> {
    workload: Workload,
    client: &'c dyn Client,
    path: CString,
    file: Handle,
    buffer: Vec<u8>,
    at: u64,
}

impl Task<'_> {
    #[inline]
    fn step(&mut self) -> Result<(), String> {
        match self.workload {
            Workload::OpenClose => {
                let file = self.client.open(&self.path, libc::O_RDONLY)?;
                self.client.close(file)
            }
            Workload::Stat | Workload::StatSame => self.must(self.client.stat(&self.path)),
            Workload::Missing => self.must(!self.client.stat(&self.path)),
            Workload::CreateUnlink => {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                let file = self.client.open(&self.path, flags)?;
                self.client.close(file)?;
                self.client.unlink(&self.path)
            }
            Workload::List => {
                let entries = self.client.list(&self.path)?;
                self.must(entries == LISTED)
            }
            Workload::Read(bytes) => {
                let got = self.client.read(self.file, &mut self.buffer, self.at)?;
                self.advance(bytes);
                self.must(got == bytes)
            }
            Workload::Write(bytes) => {
                let done = self.client.write(self.file, &self.buffer, self.at)?;
                self.advance(bytes);
                self.must(done == bytes)
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes as u64) % FILE as u64;
    }

    fn must(&self, holds: bool) -> Result<(), String> {
        must(holds, || format!("{:?}", self.path))
    }
}

impl Repeat for Task<'_> {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        (0..times).try_for_each(|_| self.step())
    }

    fn stride(&self) -> u32 {
        match self.workload {
            Workload::List => 1,
            Workload::Read(bytes) | Workload::Write(bytes) if bytes > 4096 => 4,
            _ => 32,
        }
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if self.file >= 0 {
            let _ = self.client.close(self.file);
        }
    }
}

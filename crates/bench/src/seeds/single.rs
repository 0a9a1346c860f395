//! One task: the library against system calls on tmpfs.

use super::Family;
use super::paths::{directories, make_directories};
use super::session::{CROWD, Session};
use crate::activity::{Activity, Repeat, must, path};
use crate::target::{Client, Handle};
use std::ffi::CString;

/// The test.
pub struct Single;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Stat,
    OpenClose,
    CreateUnlink,
    Read,
}

/// Each with how many times the rate of tmpfs is asked for.
const ALL: [(Call, f64); 4] = [
    (Call::Stat, 6.0),
    (Call::OpenClose, 6.0),
    (Call::CreateUnlink, 4.0),
    (Call::Read, 3.0),
];

/// Elements of the paths.
const DEPTH: usize = 5;
/// Bytes of a read.
const PAGE: usize = 4 << 10;
/// Pages of the file that is read.
const PAGES: usize = 256;

impl Call {
    fn file(self, task: usize) -> CString {
        path(format!("{}/file-{task}", directories(DEPTH - 1)))
    }
}

impl Activity for Call {
    fn name(&self) -> String {
        match self {
            Call::Stat => format!("stat, {DEPTH} components"),
            Call::OpenClose => format!("open+close, {DEPTH} components"),
            Call::CreateUnlink => format!("create+close+unlink, {DEPTH} components"),
            Call::Read => "pread 4 KiB".to_owned(),
        }
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        make_directories(client, DEPTH - 1)?;
        if *self == Call::CreateUnlink {
            return Ok(());
        }
        (0..tasks).try_for_each(|task| {
            let file = client.open(&self.file(task), libc::O_CREAT | libc::O_RDWR)?;
            if *self == Call::Read {
                for page in 0..PAGES {
                    client.write(file, &[7; PAGE], (page * PAGE) as u64)?;
                }
            }
            client.close(file)
        })
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let own = self.file(task);
        Ok(match self {
            Call::Stat => Box::new(move || must(client.stat(&own), || format!("stat {own:?}"))),
            Call::OpenClose => Box::new(move || client.close(client.open(&own, libc::O_RDONLY)?)),
            Call::CreateUnlink => Box::new(move || {
                let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                client.close(client.open(&own, flags)?)?;
                client.unlink(&own)
            }),
            Call::Read => Box::new(Reader {
                client,
                file: client.open(&own, libc::O_RDONLY)?,
                page: vec![0; PAGE],
                next: 0,
            }),
        })
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        let found = client.list(&path(directories(DEPTH - 1)))?;
        let left = if *self == Call::CreateUnlink {
            0
        } else {
            done.len()
        };
        must(found == left, || format!("{}: {found} files", self.name()))
    }
}

struct Reader<'c> {
    client: &'c dyn Client,
    file: Handle,
    page: Vec<u8>,
    next: usize,
}

impl Repeat for Reader<'_> {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let at = (self.next % PAGES * PAGE) as u64;
            let got = self.client.read(self.file, &mut self.page, at)?;
            self.next += 1;
            must(got == PAGE && self.page[PAGE - 1] == 7, || {
                format!("pread at {at}")
            })?;
        }
        Ok(())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let _ = self.client.close(self.file);
    }
}

impl Family for Single {
    fn name(&self) -> &'static str {
        "single"
    }

    fn about(&self) -> String {
        format!("One task, everything warm; beside it two, and {CROWD} that take turns.")
    }

    fn workloads(&self) -> Vec<String> {
        ALL.iter().map(|(call, _)| call.name()).collect()
    }

    fn activities(&self) -> Vec<Box<dyn Activity>> {
        ALL.iter()
            .map(|&(call, _)| Box::new(call) as Box<dyn Activity>)
            .collect()
    }

    fn run(&self, session: &mut Session) -> Result<(), String> {
        let tasks = [1, 2, CROWD];
        let grid = session.rates(self.name(), &self.activities(), &tasks)?;
        println!("{}", session.table_of_rates(self.name(), &grid, &tasks));
        for (call, times) in ALL {
            let workload = call.name();
            if !session.options().wants(self.name(), &workload) {
                continue;
            }
            // Only tmpfs is what was asked for; without it the ask is not measured.
            session.ask_against(&grid, &workload, ["lib", "tmpfs"], times);
            session.ask_to_scale(&grid, &workload);
        }
        Ok(())
    }
}

//! The twelve that repeat one operation on files that stay.

use super::place::{self, PAGE, REGION};
use crate::activity::{Activity, Repeat, must, path};
use crate::target::{Client, Handle};
use std::ffi::{CStr, CString};

/// One of the twelve.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steady {
    Dwol,
    Dwom,
    Dwsl,
    Drbl,
    Drbm,
    Drbh,
    Mrpl,
    /// With the number of branches of each directory: 8, fewer in a first look.
    Mrpm(usize),
    Mrph,
    Mrdl,
    Mrdm,
    Mwrl,
}

use Steady::{Drbh, Drbl, Drbm, Dwol, Dwom, Dwsl, Mrdl, Mrdm, Mrph, Mrpl, Mrpm, Mwrl};

/// Elements of the paths that are looked up.
const DEPTH: usize = 5;
/// Files of a directory that is listed.
const LISTED: usize = 256;

impl Steady {
    /// All of them.
    pub fn all(branches: usize) -> [Steady; 12] {
        [
            Dwol,
            Dwom,
            Dwsl,
            Drbl,
            Drbm,
            Drbh,
            Mrpl,
            Mrpm(branches),
            Mrph,
            Mrdl,
            Mrdm,
            Mwrl,
        ]
    }

    /// What is done, by what the paper's table says.
    pub fn about(self) -> &'static str {
        match self {
            Dwol => "overwrite a page of a private file",
            Dwom => "overwrite a page of a private region of the shared file",
            Dwsl => "overwrite a page of a private file and fsync it",
            Drbl => "read a page of a private file",
            Drbm => "read a page of a private region of the shared file",
            Drbh => "read the same page of the shared file",
            Mrpl => "stat a private file five levels deep",
            Mrpm(_) => "stat random files of a shared tree five levels deep",
            Mrph => "stat the same file five levels deep",
            Mrdl => "list a private directory of 256 files",
            Mrdm => "list the shared directory of 256 files",
            Mwrl => "rename a file in a private directory to a new name",
        }
    }

    /// Where the page is.
    fn page(self, task: usize) -> Option<(CString, u64)> {
        Some(match self {
            Dwol | Drbl => (place::private_file(task), 0),
            Dwsl => (place::file_in_private_directory(task), 0),
            Dwom | Drbm => (place::shared_file(), task as u64 * REGION),
            Drbh => (place::shared_file(), 0),
            _ => return None,
        })
    }

    fn writes(self) -> bool {
        matches!(self, Dwol | Dwom | Dwsl)
    }

    /// The file that is looked up, unless it is another one each time.
    fn looked_up(self, task: usize) -> Option<CString> {
        match self {
            Mrpl => Some(path(format!("/{task}/0/0/0/0"))),
            Mrph => Some(path("/0/0/0/0/0")),
            _ => None,
        }
    }

    fn listed(self, task: usize) -> Option<CString> {
        match self {
            Mrdl => Some(place::private_directory(task)),
            Mrdm => Some(place::shared_directory()),
            _ => None,
        }
    }

    fn prepare_task(self, client: &dyn Client, task: usize, tasks: usize) -> Result<(), String> {
        if let Some((file, _)) = self.page(task) {
            if self == Dwsl {
                client.mkdir(&place::private_directory(task))?;
            }
            let regions = match self {
                Dwom | Drbm => tasks as u64,
                _ => 1,
            };
            // A shared file is the first task's to make.
            if task == 0 || matches!(self, Dwol | Dwsl | Drbl) {
                let bytes = if regions > 1 {
                    regions * REGION
                } else {
                    PAGE as u64
                };
                place::fill(client, &file, bytes)?;
            }
        }
        if let Some(file) = self.looked_up(task)
            && (self == Mrpl || task == 0)
        {
            place::make_with_directories(client, &file)?;
        }
        if let Some(dir) = self.listed(task)
            && (self == Mrdl || task == 0)
        {
            client.mkdir(&dir)?;
            let name = |n: usize| path([dir.to_bytes(), format!("/file-{n}").as_bytes()].concat());
            (0..LISTED).try_for_each(|n| place::make(client, &name(n)))?;
        }
        if self == Mwrl {
            client.mkdir(&place::private_directory(task))?;
            place::make(client, &renamed(task, 0))?;
        }
        Ok(())
    }
}

impl Activity for Steady {
    fn name(&self) -> String {
        let debug = format!("{self:?}").to_uppercase();
        // Four letters; MRPM has its branches behind them.
        debug[..4].to_owned()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        if let Mrpm(branches) = *self {
            return make_tree(client, "", branches, DEPTH);
        }
        (0..tasks).try_for_each(|task| self.prepare_task(client, task, tasks))
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        if let Some((file, at)) = self.page(task) {
            let file = Page {
                client,
                file: client.open(&file, libc::O_RDWR)?,
                at,
                page: vec![place::BYTE; PAGE],
                writes: self.writes(),
                syncs: *self == Dwsl,
            };
            return Ok(Box::new(file));
        }
        if let Some(file) = self.looked_up(task) {
            return Ok(Box::new(move || {
                must(client.stat(&file), || format!("stat {file:?}"))
            }));
        }
        if let Some(dir) = self.listed(task) {
            return Ok(Box::new(List { client, dir }));
        }
        Ok(match *self {
            Mrpm(branches) => Box::new(random_lookups(client, task, branches)?),
            _ => Box::new(renames(client, task)),
        })
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        for (task, &done) in done.iter().enumerate() {
            if *self == Mwrl {
                let is_there = client.stat(&renamed(task, done));
                let files = client.list(&place::private_directory(task))?;
                must(is_there && files == 1, || format!("MWRL, task {task}"))?;
            }
            if let Some((file, at)) = self.page(task) {
                let about = client.about(&file)?;
                must(at + PAGE as u64 <= about.size, || format!("{file:?}"))?;
            }
        }
        Ok(())
    }
}

/// One page of an open file.
struct Page<'c> {
    client: &'c dyn Client,
    file: Handle,
    at: u64,
    page: Vec<u8>,
    writes: bool,
    syncs: bool,
}

impl Repeat for Page<'_> {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        for _ in 0..times {
            let done = if self.writes {
                self.client.write(self.file, &self.page, self.at)?
            } else {
                self.client.read(self.file, &mut self.page, self.at)?
            };
            must(done == PAGE && self.page[PAGE - 1] == place::BYTE, || {
                format!("page at {}", self.at)
            })?;
            if self.syncs {
                self.client.sync(self.file)?;
            }
        }
        Ok(())
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        let _ = self.client.close(self.file);
    }
}

/// A directory, listed from its begin to its end.
struct List<'c> {
    client: &'c dyn Client,
    dir: CString,
}

impl Repeat for List<'_> {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        (0..times).try_for_each(|_| {
            let entries = self.client.list(&self.dir)?;
            must(entries == LISTED, || {
                format!("{:?}: {entries} entries", self.dir)
            })
        })
    }

    fn stride(&self) -> u32 {
        1
    }
}

/// `branches` directories in each directory, files at the last level.
fn make_tree(
    client: &dyn Client,
    above: &str,
    branches: usize,
    levels: usize,
) -> Result<(), String> {
    for n in 0..branches {
        let below = format!("{above}/{n}");
        if levels == 1 {
            place::make(client, &path(below))?;
        } else {
            client.mkdir(&path(&*below))?;
            make_tree(client, &below, branches, levels - 1)?;
        }
    }
    Ok(())
}

/// Lookups of files all over the tree, however many tasks there are.
struct RandomLookups<'c> {
    client: &'c dyn Client,
    branches: u32,
    /// Of the generator: the next file, and all after it.
    state: u64,
    /// A path of one digit an element, and a NUL.
    path: [u8; 2 * DEPTH + 1],
}

/// With the whole tree looked up once: one task alone would find less of it warm than two do.
fn random_lookups(
    client: &dyn Client,
    task: usize,
    branches: usize,
) -> Result<RandomLookups<'_>, String> {
    let mut path = [b'/'; 2 * DEPTH + 1];
    path[2 * DEPTH] = 0;
    let mut lookups = RandomLookups {
        client,
        branches: branches as u32,
        state: 0x9E37_79B9_7F4A_7C15 ^ task as u64,
        path,
    };
    let all = lookups.branches.pow(DEPTH as u32);
    (0..all).try_for_each(|number| lookups.look_up(number))?;
    Ok(lookups)
}

impl RandomLookups<'_> {
    /// Looks up the file that the digits of `number` name.
    fn look_up(&mut self, mut number: u32) -> Result<(), String> {
        for digit in self.path.iter_mut().skip(1).step_by(2) {
            *digit = b'0' + (number % self.branches) as u8;
            number /= self.branches;
        }
        let file = CStr::from_bytes_with_nul(&self.path).expect("digits, slashes and a NUL");
        must(self.client.stat(file), || format!("stat {file:?}"))
    }
}

impl Repeat for RandomLookups<'_> {
    fn repeat(&mut self, times: u32) -> Result<(), String> {
        (0..times).try_for_each(|_| {
            self.state = (self.state)
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // The upper bits are the random ones.
            self.look_up((self.state >> 32) as u32)
        })
    }
}

fn renames(client: &dyn Client, task: usize) -> impl FnMut() -> Result<(), String> + '_ {
    let mut turn = 0;
    move || {
        client.rename(&renamed(task, turn), &renamed(task, turn + 1))?;
        turn += 1;
        Ok(())
    }
}

/// The name after so many renames.
fn renamed(task: usize, times: u64) -> CString {
    path(format!("/private-{task}/name-{times}"))
}

//! One run of a profile.

use super::profile::{Profile, Verb};
use crate::activity::{Job, Phased, must, path};
use crate::heat_bench::random::Random;
use crate::target::{Client, Handle};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

/// A profile and the operations of each thread.
pub struct Ffsb {
    profile: Profile,
    each: usize,
    done: Mutex<Counts>,
}

/// Transactions and bytes of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks that were read.
    pub reads: u64,
    /// Blocks that were written, and files that were removed.
    pub writes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

/// The largest block of a profile.
const BLOCK: usize = 143_360;
/// What is written.
const MARK: u8 = 0x61;

impl Ffsb {
    /// One run.
    pub fn new(profile: Profile, each: usize) -> Ffsb {
        Ffsb {
            profile,
            each,
            done: Mutex::new(Counts::default()),
        }
    }

    /// What all threads did.
    pub fn counts(&self) -> Counts {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, number: usize) -> CString {
        path(format!("/dir{}/file{number}", number % self.profile.dirs))
    }

    fn size(&self, random: &mut Random) -> u64 {
        let (least, most) = self.profile.sizes;
        least + random.below(most - least + 1)
    }
}

impl Job for Ffsb {
    fn name(&self) -> String {
        self.profile.name.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        vec!["run"]
    }

    fn prepare(&self, client: &dyn Client, _tasks: usize) -> Result<(), String> {
        let mut random = Random::new(1);
        for dir in 0..self.profile.dirs {
            client.mkdir(&path(format!("/dir{dir}")))?;
        }
        let block = vec![MARK; 1 << 20];
        for number in 0..self.profile.files {
            let file = client.open(&self.file(number), libc::O_CREAT | libc::O_RDWR)?;
            let mut left = self.size(&mut random);
            while left > 0 {
                let now = left.min(block.len() as u64);
                client.write_next(file, &block[..now as usize])?;
                left -= now;
            }
            client.close(file)?;
        }
        Ok(())
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        let files = self.profile.files;
        // Where files come and go, each thread has its own ones; else all use all of them.
        let comes_and_goes = self.profile.weights.iter().any(|w| w.0 == Verb::Delete);
        let own = match comes_and_goes {
            true => (task..files).step_by(tasks).collect(),
            false => (0..files).collect(),
        };
        Ok(Box::new(Thread {
            job: self,
            client,
            random: Random::new(1000 + task as u64),
            own,
            next: files + task,
            step: tasks,
            block: vec![MARK; BLOCK],
            counts: Counts::default(),
        }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let mut files = 0;
        for dir in 0..self.profile.dirs {
            files += client.list(&path(format!("/dir{dir}")))?;
        }
        let only_makes = self.profile.weights.iter().all(|w| w.0 == Verb::Create);
        must(!only_makes || files == tasks * self.each, || {
            format!("{}: {files} files", self.profile.name)
        })?;
        must(self.counts() != Counts::default(), || {
            format!("{}: nothing was done", self.profile.name)
        })
    }
}

struct Thread<'c> {
    job: &'c Ffsb,
    client: Box<dyn Client + 'c>,
    random: Random,
    /// Numbers of its files.
    own: Vec<usize>,
    /// Number of the next new file.
    next: usize,
    step: usize,
    block: Vec<u8>,
    counts: Counts,
}

impl Phased for Thread<'_> {
    fn phase(&mut self, _phase: usize) -> Result<u64, String> {
        for _ in 0..self.job.each {
            let verb = self.job.profile.draw(self.random.next() >> 20);
            self.operation(verb)?;
        }
        let mut done = self.job.done.lock().map_err(|e| e.to_string())?;
        done.reads += self.counts.reads;
        done.writes += self.counts.writes;
        done.read_bytes += self.counts.read_bytes;
        done.written_bytes += self.counts.written_bytes;
        Ok(self.counts.reads + self.counts.writes)
    }
}

impl Thread<'_> {
    fn operation(&mut self, verb: Verb) -> Result<(), String> {
        match verb {
            Verb::Create | Verb::CreateFsync => return self.create(verb == Verb::CreateFsync),
            _ if self.own.is_empty() => return self.create(true),
            _ => {}
        }
        let at = self.random.below(self.own.len() as u64) as usize;
        let name = self.job.file(self.own[at]);
        if verb == Verb::Delete {
            self.own.swap_remove(at);
            self.client.unlink(&name)?;
            self.counts.writes += 1;
            return Ok(());
        }
        let append = if verb == Verb::AppendFsync {
            libc::O_APPEND
        } else {
            0
        };
        let file = self.client.open(&name, libc::O_RDWR | append)?;
        match verb {
            Verb::Read => self.read(file, &name)?,
            Verb::ReadAll => self.read_all(file)?,
            Verb::Write => self.write(file, &name)?,
            _ => {
                let size = self.job.profile.write_size;
                self.write_on(file, size)?;
                self.client.sync(file)?;
            }
        }
        self.client.close(file)
    }

    fn create(&mut self, is_synced: bool) -> Result<(), String> {
        let name = self.job.file(self.next);
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
        let file = self.client.open(&name, flags)?;
        self.own.push(self.next);
        self.next += self.step;
        let size = self.job.size(&mut self.random);
        self.write_on(file, size)?;
        if is_synced {
            self.client.sync(file)?;
        }
        self.client.close(file)
    }

    /// A random multiple of 4 KiB below `size` at which a block fits.
    fn place(&mut self, size: u64, block: u64) -> u64 {
        self.random.below(size.saturating_sub(block) / 4096 + 1) * 4096
    }

    fn read(&mut self, file: Handle, name: &CString) -> Result<(), String> {
        let (total, len) = (self.job.profile.read_size, self.job.profile.read_block);
        let size = self.client.about(name)?.size;
        for n in 0..total / len {
            let at = match self.job.profile.read_random {
                true => self.place(size, len),
                false => n * len,
            };
            let got = self
                .client
                .read(file, &mut self.block[..len as usize], at)?;
            must(got as u64 == len, || format!("read at {at}"))?;
            self.counts.reads += 1;
            self.counts.read_bytes += len;
        }
        Ok(())
    }

    fn read_all(&mut self, file: Handle) -> Result<(), String> {
        let len = self.job.profile.read_block as usize;
        loop {
            let got = self.client.read_next(file, &mut self.block[..len])?;
            if got == 0 {
                return Ok(());
            }
            self.counts.reads += 1;
            self.counts.read_bytes += got as u64;
        }
    }

    fn write(&mut self, file: Handle, name: &CString) -> Result<(), String> {
        let (total, len) = (self.job.profile.write_size, self.job.profile.write_block);
        let size = self.client.about(name)?.size;
        for n in 0..total / len {
            let at = match self.job.profile.write_random {
                true => self.place(size, len),
                false => n * len,
            };
            self.client.write(file, &self.block[..len as usize], at)?;
            self.counts.writes += 1;
            self.counts.written_bytes += len;
        }
        Ok(())
    }

    fn write_on(&mut self, file: Handle, mut left: u64) -> Result<(), String> {
        while left > 0 {
            let now = left.min(self.job.profile.write_block);
            self.client.write_next(file, &self.block[..now as usize])?;
            self.counts.writes += 1;
            self.counts.written_bytes += now;
            left -= now;
        }
        Ok(())
    }
}

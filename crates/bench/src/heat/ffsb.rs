//! FFSB: threads that draw one operation after the other by weight. A transaction is one block of
//! a read or a write, or one removal, as FFSB counts them.
//!
//! A run is a number of operations instead of a time, so that both sides do the same. Where files
//! come and go, each run has a fresh set of them, which is made and removed on the run's side.
//! Profiles say a part of what the configuration files of FFSB can say.

use super::sides::{How, Measured};
use super::{HeatCase, seed_heading, seed_line};
use crate::failure::Context;
use crate::random::Random;
use crate::stats::{Pair, Side};
use crate::target::{Client, Handle, Sharing};
use crate::workload::{Place, Ready, Task, Workload, must, path};
use std::ffi::CString;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Numbers of threads, as in the seed.
const THREADS: [usize; 4] = [1, 8, 16, 32];
/// The names of the profiles, in their order.
const NAMES: [&str; 5] = [
    "large_file_create",
    "large_file_seq_read",
    "random_write",
    "random_read",
    "mail_server",
];

/// A workload for each profile. The profiles are part of the program, and tested.
pub fn all(_part: usize) -> Vec<HeatCase> {
    let workload = |profile: Profile| HeatCase {
        rows: vec![(format!("ffsb {}", profile.name), ("ops_per_s", "1/s"))],
        tasks: &THREADS,
        how: How {
            sharing: Sharing::Processes,
            stays: profile.stays(),
            is_elastic: true,
        },
        make: Box::new(move |each| Box::new(Ffsb::new(profile.clone(), each))),
    };
    let profiles = profiles().expect("the profiles are well-formed");
    profiles.into_iter().map(workload).collect()
}

/// The seed's table: transactions, throughput, and transactions per percent of a processor.
pub fn table(measured: &[(usize, Vec<Measured>)]) -> String {
    let mut text = seed_heading();
    for (name, of_profile) in NAMES.iter().zip(measured.chunks(THREADS.len())) {
        let _ = writeln!(text, "{name}");
        for (threads, phases) in of_profile {
            let plural = if *threads == 1 { "thread" } else { "threads" };
            let _ = writeln!(text, "        {threads} {plural}");
            show(&phases[0], &mut text);
        }
    }
    text
}

fn show(one: &Measured, text: &mut String) {
    let per_second = |figure: usize| one.figures[figure].zip(&one.seconds, |n, s| n / s);
    let cpu = one.cpu.zip(&one.speed, |cpu, speed| cpu * speed * 100.0);
    let does = |figure: usize| one.figures[figure].of(Side::Without) > 0.0;
    let mut line = |what: &str, pair: &Pair, unit, digits| {
        text.push_str(&seed_line(
            &format!("           - {what}"),
            pair,
            unit,
            digits,
        ));
    };
    let mut per_cpu = Vec::new();
    for (figure, kind) in [(0, " [read]"), (1, " [write]")]
        .into_iter()
        .filter(|one| does(one.0))
    {
        let kind = if does(0) && does(1) { kind } else { "" };
        let transactions = per_second(figure);
        line(&format!("Trans/sec{kind}"), &transactions, "", 2);
        let bytes = per_second(figure + 2);
        let megabytes = bytes.zip(&bytes, |bytes, _| bytes / f64::from(1 << 20));
        line(&format!("Throughput{kind}"), &megabytes, "MB/sec", 0);
        per_cpu.push((
            format!("Trans/%CPU{kind}"),
            transactions.zip(&cpu, |n, cpu| n / cpu),
        ));
    }
    line("%CPU", &cpu, "%", 1);
    per_cpu
        .iter()
        .for_each(|(what, pair)| line(what, pair, "", 2));
    text.push('\n');
}

/// A profile, as in `crates/bench/profiles`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Profile {
    name: &'static str,
    /// Files at the begin.
    files: usize,
    /// Directories that they are in.
    dirs: usize,
    /// Smallest and largest size of a file.
    sizes: (u64, u64),
    /// What is done, each with its weight; one operation is drawn after the other.
    weights: Vec<(Transaction, u32)>,
    reads: Transfer,
    writes: Transfer,
}

/// How an operation reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Transfer {
    /// Whether it is at random places of the file.
    is_random: bool,
    /// Bytes of one operation.
    size: u64,
    /// Bytes at once.
    block: u64,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// An operation of FFSB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transaction {
    /// Reads `read_size` bytes of a file.
    Read,
    ReadAll,
    /// Overwrites `write_size` bytes of a file.
    Write,
    /// Makes a file and writes it.
    Create,
    /// Makes a file, writes it, and `fsync`.
    CreateFsync,
    /// Writes `write_size` bytes at the end of a file, and `fsync`.
    AppendFsync,
    Delete,
}

/// All, by their names in a profile.
const TRANSACTIONS: [(Transaction, &str); 7] = [
    (Transaction::Read, "read"),
    (Transaction::ReadAll, "readall"),
    (Transaction::Write, "write"),
    (Transaction::Create, "create"),
    (Transaction::CreateFsync, "create_fsync"),
    (Transaction::AppendFsync, "append_fsync"),
    (Transaction::Delete, "delete"),
];

fn profiles() -> Result<Vec<Profile>, String> {
    macro_rules! profiles {
        ($($name:literal)*) => {
            [$(($name, include_str!(concat!("../../profiles/", $name, ".ffsb")))),*]
        };
    }
    let all = profiles!(
        "large_file_create" "large_file_seq_read" "random_write" "random_read" "mail_server"
    );
    all.iter()
        .map(|(name, text)| Profile::parse(name, text))
        .collect()
}

impl Profile {
    fn parse(name: &'static str, text: &str) -> Result<Profile, String> {
        let mut profile = Profile {
            name,
            ..Profile::default()
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('[') {
                continue;
            }
            let said = line.split_once('=').and_then(|(key, value)| {
                let value: u64 = value.trim().parse().ok()?;
                profile.set(key.trim(), value)
            });
            said.ok_or_else(|| format!("{name}, line {}: '{line}'", number + 1))?;
        }
        Ok(profile)
    }

    fn set(&mut self, key: &str, value: u64) -> Option<()> {
        match key {
            "num_files" => self.files = value as usize,
            "num_dirs" => self.dirs = value.max(1) as usize,
            "min_filesize" => self.sizes.0 = value,
            "max_filesize" => self.sizes.1 = value,
            _ if key.ends_with("_weight") => {
                let is_it =
                    |(_, name): &&(Transaction, &str)| key.strip_suffix("_weight") == Some(name);
                let (transaction, _) = TRANSACTIONS.iter().find(is_it)?;
                self.weights
                    .push((*transaction, u32::try_from(value).ok()?));
            }
            _ => {
                let (which, what) = key.split_once('_')?;
                let transfer = match which {
                    "read" => &mut self.reads,
                    "write" => &mut self.writes,
                    _ => return None,
                };
                match what {
                    "random" => transfer.is_random = value != 0,
                    "size" => transfer.size = value,
                    "blocksize" => transfer.block = value,
                    _ => return None,
                }
            }
        }
        Some(())
    }

    /// Whether the files are afterwards what they were before.
    fn stays(&self) -> bool {
        let stays = |transaction| {
            matches!(
                transaction,
                Transaction::Read | Transaction::ReadAll | Transaction::Write
            )
        };
        self.weights
            .iter()
            .all(|&(transaction, _)| stays(transaction))
    }

    /// The operation for a random number.
    fn draw(&self, random: u64) -> Transaction {
        let sum: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = (random % u64::from(sum.max(1))) as u32;
        for &(transaction, weight) in &self.weights {
            if at < weight {
                return transaction;
            }
            at -= weight;
        }
        Transaction::Delete
    }
}

/// A profile and the operations of each thread.
struct Ffsb {
    profile: Profile,
    each: usize,
    done: Mutex<TransactionCounts>,
}

/// Transactions and bytes, of one thread or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TransactionCounts {
    /// Blocks that were read.
    reads: u64,
    /// Blocks that were written, and files that were removed.
    writes: u64,
    /// Bytes that were read.
    read_bytes: u64,
    /// Bytes that were written.
    written_bytes: u64,
}

/// The largest block of a profile.
const BLOCK: usize = 143_360;
const MARK: u8 = 0x61;

impl Ffsb {
    fn new(profile: Profile, each: usize) -> Ffsb {
        Ffsb {
            profile,
            each,
            done: Mutex::default(),
        }
    }

    fn counts(&self) -> TransactionCounts {
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

impl Workload for Ffsb {
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

    fn task<'c>(&'c self, client: Box<dyn Client + 'c>, (task, tasks): Place) -> Ready<'c> {
        let files = self.profile.files;
        // Where files come and go, each thread has its own ones; else all use all of them.
        let comes_and_goes = self
            .profile
            .weights
            .iter()
            .any(|w| w.0 == Transaction::Delete);
        let own = match comes_and_goes {
            true => (task..files).step_by(tasks).collect(),
            false => (0..files).collect(),
        };
        Ok(Box::new(FfsbThread {
            job: self,
            client,
            random: Random::new(1000 + task as u64),
            own,
            next: files + task,
            step: tasks,
            block: vec![MARK; BLOCK],
            counts: TransactionCounts::default(),
        }))
    }

    /// Reads, writes, bytes read, bytes written.
    fn figures(&self) -> Vec<Vec<f64>> {
        let counts = self.counts();
        let figures = [
            counts.reads,
            counts.writes,
            counts.read_bytes,
            counts.written_bytes,
        ];
        vec![figures.map(|figure| figure as f64).into()]
    }

    fn check(&self, client: &dyn Client, done: &[u64]) -> Result<(), String> {
        let mut files = 0;
        for dir in 0..self.profile.dirs {
            files += client.list(&path(format!("/dir{dir}")))?;
        }
        let only_makes = self
            .profile
            .weights
            .iter()
            .all(|w| w.0 == Transaction::Create);
        must(!only_makes || files == done.len() * self.each, || {
            format!("{}: {files} files", self.profile.name)
        })?;
        must(self.counts() != TransactionCounts::default(), || {
            format!("{}: nothing was done", self.profile.name)
        })
    }
}

struct FfsbThread<'c> {
    job: &'c Ffsb,
    client: Box<dyn Client + 'c>,
    random: Random,
    /// Numbers of its files.
    own: Vec<usize>,
    /// Number of the next new file.
    next: usize,
    step: usize,
    block: Vec<u8>,
    counts: TransactionCounts,
}

impl Task for FfsbThread<'_> {
    fn run(&mut self, _phase: usize) -> Result<u64, String> {
        for _ in 0..self.job.each {
            let transaction = self.job.profile.draw(self.random.draw() >> 20);
            self.operation(transaction)?;
        }
        let mut done = self.job.done.lock().text()?;
        done.reads += self.counts.reads;
        done.writes += self.counts.writes;
        done.read_bytes += self.counts.read_bytes;
        done.written_bytes += self.counts.written_bytes;
        Ok(self.counts.reads + self.counts.writes)
    }
}

impl FfsbThread<'_> {
    fn operation(&mut self, transaction: Transaction) -> Result<(), String> {
        match transaction {
            Transaction::Create | Transaction::CreateFsync => {
                return self.create(transaction == Transaction::CreateFsync);
            }
            _ if self.own.is_empty() => return self.create(true),
            _ => {}
        }
        let at = self.random.below(self.own.len() as u64) as usize;
        let name = self.job.file(self.own[at]);
        if transaction == Transaction::Delete {
            self.own.swap_remove(at);
            self.client.unlink(&name)?;
            self.counts.writes += 1;
            return Ok(());
        }
        let append = if transaction == Transaction::AppendFsync {
            libc::O_APPEND
        } else {
            0
        };
        let file = self.client.open(&name, libc::O_RDWR | append)?;
        match transaction {
            Transaction::Read => self.transfer(file, &name, Way::Read)?,
            Transaction::ReadAll => self.read_all(file)?,
            Transaction::Write => self.transfer(file, &name, Way::Write)?,
            _ => {
                let size = self.job.profile.writes.size;
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

    /// Counts a block, or a part of one.
    fn count(&mut self, way: Way, bytes: u64) {
        let counts = &mut self.counts;
        let (blocks, sum) = match way {
            Way::Read => (&mut counts.reads, &mut counts.read_bytes),
            Way::Write => (&mut counts.writes, &mut counts.written_bytes),
        };
        *blocks += 1;
        *sum += bytes;
    }

    fn transfer(&mut self, file: Handle, name: &CString, way: Way) -> Result<(), String> {
        let Transfer {
            is_random,
            size,
            block,
        } = match way {
            Way::Read => self.job.profile.reads,
            Way::Write => self.job.profile.writes,
        };
        let end = self.client.about(name)?.size;
        for n in 0..size / block {
            let at = match is_random {
                true => self.place(end, block),
                false => n * block,
            };
            let bytes = &mut self.block[..block as usize];
            let done = match way {
                Way::Read => self.client.read(file, bytes, at)?,
                Way::Write => self.client.write(file, bytes, at)?,
            };
            must(done as u64 == block, || format!("{done} bytes at {at}"))?;
            self.count(way, block);
        }
        Ok(())
    }

    fn read_all(&mut self, file: Handle) -> Result<(), String> {
        let len = self.job.profile.reads.block as usize;
        loop {
            match self.client.read_next(file, &mut self.block[..len])? {
                0 => return Ok(()),
                got => self.count(Way::Read, got as u64),
            }
        }
    }

    fn write_on(&mut self, file: Handle, mut left: u64) -> Result<(), String> {
        while left > 0 {
            let now = left.min(self.job.profile.writes.block);
            self.client.write_next(file, &self.block[..now as usize])?;
            self.count(Way::Write, now);
            left -= now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_understood() {
        let all = profiles().unwrap();
        assert_eq!(all.len(), 5);
        let mail = &all[4];
        assert_eq!((mail.files, mail.sizes), (10_000, (1024, 16384)));
        let stays: Vec<bool> = all.iter().map(Profile::stays).collect();
        assert_eq!(stays, [false, true, true, true, false]);
        let mut drawn = [0; 4];
        for random in 0..1000 {
            let transaction = mail.draw(random);
            drawn[mail
                .weights
                .iter()
                .position(|w| w.0 == transaction)
                .unwrap()] += 1;
        }
        assert_eq!(drawn, [500, 200, 100, 200]);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        let said = Profile::parse("p", "num_files=1\nnum_fils=2").unwrap_err();
        assert_eq!(said, "p, line 2: 'num_fils=2'");
        assert!(Profile::parse("p", "num_files=x").is_err());
    }
}

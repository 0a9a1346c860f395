//! What the threads do.

use super::{BLOCK, PHASES, RANDOM, WORKLOAD};
use crate::activity::{Activity, Job, Phased, Repeat, must, path};
use crate::histogram::Histogram;
use crate::target::{Client, Handle};
use std::ffi::CString;
use std::sync::Mutex;
use std::time::Instant;

/// One run.
pub struct Tio {
    /// Blocks of all files together.
    blocks: usize,
    /// Latencies of each phase, of all threads.
    pub latencies: [Mutex<Histogram>; 4],
}

impl Tio {
    /// A run with so many blocks in all files together.
    pub fn new(blocks: usize) -> Tio {
        Tio {
            blocks,
            latencies: [(); 4].map(|()| Mutex::default()),
        }
    }

    /// Blocks and random operations of each thread.
    fn each(&self, tasks: usize) -> (usize, usize) {
        (self.blocks / tasks, RANDOM / tasks)
    }
}

fn file(task: usize) -> CString {
    path(format!("/tiotest-{task}"))
}

impl Job for Tio {
    fn name(&self) -> String {
        WORKLOAD.to_owned()
    }

    fn phases(&self) -> Vec<&'static str> {
        PHASES.to_vec()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let bytes = (self.each(tasks).0 * BLOCK) as u64;
        (0..tasks).try_for_each(|task| {
            let handle = client.open(&file(task), libc::O_CREAT | libc::O_RDWR)?;
            client.truncate(handle, bytes)?;
            client.close(handle)
        })
    }

    fn task<'c>(
        &'c self,
        client: Box<dyn Client + 'c>,
        task: usize,
        tasks: usize,
    ) -> Result<Box<dyn Phased + 'c>, String> {
        let (blocks, random) = self.each(tasks);
        Ok(Box::new(Thread {
            job: self,
            client,
            work: Work::new(task, blocks),
            random,
        }))
    }

    fn check(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        let (blocks, random) = self.each(tasks);
        for task in 0..tasks {
            let size = client.about(&file(task))?.size;
            must(size == (blocks * BLOCK) as u64, || {
                format!("{size} bytes, thread {task}")
            })?;
        }
        let counts = self.latencies.each_ref().map(count);
        let (in_order, at_random) = ((blocks * tasks) as u64, (random * tasks) as u64);
        must(counts == [in_order, at_random, in_order, at_random], || {
            format!("{counts:?} operations were timed")
        })
    }
}

/// How many operations of a phase were timed.
pub(super) fn count(latencies: &Mutex<Histogram>) -> u64 {
    latencies.lock().map_or(0, |histogram| histogram.count())
}

/// What a thread works on.
struct Work {
    file: CString,
    blocks: usize,
    state: u64,
    block: Vec<u8>,
}

impl Work {
    fn new(task: usize, blocks: usize) -> Work {
        Work {
            file: file(task),
            blocks,
            state: 0x9E37_79B9_7F4A_7C15 ^ task as u64,
            block: vec![task as u8 + 1; BLOCK],
        }
    }

    /// Where operation number `n` of a phase is.
    fn place(&mut self, phase: usize, n: usize) -> u64 {
        let block = if is_random(phase) {
            self.random_block()
        } else {
            n % self.blocks
        };
        (block * BLOCK) as u64
    }

    fn random_block(&mut self) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % self.blocks
    }

    fn once(
        &mut self,
        client: &dyn Client,
        phase: usize,
        handle: Handle,
        at: u64,
    ) -> Result<(), String> {
        let byte = self.block[0];
        let done = if writes(phase) {
            client.write(handle, &self.block, at)?
        } else {
            client.read(handle, &mut self.block, at)?
        };
        must(done == BLOCK && self.block[BLOCK - 1] == byte, || {
            format!("{} at {at}", PHASES[phase])
        })
    }
}

fn is_random(phase: usize) -> bool {
    phase % 2 == 1
}

fn writes(phase: usize) -> bool {
    phase < 2
}

struct Thread<'c> {
    job: &'c Tio,
    client: Box<dyn Client + 'c>,
    work: Work,
    random: usize,
}

impl Phased for Thread<'_> {
    fn phase(&mut self, phase: usize) -> Result<u64, String> {
        let (client, work) = (&*self.client, &mut self.work);
        let file = client.open(&work.file, libc::O_RDWR)?;
        let times = if is_random(phase) {
            self.random
        } else {
            work.blocks
        };
        let mut latencies = Histogram::new();
        for n in 0..times {
            let at = work.place(phase, n);
            let begin = Instant::now();
            work.once(client, phase, file, at)?;
            latencies.add(begin.elapsed().as_nanos() as u64);
        }
        if writes(phase) {
            client.sync(file)?;
        }
        client.close(file)?;
        let mut all = self.job.latencies[phase]
            .lock()
            .map_err(|_| "a thread panicked")?;
        all.absorb(&latencies);
        Ok(times as u64)
    }
}

/// One block of a phase again and again, for who counts what one operation does.
pub(super) struct Block(pub usize);

/// Blocks of the file of a task then.
const COUNTED: usize = 256;

impl Activity for Block {
    fn name(&self) -> String {
        PHASES[self.0].to_owned()
    }

    fn prepare(&self, client: &dyn Client, tasks: usize) -> Result<(), String> {
        Tio::new(COUNTED * tasks).prepare(client, tasks)
    }

    fn task<'c>(
        &self,
        client: &'c dyn Client,
        task: usize,
        _tasks: usize,
    ) -> Result<Box<dyn Repeat + 'c>, String> {
        let (mut work, phase) = (Work::new(task, COUNTED), self.0);
        let handle = client.open(&work.file, libc::O_RDWR)?;
        // What is read was written before.
        for n in 0..COUNTED {
            work.once(client, 0, handle, (n * BLOCK) as u64)?;
        }
        let mut numbers = 0..;
        Ok(Box::new(move || {
            let at = work.place(phase, numbers.next().unwrap_or(0));
            work.once(client, phase, handle, at)
        }))
    }
}

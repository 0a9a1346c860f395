//! Worker processes that share a list of batches: one for each core, because the two threads of a
//! case take turns.
//!
//! A worker is forked before this process has another thread, so that it has the list and the
//! addresses of the program. It takes the next batch from a shared counter, and writes the verdict
//! of each case into a pipe of its own.

use super::cores::Cores;
use super::overlap::{Conflict, overlap};
use super::run::{Batch, run};
use super::verdict::Verdict;
use super::window::Recording;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How often the progress is printed.
const TELL: Duration = Duration::from_secs(10);
/// The batch number in a message of a worker that cannot continue; its case is the length of the
/// reason.
const FAILED: u64 = u64::MAX;
/// Numbers of a message before the conflicts: batch, case, lines, conflicts.
const HEAD: usize = 4;

/// The verdict on a case, by its batch and its number.
type Found = (usize, usize, Verdict);

/// A worker process and its pipe.
struct Worker {
    pid: libc::pid_t,
    pipe: File,
}

/// Runs `batches` in `count` processes. `each` gets the verdicts as they arrive.
///
/// # Errors
/// The error of a worker, or that one was killed.
pub fn spread(
    batches: &[Batch],
    count: usize,
    mut each: impl FnMut(usize, usize, Verdict),
) -> Result<(), String> {
    let total: usize = batches.iter().map(|batch| batch.cases.len()).sum();
    let next = shared_counter()?;
    let workers: Vec<Worker> = (0..count)
        .map(|_| Worker::fork(batches, next))
        .collect::<Result<_, _>>()?;
    let (start, mut told, mut known) = (Instant::now(), Instant::now(), 0);
    std::thread::scope(|scope| {
        let (sender, found) = channel();
        let readers: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let sender = sender.clone();
                scope.spawn(move || worker.read(batches, next, &sender))
            })
            .collect();
        drop(sender);
        for (batch, case, verdict) in found {
            known += 1;
            each(batch, case, verdict);
            if told.elapsed() >= TELL {
                told = Instant::now();
                let seconds = start.elapsed().as_secs();
                eprintln!("{known} of {total} cases, {seconds} s");
            }
        }
        let mut ended = readers.into_iter().map(|reader| reader.join());
        ended.try_for_each(|end| end.unwrap_or_else(|_| Err("a reader of a worker panics".into())))
    })?;
    match known == total {
        true => Ok(()),
        false => Err(format!("{known} of {total} cases came back")),
    }
}

/// Returns a counter that processes forked later share.
fn shared_counter() -> Result<&'static AtomicUsize, String> {
    let (read_write, shared) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping overlaps nothing.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, read_write, shared, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(format!("mmap: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: the mapping is zeroed, aligned to a page and stays for good.
    Ok(unsafe { &*at.cast::<AtomicUsize>() })
}

impl Worker {
    fn fork(batches: &[Batch], next: &AtomicUsize) -> Result<Worker, String> {
        let failed = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
        let mut ends = [0; 2];
        // SAFETY: the array has room for both ends.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(failed("pipe"));
        }
        // SAFETY: both descriptors are new and owned here.
        let [read, write] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        // SAFETY: this process has no other thread, so the child may continue as usual.
        match unsafe { libc::fork() } {
            -1 => Err(failed("fork")),
            0 => {
                drop(read);
                let code = i32::from(work(batches, next, &write).is_err());
                // SAFETY: ends the process at once; nothing is buffered.
                unsafe { libc::_exit(code) }
            }
            pid => Ok(Worker { pid, pipe: read }),
        }
    }

    /// Passes on what the worker writes, until it ends.
    fn read(
        self,
        batches: &[Batch],
        next: &AtomicUsize,
        sender: &Sender<Found>,
    ) -> Result<(), String> {
        let read = passes_on(&mut BufReader::new(self.pipe), batches, sender);
        if read.is_err() {
            // Relaxed: the others only stop sooner.
            next.store(usize::MAX / 2, Ordering::Relaxed);
        }
        let mut status = 0;
        // SAFETY: the status has room; the process is this one's child.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        read?;
        match status {
            0 => Ok(()),
            status if libc::WIFSIGNALED(status) => {
                let signal = libc::WTERMSIG(status);
                Err(format!("a worker was ended by signal {signal}"))
            }
            status => Err(format!("a worker ended with status {status:#x}")),
        }
    }
}

fn passes_on(
    pipe: &mut impl Read,
    batches: &[Batch],
    sender: &Sender<Found>,
) -> Result<(), String> {
    while let Some(head) = words(pipe, HEAD)? {
        let [batch, case, lines, count] = [0, 1, 2, 3].map(|n| head[n]);
        if batch == FAILED {
            let mut reason = vec![0; case as usize];
            pipe.read_exact(&mut reason).map_err(torn)?;
            return Err(String::from_utf8_lossy(&reason).into_owned());
        }
        let (batch, case) = (batch as usize, case as usize);
        let length = count as usize * Conflict::WORDS;
        let conflicts = words(pipe, length)?.ok_or("a worker ended in a message")?;
        let of = &batches[batch];
        let each = conflicts.chunks_exact(Conflict::WORDS);
        let verdict = Verdict {
            case: of.cases[case].0,
            window: of.opts.count,
            lines: lines as usize,
            conflicts: each.map(Conflict::of_words).collect(),
            rule: None,
        };
        if sender.send((batch, case, verdict)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads this many numbers, or none at the end of the pipe.
fn words(pipe: &mut impl Read, count: usize) -> Result<Option<Vec<u64>>, String> {
    let mut bytes = vec![0; count * 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match pipe.read(&mut bytes[filled..]).map_err(torn)? {
            0 if filled == 0 => return Ok(None),
            0 => return Err("a worker ended in a message".into()),
            more => filled += more,
        }
    }
    let word = |eight: &[u8]| {
        eight
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    Ok(Some(bytes.chunks_exact(8).map(word).collect()))
}

fn torn(error: std::io::Error) -> String {
    format!("the pipe of a worker: {error}")
}

/// The main loop of a worker: batches until there are no more.
fn work(batches: &[Batch], next: &AtomicUsize, mut pipe: &File) -> Result<(), String> {
    let done: Result<(), String> = (|| {
        let cores = Cores::start()?;
        loop {
            // Relaxed: the list was there before the fork.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(at) else {
                return Ok(());
            };
            run(&cores, batch, Recording, |n, [a, b]| {
                let case = batch.cases[n].0;
                let verdict = Verdict::new(case, batch.opts.count, overlap(&a, &b));
                let message = message(at, n, &verdict);
                pipe.write_all(&message).expect("the first process reads");
            })?;
        }
    })();
    if let Err(reason) = &done {
        let mut message = bytes([FAILED, reason.len() as u64, 0, 0]);
        message.extend_from_slice(reason.as_bytes());
        pipe.write_all(&message).map_err(torn)?;
    }
    done
}

fn message(batch: usize, case: usize, verdict: &Verdict) -> Vec<u8> {
    let conflicts = &verdict.conflicts;
    let head = [batch, case, verdict.lines, conflicts.len()].map(|n| n as u64);
    let each = conflicts.iter().flat_map(Conflict::words);
    bytes(head.into_iter().chain(each))
}

fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

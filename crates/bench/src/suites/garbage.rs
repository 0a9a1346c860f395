//! How much memory waits to be freed while readers run.

use crate::allocations::Live;
use crate::failure::Context;
use crate::pinned::{allowed_cores, pin};
use crate::while_running::while_running;
use hearth::{Credentials, Errno, Fd, Process, Volume};
use std::time::{Duration, Instant};

/// What runs beside the thread that creates and unlinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    None,
    /// `stat` of one file: a short guard again and again.
    Stat,
    /// `pread` of [`LARGE`] bytes at once.
    LargeRead,
    /// `pwrite` of [`LARGE`] bytes at once.
    LargeWrite,
    /// A listing of [`MANY`] entries at once.
    List,
}

/// Bytes of the large transfers.
pub const LARGE: usize = 64 << 20;
/// Entries of the long listing.
pub const MANY: usize = 100_000;
/// ChurnFiles that come and go.
const NAMES: usize = 64;

/// All, with their names.
pub const READERS: [(Reader, &str); 5] = [
    (Reader::None, "nobody"),
    (Reader::Stat, "stat"),
    (Reader::LargeRead, "pread 64 MiB"),
    (Reader::LargeWrite, "pwrite 64 MiB"),
    (Reader::List, "readdir 100,000"),
];

#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Most bytes that waited.
    pub bytes: i64,
    /// ChurnFiles made and taken away.
    pub pairs: u64,
    pub reads: u64,
}

/// Creates and unlinks for `length` while `reader` runs, on the other core or on the same one.
pub fn run(
    (reader, name): (Reader, &str),
    same_core: bool,
    length: Duration,
) -> Result<Seen, String> {
    let cores = allowed_cores();
    let reading = if same_core { 0 } else { 1 };
    let (&writer_core, &reader_core) = cores
        .first()
        .zip(cores.get(reading))
        .ok_or("a second core is needed")?;
    let volume = Volume::memory();
    let failed = |errno: Errno| format!("{name}: {errno}");
    let mut side = ReaderTask::new(&volume, reader).map_err(failed)?;
    let files = ChurnFiles::new(&volume).map_err(failed)?;
    settle();
    let before = Live::now().bytes;
    let writing = || {
        pin(writer_core).text()?;
        files.replace(before, length).map_err(failed)
    };
    let (seen, reads) = while_running(writing, |goes_on| {
        pin(reader_core).text()?;
        let mut reads = 0;
        while goes_on() {
            side.step().map_err(failed)?;
            reads += 1;
        }
        Ok(reads)
    })?;
    Ok(Seen { reads, ..seen })
}

/// Frees what may be freed by now: nobody else is at work.
pub fn settle() {
    let (mut before, mut since) = (Live::now(), Instant::now());
    // What a thread left waits for it for a tenth of a second.
    while since.elapsed() < Duration::from_millis(300) {
        // A turn of the collector frees some of what is due.
        for _ in 0..256 {
            hearth_sync::epoch::pin().flush();
        }
        let now = Live::now();
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
}

/// The files that come and go. All are there at the start: what is allocated beyond them later is
/// garbage.
struct ChurnFiles {
    process: Process,
    names: Vec<String>,
}

impl ChurnFiles {
    fn new(volume: &Volume) -> Result<ChurnFiles, Errno> {
        let files = ChurnFiles {
            process: volume.process(Credentials::root()),
            names: (0..NAMES).map(|n| format!("/new-{n}")).collect(),
        };
        files.names.iter().try_for_each(|name| files.make(name))?;
        Ok(files)
    }

    fn make(&self, name: &str) -> Result<(), Errno> {
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        let fd = self.process.open(name, flags, 0o644)?;
        self.process.close(fd)
    }

    /// Takes each away and makes it again, for `length`; watches what is allocated beyond
    /// `before`.
    fn replace(&self, before: i64, length: Duration) -> Result<Seen, Errno> {
        let (start, mut bytes, mut pairs) = (Instant::now(), 0, 0);
        loop {
            for name in &self.names {
                self.process.unlink(name)?;
                self.make(name)?;
            }
            pairs += NAMES as u64;
            bytes = bytes.max(Live::now().bytes - before);
            if start.elapsed() >= length {
                return Ok(Seen {
                    bytes,
                    pairs,
                    reads: 0,
                });
            }
        }
    }
}

/// The reading side; its memory is there before the writer starts.
struct ReaderTask {
    reader: Reader,
    process: Process,
    fd: Fd,
    buffer: Vec<u8>,
}

impl ReaderTask {
    fn new(volume: &Volume, reader: Reader) -> Result<ReaderTask, Errno> {
        let process = volume.process(Credentials::root());
        let mut buffer = Vec::new();
        let fd = match reader {
            Reader::List => {
                process.mkdir("/many", 0o755)?;
                for n in 0..MANY {
                    process.mknod(format!("/many/{n}"), libc::S_IFREG | 0o644, 0)?;
                }
                process.open("/many", libc::O_RDONLY | libc::O_DIRECTORY, 0)?
            }
            _ => process.open("/file", libc::O_CREAT | libc::O_RDWR, 0o644)?,
        };
        if matches!(reader, Reader::LargeRead | Reader::LargeWrite) {
            buffer = vec![7; LARGE];
            process.pwrite(fd, &buffer, 0)?;
        }
        Ok(ReaderTask {
            reader,
            process,
            fd,
            buffer,
        })
    }

    fn step(&mut self) -> Result<(), Errno> {
        match self.reader {
            Reader::None => std::thread::sleep(Duration::from_millis(1)),
            Reader::Stat => {
                self.process.stat("/file")?;
            }
            Reader::LargeRead => {
                let got = self.process.pread(self.fd, &mut self.buffer, 0)?;
                assert_eq!(got, LARGE);
            }
            Reader::LargeWrite => {
                let done = self.process.pwrite(self.fd, &self.buffer, 0)?;
                assert_eq!(done, LARGE);
            }
            Reader::List => {
                self.process.lseek(self.fd, 0, libc::SEEK_SET)?;
                let mut entries = 0;
                self.process.getdents(self.fd, &mut |_| {
                    entries += 1;
                    true
                })?;
                assert_eq!(entries, MANY + 2);
            }
        }
        Ok(())
    }
}

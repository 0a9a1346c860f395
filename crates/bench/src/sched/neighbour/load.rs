//! Tenants that work side by side: users whose streams ask as fast as they are answered, and one
//! user who asks now and then.

use crate::histogram::Histogram;
use crate::sched::gauge::Gauge;
use rustix::fs::copy_file_range;
use rustix::process::setpriority_process;
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pages of a stream's file.
const PAGES: u64 = 16;
const PAGE: usize = 4096;
/// Bytes of a copy.
const COPY: usize = 1 << 20;
/// Between two requests of the quiet tenant.
const PACE: Duration = Duration::from_millis(10);

/// A tenant all of whose streams are greedy.
#[derive(Clone, Copy, Debug)]
pub struct Greedy {
    pub uid: u32,
    /// Streams, each of which asks again as soon as it is answered.
    pub streams: usize,
    /// Whether the kernel lets everybody else run first.
    pub nice: bool,
    /// What they ask for.
    pub wants: Wants,
}

/// One operation of a greedy stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// To read or to write 4 KiB, in turns: as much work for the program as for the daemon.
    Pages,
    /// To copy 1 MiB inside the volume: work for the daemon alone, so that it is what is short.
    Copies,
}

#[derive(Clone, Debug)]
pub struct Served {
    /// Operations per second of each greedy tenant.
    pub rates: Vec<f64>,
    /// Nanoseconds that each request of the quiet tenant took.
    pub quiet: Histogram,
}

/// Lets the greedy ones work in `place` for `length`, beside the quiet user, if one is given.
pub fn run(
    place: &Path,
    greedy: &[Greedy],
    quiet: Option<u32>,
    length: Duration,
) -> Result<Served> {
    let mut files = Vec::new();
    for tenant in greedy {
        let streams = 0..tenant.streams;
        let own: Result<Vec<File>> = streams.map(|n| file(place, tenant.uid, n)).collect();
        files.push(own?);
    }
    let asked = quiet.map(|uid| Ok::<_, Error>((uid, file(place, uid, 0)?)));
    let asked = asked.transpose()?;
    let gauge = &Gauge::new();
    std::thread::scope(|scope| {
        let mut tenants = Vec::new();
        for (tenant, files) in greedy.iter().zip(&files) {
            let stream = |file| scope.spawn(move || stream(file, *tenant, gauge));
            tenants.push(files.iter().map(stream).collect::<Vec<_>>());
        }
        let quiet = asked
            .as_ref()
            .map(|(uid, file)| scope.spawn(move || now_and_then(file, *uid, gauge)));
        let streams = greedy.iter().map(|tenant| tenant.streams);
        let tasks = streams.sum::<usize>() + usize::from(quiet.is_some());
        gauge.warm_up(tasks, length / 8);
        let seconds = gauge.window(length).seconds;
        let mut rates = Vec::new();
        for streams in tenants {
            let mut sum = 0;
            for stream in streams {
                let done = stream.join().map_err(|_| Error::other("a stream panicked"));
                sum += done??;
            }
            rates.push(sum as f64 / seconds);
        }
        let quiet = match quiet {
            Some(quiet) => quiet.join().map_err(|_| Error::other("it panicked"))??,
            None => Histogram::new(),
        };
        Ok(Served { rates, quiet })
    })
}

/// A file of the user's, as long as it is asked for.
fn file(place: &Path, uid: u32, number: usize) -> Result<File> {
    let path: PathBuf = place.join(format!("user-{uid}-{number}"));
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)?;
    file.write_all_at(&[7; PAGE * PAGES as usize], 0)?;
    chown(&path, Some(uid), Some(uid))?;
    Ok(file)
}

/// Reads and writes in turn; returns how often, while it counted.
fn stream(file: &File, tenant: Greedy, gauge: &Gauge) -> Result<u64> {
    let mut tally = gauge.tally();
    if tenant.nice {
        // None is the calling thread; a refusal changes nothing.
        let _ = setpriority_process(None, 19);
    }
    become_user(tenant.uid)?;
    let mut page = [7; PAGE];
    let mut turn = 0;
    if tenant.wants == Wants::Copies {
        file.write_all_at(&vec![7; 2 * COPY], 0)?;
    }
    while tally.go_on() {
        let at = turn % PAGES * PAGE as u64;
        match (tenant.wants, turn % 2) {
            (Wants::Copies, _) => copy(file)?,
            (Wants::Pages, 0) => file.read_exact_at(&mut page, at)?,
            (Wants::Pages, _) => file.write_all_at(&page, at)?,
        }
        turn += 1;
    }
    Ok(tally.done())
}

/// Copies the first part of a file over its second one.
fn copy(file: &File) -> Result<()> {
    let (mut from, mut to) = (0, COPY as u64);
    match copy_file_range(file, Some(&mut from), file, Some(&mut to), COPY)? {
        COPY => Ok(()),
        short => Err(Error::other(format!("copied {short} bytes of {COPY}"))),
    }
}

/// A read at fixed times. One that could not begin in time, because the one before took so long,
/// has waited since then.
fn now_and_then(file: &File, uid: u32, gauge: &Gauge) -> Result<Histogram> {
    let mut tally = gauge.tally();
    become_user(uid)?;
    let (mut taken, mut page) = (Histogram::new(), [0; PAGE]);
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        let begin = match due.checked_duration_since(now) {
            Some(early) => {
                std::thread::sleep(early);
                Instant::now()
            }
            None => due,
        };
        let before = tally.done();
        if !tally.go_on() {
            return Ok(taken);
        }
        file.read_exact_at(&mut page, 0)?;
        if tally.done() > before {
            taken.add(begin.elapsed().as_nanos() as u64);
        }
        due = begin.max(due) + PACE;
    }
}

/// Makes the calling thread, and no other, somebody else.
fn become_user(uid: u32) -> Result<()> {
    let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Subdirectory;

    #[test]
    fn tenants_are_served_as_themselves_and_counted_apart() {
        let me = rustix::process::geteuid().as_raw();
        let place = Subdirectory::new(&std::env::temp_dir(), true).unwrap();
        let others = if me == 0 { [20_001, 20_002] } else { [me, me] };
        let greedy = [
            Greedy {
                uid: others[0],
                streams: 3,
                nice: true,
                wants: Wants::Copies,
            },
            Greedy {
                uid: others[1],
                streams: 0,
                nice: false,
                wants: Wants::Pages,
            },
        ];
        let length = Duration::from_millis(300);
        let served = run(place.path(), &greedy, Some(others[1]), length).unwrap();
        assert!(served.rates[0] > 0.0);
        assert_eq!(served.rates[1], 0.0);
        // Every 10 ms, however busy the machine is, unless it stands still or wakes this thread
        // late.
        let asked = served.quiet.count();
        assert!((5..=60).contains(&asked), "{asked}");
        let still = rustix::process::geteuid().as_raw();
        assert_eq!(still, me, "only the threads changed");
        if me == 0 {
            use std::os::unix::fs::MetadataExt;
            let meta = std::fs::metadata(place.path().join("user-20001-2")).unwrap();
            assert_eq!(meta.uid(), 20_001);
        }
    }
}

//! `hearth-bench memory`: what a file costs, and whether lookups stay flat.
//!
//! A `stat` of a random file finds everything in the caches of a core among few files, and nothing
//! there among a million: what grows is the price of memory, not the number of steps. So it is held
//! against the same on the kernel's tmpfs.

use crate::ask::Ask;
use crate::cells;
use crate::children::own_output;
use crate::cpu_time::of_thread;
use crate::failure::Context;
use crate::mounted::Mounted;
use crate::options::Options;
use crate::random::Random;
use crate::report::Report;
use crate::stats::median;
use crate::table::{Table, short};
use crate::target::{Fresh, Library, Sharing, Target};
use crate::watchdog::beat;
use crate::workload::path;
use hearth::{Credentials, Process, Volume};
use std::ffi::CString;
use std::time::Instant;

/// Files of the large volumes.
const FILES: usize = 1_000_000;
/// How the names of files begin; a number follows.
const NAME: &str = "file-";
/// What a file may cost, entry and inode together.
const BYTES_MAX: f64 = 512.0;
/// What a lookup among the most files may take of what it takes on tmpfs.
const LOOKUP_MAX: f64 = 1.0;
/// Lookups in one round, and rounds of each target, which alternate.
const LOOKUPS: usize = 200_000;
const ROUNDS: usize = 7;
/// The verb by which this program measures one volume in a process of its own, whose memory nobody
/// has used before.
pub const FILL: &str = "memory-fill";

pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let files = options.pick(FILES / 10, FILES);
    let mut table = Table::new(["in memory", "value"]);
    let mut add = |(workload, target): (&str, &str), metric, value: f64, unit| {
        table.row(cells![
            format!("{workload}, {target}, {metric}"),
            short(value)
        ]);
        report.add_exact((workload, target, 1), (metric, unit), value);
    };
    let mut dearest = 0.0f64;
    for directories in [1, 1_000] {
        let text = own_output(FILL, &[files.to_string(), directories.to_string()])?;
        let numbers = text.split_whitespace().filter_map(|n| n.parse().ok());
        let [bytes, create_us, list_us] = numbers.collect::<Vec<f64>>()[..] else {
            return Err(format!("three numbers expected, not '{text}'"));
        };
        let name = format!("{files} empty files in {directories} directories");
        add((&name, "lib"), "bytes_per_file", bytes, "B");
        add((&name, "lib"), "us_per_create", create_us, "us");
        add((&name, "lib"), "us_per_list", list_us, "us");
        dearest = dearest.max(bytes);
    }
    let counts = [1_000, 10_000, 100_000, 1_000_000].into_iter();
    let (mut few, mut ratios) = (None, Vec::new());
    for count in counts.filter(|&count| count <= files) {
        let name = format!("stat among {count}");
        let price = lookup(count)?;
        let first = *few.get_or_insert(price);
        let targets = ["lib", "tmpfs"];
        for (target, ns) in targets.into_iter().zip(price) {
            add((&name, target), "ns_per_op", ns, "ns");
        }
        for (target, (ns, first)) in targets.into_iter().zip(price.into_iter().zip(first)) {
            add((&name, target), "added_ns_per_op", ns - first, "ns");
        }
        ratios.push((name, price[0] / price[1]));
    }
    println!("{}", table.text());
    report
        .asks
        .push(Ask::at_most("bytes of a file", BYTES_MAX, &[dearest]));
    if let Some((name, ratio)) = ratios.pop() {
        let what = format!("{name}: lib / tmpfs");
        report.asks.push(Ask::at_most(what, LOOKUP_MAX, &[ratio]));
    }
    Ok(())
}

/// Nanoseconds of a processor for a `stat` of a random one among `files` files in a directory:
/// through the library, and by a system call on tmpfs.
fn lookup(files: usize) -> Result<[f64; 2], String> {
    let library = Library::new(Sharing::Processes)?;
    let mounted = Mounted::tmpfs()?;
    // In a thread of its own, which a client of a mount moves there.
    std::thread::scope(|scope| {
        let timed = scope.spawn(|| lookup_times(&[&library, mounted.target()], files));
        timed
            .join()
            .map_err(|_| "the lookups panicked".to_owned())?
    })
}

fn lookup_times(targets: &[&dyn Target; 2], files: usize) -> Result<[f64; 2], String> {
    let clients = targets.map(Target::client);
    let name = |n: usize| path(format!("/{n}"));
    for file in 0..files {
        for client in &clients {
            client.close(client.open(&name(file), libc::O_CREAT | libc::O_WRONLY)?)?;
        }
        if file % 10_000 == 0 {
            beat();
        }
    }
    // The names are made before, in an order that no prefetcher guesses.
    let mut random = Random::new(1);
    let names = (0..LOOKUPS).map(|_| name(random.below(files as u64) as usize));
    let names: Vec<CString> = names.collect();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (client, times) in clients.iter().zip(&mut times) {
            let start = of_thread();
            if !names.iter().all(|name| client.stat(name)) {
                return Err("stat: a file is missing".to_owned());
            }
            // Processor time: others use the machine as well.
            times.push((of_thread() - start).as_nanos() as f64 / names.len() as f64);
        }
        beat();
    }
    Ok(times.map(|times| median(&times).0))
}

/// Makes a volume of empty files; prints the bytes of a file, and the microseconds of a create and
/// of listing all. `args` are the files and the directories.
pub fn run_fill(args: &[String]) -> Result<(), String> {
    let number = |n: usize| {
        args.get(n)
            .and_then(|arg| arg.parse().ok())
            .ok_or("two numbers")
    };
    let (files, directories): (usize, usize) = (number(0)?, number(1)?);
    let volume = Volume::memory();
    let process = volume.process(Credentials::root());
    let failed = |errno: hearth::Errno| errno.to_string();
    for n in 0..directories {
        process.mkdir(format!("/dir-{n}"), 0o755).map_err(failed)?;
    }
    let before = resident()?;
    let start = Instant::now();
    for n in 0..files {
        let path = format!("/dir-{}/{NAME}{n}", n % directories);
        process
            .mknod(path, libc::S_IFREG | 0o644, 0)
            .map_err(failed)?;
    }
    let create_us = start.elapsed().as_secs_f64() * 1e6 / files as f64;
    // What growing tables left behind is no part of a file.
    for _ in 0..1_000 {
        hearth_sync::epoch::pin().flush();
    }
    let bytes = (resident()? as f64 - before as f64) / files as f64;
    let start = Instant::now();
    list(&process, directories, |_, _| ())?;
    let list_us = start.elapsed().as_secs_f64() * 1e6;
    // Once more, where nothing is timed.
    let mut listed = Listed::new(files, directories);
    list(&process, directories, |dir, name| listed.add(dir, name))?;
    listed.check()?;
    println!("{bytes} {create_us} {list_us}");
    Ok(())
}

/// Calls `each` with every name that a directory lists and the number of the directory.
fn list(
    process: &Process,
    directories: usize,
    mut each: impl FnMut(usize, &[u8]),
) -> Result<(), String> {
    let mut list = |n| {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let dir = process.open(format!("/dir-{n}"), flags, 0)?;
        process.getdents(dir, &mut |entry: hearth::DirEntry<'_>| {
            each(n, entry.name);
            true
        })?;
        process.close(dir)
    };
    (0..directories).try_for_each(&mut list).text()
}

/// The names that listings have shown, against those that were made: `file-N` in the directory
/// whose number is the remainder of N.
struct Listed {
    seen: Vec<bool>,
    directories: usize,
    /// Names that nobody made, or that came twice.
    strange: Vec<String>,
}

impl Listed {
    fn new(files: usize, directories: usize) -> Listed {
        Listed {
            seen: vec![false; files],
            directories,
            strange: Vec::new(),
        }
    }

    fn add(&mut self, directory: usize, name: &[u8]) {
        if matches!(name, b"." | b"..") {
            return;
        }
        let text = String::from_utf8_lossy(name);
        let number = text
            .strip_prefix(NAME)
            .and_then(|n| n.parse::<usize>().ok());
        let is_made = |&n: &usize| {
            let is_here = n < self.seen.len() && n % self.directories == directory;
            is_here && text == format!("{NAME}{n}") && !self.seen[n]
        };
        match number.filter(is_made) {
            Some(n) => self.seen[n] = true,
            None => self.strange.push(format!("{directory}/{text}")),
        }
    }

    fn check(&self) -> Result<(), String> {
        let missing = self.seen.iter().filter(|&&seen| !seen).count();
        match (missing, self.strange.first()) {
            (0, None) => Ok(()),
            (_, strange) => Err(format!(
                "{missing} of {} files are not listed, {} names are too many{}",
                self.seen.len(),
                self.strange.len(),
                strange.map_or(String::new(), |name| format!(", as dir-{name}"))
            )),
        }
    }
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/self/statm").text()?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or("/proc/self/statm has no second column")? * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[(usize, &str)]) -> Result<(), String> {
        let mut listed = Listed::new(4, 2);
        for (directory, name) in names {
            listed.add(*directory, name.as_bytes());
        }
        listed.check()
    }

    #[test]
    fn a_listing_is_of_exactly_the_names_that_were_made() {
        let made = [(0, "file-0"), (0, "file-2"), (1, "file-3"), (1, "file-1")];
        let dots = [(0, "."), (1, "..")];
        assert_eq!(listed(&[&made[..], &dots].concat()), Ok(()));
        // As many names as were made, but not those.
        for wrong in [(0, "file-0"), (0, "file-1"), (1, "file-01"), (1, "other")] {
            let said = listed(&[&made[..3], &[wrong]].concat()).unwrap_err();
            let few = said.contains("1 of 4 files are not listed, 1 names");
            assert!(few && said.contains(wrong.1), "{said}");
        }
    }
}

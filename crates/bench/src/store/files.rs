//! `hearth-bench store --only files`: a volume of ten million files. What opening it takes, what a
//! file that nobody has looked at yet takes, and how much memory the process has then.
//!
//! Each step is a process of its own, whose memory nobody has used before: making the files,
//! opening after a close, changing some and ending without a word, opening after that.

use super::disk::Disk;
use crate::ask::Ask;
use crate::cells;
use crate::children::own_output;
use crate::failure::Context;
use crate::options::Options;
use crate::random::Random;
use crate::report::Report;
use crate::table::{Table, short};
use crate::watchdog::patiently;
use hearth::{Credentials, Process, Volume};
use std::path::Path;
use std::time::{Duration, Instant};

/// Verbs by which this program runs itself.
pub const MAKE: &str = "store-make";
pub const OPEN: &str = "store-open";

const FILES: u64 = 10_000_000;
/// Files of a directory.
const EACH: u64 = 1_000;
/// Files that are looked up.
const LOOKUPS: u64 = 1_000;
/// What an opening may take.
const SECONDS_MOST: f64 = 1.0;
const MIB_MOST: f64 = 100.0;
/// How long making the files may take.
const PATIENCE: Duration = Duration::from_secs(7200);
/// Memory of the volume that makes the files, and of one that is opened.
const MEMORY: &str = "256M";

/// Makes the files, and measures.
pub fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let disk = Disk::cheap(options)?;
    let files = options.pick(FILES / 50, FILES);
    let volume = disk.path().join("volume").display().to_string();
    let told = |verb, words: &[String]| {
        let text = patiently(PATIENCE, || own_output(verb, words))?;
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        match numbers[..] {
            [first, second, third] => Ok([first, second, third]),
            _ => Err(format!("{verb}: three numbers expected, not '{text}'")),
        }
    };
    let words = |more: &[&str]| -> Vec<String> {
        let more = more.iter().map(|&word| word.to_owned());
        [volume.clone()].into_iter().chain(more).collect()
    };
    report.bench = "store-files";
    let mut table = Table::new(["a volume of many files", "s", "MiB", "us per cold lookup"]);
    let count = files.to_string();
    let [seconds, mib, _] = told(MAKE, &words(&["0", &count, "close"]))?;
    table.row(cells![
        format!("making {files}"),
        short(seconds),
        short(mib),
        ""
    ]);
    let mut open = |what: &str| -> Result<(), String> {
        let [seconds, mib, us] = told(OPEN, &words(&[&count]))?;
        table.row(cells![what, short(seconds), short(mib), short(us)]);
        for (metric, value, unit) in [
            ("open_s", seconds, "s"),
            ("open_mib", mib, "MiB"),
            ("cold_lookup_us", us, "us"),
        ] {
            report.add_exact((what, "store", 1), (metric, unit), value);
        }
        let asked = [
            ("seconds", seconds, SECONDS_MOST),
            ("MiB after", mib, MIB_MOST),
        ];
        for (of, value, most) in asked {
            let what = format!("{of} {what}");
            report.asks.push(Ask::at_most(what, most, &[value]));
        }
        Ok(())
    };
    open("opening after a close")?;
    let more = (files / 20).to_string();
    // A process that ends without a word: what it was told to keep is in the log.
    let _ = told(MAKE, &words(&[&count, &more, "kill"]));
    open("opening after a kill")?;
    println!("{}", table.text());
    Ok(())
}

/// `store-make DIR FIRST COUNT close|kill`: makes files, and prints the seconds, the most MiB of
/// memory that were in use, and the number of files.
pub fn run_make(args: &[String]) -> Result<(), String> {
    let [directory, first, count, end] = args else {
        return Err("DIR FIRST COUNT close|kill".into());
    };
    let number = |text: &String| text.parse::<u64>().text();
    let (first, count) = (number(first)?, number(count)?);
    let begin = Instant::now();
    let volume = open(directory, ",create")?;
    let process = volume.process(Credentials::root());
    fill(&process, first..first + count).text()?;
    volume.sync().text()?;
    if end == "kill" {
        // SAFETY: the call takes numbers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    volume.close().text()?;
    println!(
        "{} {} {count}",
        begin.elapsed().as_secs_f64(),
        memory("VmHWM:")?
    );
    Ok(())
}

/// `store-open DIR FILES`: opens a volume with so many files; prints the seconds, the most MiB of
/// memory in use until then, and the microseconds of looking one of them up.
pub fn run_open(args: &[String]) -> Result<(), String> {
    let [directory, files] = args else {
        return Err("DIR FILES".into());
    };
    let files: u64 = files.parse().map_err(|_| "FILES is a number")?;
    let begin = Instant::now();
    let volume = open(directory, "")?;
    let (seconds, mib) = (begin.elapsed().as_secs_f64(), memory("VmHWM:")?);
    let process = volume.process(Credentials::root());
    let mut random = Random::new(5);
    let begin = Instant::now();
    for _ in 0..LOOKUPS {
        let name = name(random.below(files));
        process.stat(&name).context(name)?;
    }
    let us = begin.elapsed().as_secs_f64() * 1e6 / LOOKUPS as f64;
    println!("{seconds} {mib} {us}");
    eprintln!("after {LOOKUPS} lookups: {} MiB", memory("VmHWM:")?);
    drop(process);
    volume.close().text()
}

fn open(directory: &str, more: &str) -> Result<Volume, String> {
    let source = format!("store:{directory}?memory={MEMORY}{more}");
    hearth::open(&source).text()
}

fn name(file: u64) -> String {
    let directory = file / EACH;
    format!("/{}/{}/file-{file}", directory / EACH, directory % EACH)
}

/// Makes the files with these numbers, and the directories that they are the first in.
fn fill(process: &Process, files: std::ops::Range<u64>) -> hearth::Result<()> {
    let flags = libc::O_CREAT | libc::O_WRONLY;
    for file in files {
        let name = name(file);
        if file % EACH == 0 {
            let above = Path::new(&name).parent().unwrap_or(Path::new("/"));
            if file % (EACH * EACH) == 0 {
                process.mkdir(path(above.parent().unwrap_or(above)), 0o755)?;
            }
            process.mkdir(path(above), 0o755)?;
        }
        let made = process.open(&name, flags, 0o644)?;
        process.close(made)?;
    }
    Ok(())
}

fn path(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// A line of `/proc/self/status`, in MiB.
fn memory(line: &str) -> Result<f64, String> {
    let status = std::fs::read_to_string("/proc/self/status").text()?;
    let kib = status
        .lines()
        .find_map(|text| text.strip_prefix(line))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.ok_or("/proc/self/status")? / 1024.0)
}

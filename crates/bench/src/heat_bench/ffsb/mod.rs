//! FFSB: threads that draw one operation after the other by weight. A transaction is one block of
//! a read or a write, or one removal, as FFSB counts them.
//!
//! A run is a number of operations instead of a time, so that both sides do the same. Where files
//! come and go, each run has a fresh set of them, which is made and removed on the run's side.

mod profile;
mod run;

pub use profile::all;
pub use run::Ffsb;

use run::Counts;

use super::sides::{self, Amount, How, Measured};
use super::stage::Took;
use crate::pair::{Pair, Side};
use crate::row::Row;
use crate::target::Sharing;
use std::fmt::Write;

/// Numbers of threads, as in the seed.
pub const THREADS: [usize; 4] = [1, 8, 16, 32];

/// What the table shows of one profile with one number of threads.
#[derive(Default)]
struct Cell {
    /// Transactions per second of reads and of writes.
    reads: Pair,
    writes: Pair,
    /// Bytes per second of the same.
    read_bytes: Pair,
    written_bytes: Pair,
    /// Percent of one processor.
    cpu: Pair,
}

/// Runs all profiles and prints the seed's table; answers what was measured, by name.
///
/// # Errors
/// The library refuses, or did something else.
pub fn compare(amount: Amount, rows: &mut Vec<Row>) -> Result<Vec<(String, Measured)>, String> {
    let mut text = format!(
        "{:32}{:>24}{:>26}{:>16}\n{:32}{:>24}{:>26}{:>16}\n",
        "", "w/ hot tracking", "w/o hot tracking", "ratio", "", "v1", "v2", "(v1-v2)/v2"
    );
    let mut measured = Vec::new();
    for profile in all()? {
        let _ = writeln!(text, "{}", profile.name);
        for threads in THREADS {
            let make = |each| Ffsb::new(profile.clone(), each);
            let how = How {
                sharing: Sharing::Processes,
                tasks: threads,
                stays: profile.stays(),
                is_elastic: true,
            };
            let mut cell = Cell::default();
            let mut all = sides::job(&make, how, amount, &mut |side, job, _, took| {
                cell.push(side, &job.counts(), took[0])
            })?;
            cell.show(&mut text, threads);
            let name = format!("{} x{threads}", profile.name);
            eprintln!("measured: ffsb, {name}");
            let one = all.swap_remove(0);
            let metric = ("ops_per_s", "1/s");
            rows.extend(one.speed.rows(
                "heat",
                &format!("ffsb {}", profile.name),
                "lib",
                threads,
                metric,
            ));
            measured.push((format!("ffsb {name}"), one));
        }
    }
    println!("```text\n{text}```\n");
    Ok(measured)
}

impl Cell {
    fn push(&mut self, side: Side, counts: &Counts, Took { seconds, cpu, .. }: Took) {
        self.reads.push(side, counts.reads as f64 / seconds);
        self.writes.push(side, counts.writes as f64 / seconds);
        self.read_bytes
            .push(side, counts.read_bytes as f64 / seconds);
        self.written_bytes
            .push(side, counts.written_bytes as f64 / seconds);
        self.cpu.push(side, cpu / seconds * 100.0);
    }

    fn show(&self, text: &mut String, threads: usize) {
        let plural = if threads == 1 { "thread" } else { "threads" };
        let _ = writeln!(text, "        {threads} {plural}");
        let does = |pair: &Pair| pair.of(Side::Without).0 > 0.0;
        let (reads, writes) = (does(&self.reads), does(&self.writes));
        let mut per_cpu = Vec::new();
        for (is_done, what, trans, bytes) in [
            (reads, " [read]", &self.reads, &self.read_bytes),
            (writes, " [write]", &self.writes, &self.written_bytes),
        ] {
            if !is_done {
                continue;
            }
            let what = if reads && writes { what } else { "" };
            line(text, &format!("Trans/sec{what}"), trans, "", 2);
            let megabytes = bytes.scaled(1.0 / f64::from(1 << 20));
            line(text, &format!("Throughput{what}"), &megabytes, "MB/sec", 0);
            per_cpu.push((format!("Trans/%CPU{what}"), trans.over(&self.cpu)));
        }
        line(text, "%CPU", &self.cpu, "%", 1);
        for (what, ratio) in per_cpu {
            line(text, &what, &ratio, "", 2);
        }
        text.push('\n');
    }
}

fn line(text: &mut String, what: &str, pair: &Pair, unit: &str, digits: usize) {
    let show = |side| format!("{:.digits$}{unit}", pair.of(side).0);
    let change = (pair.ratio().0 - 1.0) * 100.0;
    let _ = writeln!(
        text,
        "           - {what:19}{:>24}{:>26}{:>15}",
        show(Side::With),
        show(Side::Without),
        format!("{change:+.2}%")
    );
}

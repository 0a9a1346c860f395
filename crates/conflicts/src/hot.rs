//! Hot calls: read-modify-writes of the most frequent calls on shared lines, on objects that all
//! cores use.
//!
//! A line is shared if the other core touches it in any of these calls on the same objects, or
//! while it makes and removes files beside them. Each call is made by root, who skips permission
//! checks, and by a stranger, for whom every directory on the way is checked.

use super::case::LONG;
use super::cores::{Cores, Watch};
use super::overlap::Line;
use super::report::row;
use super::window::Recording;
use hearth::fdtable::FdPolicy;
use hearth::{Credentials, Fd, Process, Volume};
use hearth_bench::row::Row;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

/// A call on objects that all cores use.
type Call = fn(&Hot);

/// The calls whose figure must be 0.
const CALLS: [(&str, Call); 5] = [
    ("stat", |hot| seen(hot.process.stat("/hot/f"))),
    ("access", |hot| seen(hot.process.access("/hot/f", 4))),
    ("readlink", |hot| seen(hot.process.readlink("/hot/l"))),
    ("pread", |hot| {
        seen(hot.process.pread(hot.fd, &mut [0; 64], 0))
    }),
    ("fd lookup", |hot| seen(hot.process.status_flags(hot.fd))),
];

/// The objects that all cores use.
struct Hot {
    process: Process,
    fd: Fd,
}

/// The cost of one call in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Read-modify-writes.
    pub modifies: f64,
    /// Read-modify-writes of shared lines.
    pub shared_modifies: f64,
    /// Shared lines that are written.
    pub shared_lines: f64,
}

/// Each call with its cost alone and in a long window.
pub struct Costs(Vec<(String, [Cost; 2])>);

/// Shared lines that a window of many calls may write, at most: those of garbage collection, which
/// comes now and then.
const COLLECTED: f64 = 4.0;

/// Measures the calls.
///
/// # Panics
/// When the library refuses what is needed.
pub fn measure(cores: &Cores) -> Costs {
    let stranger = Credentials::user(1_000, 1_000);
    let by = [(Credentials::root(), ""), (stranger, " by a stranger")];
    let each = by.into_iter();
    Costs(
        each.flat_map(|(who, suffix)| measure_as(cores, &who, suffix))
            .collect(),
    )
}

fn measure_as(cores: &Cores, who: &Credentials, suffix: &str) -> Vec<(String, [Cost; 2])> {
    let hot = Arc::new(Hot::new(who));
    for side in [0, 1, 0, 1] {
        let hot = hot.clone();
        cores.run(side, move || hot.use_all(side));
    }
    let theirs: HashSet<usize> = {
        let hot = hot.clone();
        let lines = cores.run(1, move || Recording.window(1, &mut || hot.use_all(1)));
        lines.into_iter().map(|line| line.address).collect()
    };
    let cost = |call: Call, count: usize| {
        let hot = hot.clone();
        let window = move || Recording.window(0, &mut || (0..count).for_each(|_| call(&hot)));
        Cost::of(&cores.run(0, window), &theirs, count)
    };
    // Garbage is collected in one call of many: the minimum is what a call always needs.
    let alone = |call: Call| {
        let tries = [cost(call, 1), cost(call, 1), cost(call, 1)];
        let shared = |cost: &Cost| cost.shared_modifies + cost.shared_lines;
        let least = tries
            .into_iter()
            .min_by(|a, b| shared(a).total_cmp(&shared(b)));
        least.unwrap_or_default()
    };
    let costs = |call| [alone(call), cost(call, LONG)];
    let each = CALLS.iter();
    each.map(|&(name, call)| (format!("{name}{suffix}"), costs(call)))
        .collect()
}

impl Hot {
    fn new(who: &Credentials) -> Hot {
        let volume = Volume::memory();
        let root = volume.process(Credentials::root());
        root.umask(0);
        root.mkdir("/hot", 0o777).expect("a new directory");
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = root.open("/hot/f", flags, 0o666).expect("a new file");
        root.pwrite(fd, &[7; 4096], 0).expect("room for a page");
        root.symlink("f", "/hot/l").expect("a new name");
        let mut process = volume.process(who.clone());
        process
            .set_fd_policy(FdPolicy::PerCore)
            .expect("nothing is open");
        let fd = process
            .open("/hot/f", libc::O_RDWR, 0)
            .expect("it is there");
        Hot { process, fd }
    }

    /// Does what another core may be doing meanwhile.
    fn use_all(&self, side: usize) {
        for (_, call) in CALLS {
            call(self);
        }
        let path = format!("/hot/other{side}");
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = self.process.open(&path, flags, 0o644).expect("a new file");
        self.process.write(fd, &[1; 64]).expect("it is open");
        self.process.close(fd).expect("it is open");
        self.process.unlink(&path).expect("it is there");
        let fd = self
            .process
            .open("/hot/f", libc::O_RDONLY, 0)
            .expect("it is there");
        self.process.close(fd).expect("it is open");
    }
}

impl Cost {
    fn of(lines: &[Line], theirs: &HashSet<usize>, count: usize) -> Cost {
        let shared = || lines.iter().filter(|line| theirs.contains(&line.address));
        let per_call = |sum: usize| sum as f64 / count as f64;
        Cost {
            modifies: per_call(lines.iter().map(|line| line.modifies as usize).sum()),
            shared_modifies: per_call(shared().map(|line| line.modifies as usize).sum()),
            shared_lines: per_call(shared().filter(|line| line.is_written()).count()),
        }
    }
}

impl Costs {
    /// Fails if a single call modifies or writes a shared line, or if many write more than garbage
    /// collection does.
    ///
    /// # Errors
    /// Names the call.
    pub fn check(&self) -> Result<(), String> {
        let many = COLLECTED / LONG as f64;
        let guilty = |(_, [single, long]): &&(String, [Cost; 2])| {
            let alone = single.shared_modifies > 0.0 || single.shared_lines > 0.0;
            alone || long.shared_modifies > many || long.shared_lines > many
        };
        match self.0.iter().find(guilty) {
            None => Ok(()),
            Some((name, _)) => Err(format!("{name} of what all cores use writes a shared line")),
        }
    }

    /// Returns a table.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{:<24} {:>12} {:>14} {:>20}   in series of {LONG}:\n",
            "a call", "RMW", "RMW shared", "shared lines written"
        );
        for (name, [single, long]) in &self.0 {
            let _ = writeln!(
                out,
                "{name:<24} {:>12} {:>14} {:>20}   {:.3} RMW shared, {:.3} lines",
                single.modifies,
                single.shared_modifies,
                single.shared_lines,
                long.shared_modifies,
                long.shared_lines
            );
        }
        out
    }

    /// Returns a row for each figure.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, [single, long]) in &self.0 {
            let name = format!("hot {name}");
            rows.push(row(&name, "shared_rmw_per_op", single.shared_modifies, "1"));
            rows.push(row(
                &name,
                "shared_lines_written_per_op",
                single.shared_lines,
                "1",
            ));
            rows.push(row(&name, "rmw_per_op", single.modifies, "1"));
            rows.push(row(
                &name,
                "shared_rmw_per_op_in_256",
                long.shared_modifies,
                "1",
            ));
        }
        rows
    }
}

fn seen<T, E>(answer: Result<T, E>) {
    assert!(std::hint::black_box(answer).is_ok(), "a hot call fails");
}

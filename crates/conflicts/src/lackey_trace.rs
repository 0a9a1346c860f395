//! Cases under valgrind's lackey, which prints every access of the program, libc and the allocator
//! included.
//!
//! `hearth-traced` stores to known addresses around each window. Every load and store between two
//! marks is noted by line, and the lines of two windows are compared like the recorder's.

use super::case::Case;
use super::commute::Errnos;
use super::opts::{Layout, Opts, Setting};
use hearth_bench::valgrind::missing;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How cases run here and in the recorder, so that both verdicts are about one state.
pub const LEAN: Opts = Opts {
    count: 1,
    layout: Layout {
        seed: 1,
        maker: 0,
        first: 0,
        setting: Setting {
            is_user: true,
            has_quotas: false,
            has_heat: false,
        },
    },
    is_lean: true,
};

/// Returns the cases as text for `hearth-traced`, whose windows have one call.
pub fn print_cases(cases: &[(Case, [Errnos; 2])]) -> String {
    let mut out = String::new();
    for (case, errnos) in cases {
        case.code().iter().for_each(|byte| {
            let _ = write!(out, "{byte:02x}");
        });
        let _ = writeln!(out, " {} {}", errnos[0].first, errnos[1].first);
    }
    out
}

/// Parses the cases of such a text.
///
/// # Errors
/// Names the wrong line.
pub fn parse_cases(text: &str) -> Result<Vec<(Case, [Errnos; 2])>, String> {
    let one = |line: &str| {
        let mut words = line.split(' ');
        let hex = words.next()?;
        let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let code: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
        let mut errnos = || {
            let first = words.next()?.parse().ok()?;
            Some(Errnos { first, again: None })
        };
        Some((Case::of_code(&code?)?, [errnos()?, errnos()?]))
    };
    let each = text
        .lines()
        .map(|line| one(line).ok_or(format!("no case: '{line}'")));
    each.collect()
}

/// Runs `program` on `cases` under lackey. Returns how many lines of each case are in conflict.
/// Cases run in order, those with access times first.
///
/// # Errors
/// Valgrind is missing, or a program fails.
pub fn check(
    program: &Path,
    cases: &[(Case, [Errnos; 2])],
    part: usize,
) -> Result<HashMap<Case, usize>, String> {
    let name = format!("hearth-conflicts-{}-{part}.cases", std::process::id());
    let list = std::env::temp_dir().join(name);
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    std::fs::write(&list, print_cases(cases)).map_err(|e| failed("the list of cases", e))?;
    let mut child = start(program, &list)?;
    let marks = marks(&mut child)?;
    let trace = child.stderr.take().ok_or("valgrind has no output")?;
    let counts = Trace::new(marks).read(trace);
    let status = child.wait().map_err(|e| failed("valgrind", e))?;
    let _ = std::fs::remove_file(&list);
    let counts = counts?;
    if !status.success() || counts.len() != cases.len() {
        let seen = counts.len();
        return Err(format!(
            "valgrind: {status}, {seen} of {} cases",
            cases.len()
        ));
    }
    let (noatime, atime): (Vec<Case>, Vec<Case>) = cases
        .iter()
        .map(|it| it.0)
        .partition(|case| case.is_noatime);
    Ok(atime.into_iter().chain(noatime).zip(counts).collect())
}

fn start(program: &Path, list: &Path) -> Result<Child, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=2"])
        .arg(program)
        .arg(list)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    valgrind.spawn().map_err(missing)
}

/// Returns the address that the program prints. The trace is read meanwhile, because it fills its
/// pipe.
fn marks(child: &mut Child) -> Result<usize, String> {
    let out = child
        .stdout
        .take()
        .ok_or("the traced program has no output")?;
    let err = child.stderr.as_mut().ok_or("valgrind has no output")?;
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).map(|_| line)
    });
    let mut skipped = vec![0; 1 << 16];
    while !reader.is_finished() {
        if err
            .read(&mut skipped)
            .map_err(|error| format!("valgrind: {error}"))?
            == 0
        {
            break;
        }
    }
    let line = reader
        .join()
        .map_err(|_| "the reader of the traced program died")?;
    let line = line.map_err(|error| format!("the traced program: {error}"))?;
    let address = line.strip_prefix("marks ").map(str::trim);
    address
        .and_then(|hex| usize::from_str_radix(hex, 16).ok())
        .ok_or(format!("the traced program said '{}'", line.trim()))
}

/// A trace that is being read.
struct Trace {
    marks: usize,
    /// The side whose window this is.
    side: Option<usize>,
    /// Lines touched, and whether written.
    seen: [HashMap<usize, bool>; 2],
    /// Conflicting lines of each finished case.
    counts: Vec<usize>,
}

impl Trace {
    fn new(marks: usize) -> Trace {
        Trace {
            marks,
            side: None,
            seen: Default::default(),
            counts: Vec::new(),
        }
    }

    fn read(mut self, trace: impl Read) -> Result<Vec<usize>, String> {
        let mut trace = BufReader::with_capacity(1 << 20, trace);
        let mut line = Vec::new();
        loop {
            line.clear();
            let got = trace.read_until(b'\n', &mut line);
            if got.map_err(|error| format!("the trace: {error}"))? == 0 {
                return Ok(self.counts);
            }
            self.line(&line);
        }
    }

    /// A line is ` L 1ffeff7e0,8`, ` S ...` or ` M ...`; an instruction begins without a space.
    fn line(&mut self, line: &[u8]) {
        let [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] = line else {
            return;
        };
        let mut parts = rest.trim_ascii().split(|&b| b == b',');
        let number = |part: Option<&[u8]>, radix| {
            let text = std::str::from_utf8(part?).ok()?;
            usize::from_str_radix(text, radix).ok()
        };
        let Some((address, size)) = number(parts.next(), 16).zip(number(parts.next(), 10)) else {
            return;
        };
        let writes = *kind != b'L';
        if writes && (self.marks..self.marks + 32).contains(&address) {
            self.mark((address - self.marks) / 8);
        } else if let Some(side) = self.side {
            for line in address / 64..=(address + size.max(1) - 1) / 64 {
                *self.seen[side].entry(line).or_default() |= writes;
            }
        }
    }

    fn mark(&mut self, which: usize) {
        let (side, is_begin) = (which / 2, which.is_multiple_of(2));
        if is_begin {
            self.side = Some(side);
            return;
        }
        self.side = None;
        // The first side's window comes first: see `LEAN`.
        if side == 1 {
            let [a, b] = std::mem::take(&mut self.seen);
            let clash = |(line, writes): (&usize, &bool)| {
                b.get(line).is_some_and(|theirs| *writes || *theirs)
            };
            self.counts.push(a.iter().filter(|&it| clash(it)).count());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Cores;
    use crate::marks::Marking;
    use crate::plan::{Extent, Plan};
    use crate::run::{batches, run};

    /// Regression: in a lean state a directory that must not be empty held one file, which the
    /// other call removed.
    #[test]
    fn a_lean_state_gives_the_results_of_the_model() {
        let plan = Plan::new(Extent::WHOLE, Some("rmdir(/d1/s)"));
        assert!(plan.cases.len() > 100, "{} cases", plan.cases.len());
        let cores = Cores::start().unwrap();
        for batch in batches(&plan.cases, LEAN) {
            run(&cores, &batch, Marking, |_, _| {}).unwrap();
        }
    }

    #[test]
    fn only_accesses_between_marks_are_compared() {
        let text = "I  04001000,3\n S 9000,8\n S 1000,8\n L 2000,8\n M 2ff8,16\n S 1008,8\n \
                    S 2000,8\n S 1010,8\n L 2008,4\n L 3000,4\n L 9000,8\n S 1018,8\n \
                    S 1000,8\n S 2000,1\n S 1008,8\n S 1010,8\n L 2010,1\n S 1018,8\n";
        let counts = Trace::new(0x1000).read(text.as_bytes()).unwrap();
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn cases_survive_printing_and_parsing() {
        let cases: Vec<_> = crate::enumerate::cases();
        let cases: Vec<_> = cases
            .into_iter()
            .step_by(997)
            .map(|case| (case, [2, 0].map(|first| Errnos { first, again: None })))
            .collect();
        assert_eq!(parse_cases(&print_cases(&cases)).unwrap(), cases);
        assert!(parse_cases("xy 0 0").is_err());
    }
}

//! Every workload of the timed table as one job, for who runs it otherwise.

use super::compilebench::Build;
use super::ffsb::{self, Ffsb};
use super::fs_mark::Shape;
use super::sides::{How, Repeated};
use crate::activity::Job;
use crate::seeds::{file_ops, thread_perf};
use crate::target::Sharing;

/// A job, as large as it is told.
pub type Make = Box<dyn Fn(usize) -> Box<dyn Job>>;

/// A job by one task, and its rows of the table.
pub struct Workload {
    /// Its rows, one for each phase.
    pub rows: Vec<String>,
    /// How it is run.
    pub how: How,
    /// Makes the job.
    pub make: Make,
}

/// All but what needs a mount; those of a given size with one of `part` parts of their work.
///
/// # Errors
/// A profile is not understood.
pub fn all(part: usize) -> Result<Vec<Workload>, String> {
    let mut all = Vec::new();
    for profile in ffsb::all()? {
        let (name, stays) = (format!("ffsb {}", profile.name), profile.stays());
        let make = move |each| Box::new(Ffsb::new(profile.clone(), each)) as Box<dyn Job>;
        all.push(elastic(name, Sharing::Processes, stays, Box::new(make)));
    }
    let build = Build::new(part);
    let phases = build.phases();
    all.push(given(
        phases.iter().map(|phase| format!("compilebench {phase}")),
        Box::new(move |_| Box::new(build.clone())),
    ));
    for (mode, short) in &file_ops::MODES {
        let make = |times| {
            Box::new(Repeated {
                activity: mode,
                times,
            }) as Box<dyn Job>
        };
        let name = format!("file-ops {short}");
        all.push(elastic(name, Sharing::Processes, true, Box::new(make)));
    }
    for (kind, _) in thread_perf::ALL {
        for (sharing, who) in [
            (Sharing::Lowest, "threads"),
            (Sharing::Processes, "processes"),
        ] {
            let make = move |times| {
                Box::new(thread_perf::Test {
                    kind,
                    times: times as u32,
                }) as Box<dyn Job>
            };
            let name = format!("thread_perf {}, {who}", kind.name());
            all.push(elastic(name, sharing, true, Box::new(make)));
        }
    }
    let rounds = Shape::new(part).phases();
    all.push(given(
        rounds.iter().map(|round| format!("fs_mark, round {round}")),
        Box::new(move |_| Box::new(Shape::new(part))),
    ));
    Ok(all)
}

fn elastic(name: String, sharing: Sharing, stays: bool, make: Make) -> Workload {
    let how = How {
        sharing,
        tasks: 1,
        stays,
        is_elastic: true,
    };
    Workload {
        rows: vec![name],
        how,
        make,
    }
}

fn given(rows: impl Iterator<Item = String>, make: Make) -> Workload {
    let how = How {
        sharing: Sharing::Processes,
        tasks: 1,
        stays: false,
        is_elastic: false,
    };
    Workload {
        rows: rows.collect(),
        how,
        make,
    }
}

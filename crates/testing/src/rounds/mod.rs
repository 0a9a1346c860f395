//! Rounds in which what serves a directory fails under programs that work in it, and the programs
//! then check that all is there that they were promised.

mod database;
mod load;
mod repository;
mod service;
mod spool;

pub use database::Database;
pub use load::Load;
pub use repository::Repository;
pub use service::{Cut, Daemon, Disk, Service};
pub use spool::Spool;

use crate::random::Random;
use crate::threads::SetOnDrop;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A program that works in a directory of its own until something fails, and remembers what was
/// acknowledged.
pub trait Workload: Send {
    /// Its directory, and what failures name.
    fn name(&self) -> &'static str;

    /// Works until a call fails or the time is over.
    fn work(&mut self, at: &Path, end: &AtomicBool);

    /// Looks whether everything acknowledged is there and nothing is there that must not be.
    fn check(&mut self, at: &Path) -> Result<(), String>;

    /// How much was acknowledged so far.
    fn acknowledged(&self) -> u64;
}

/// The usual workloads.
pub fn workloads(seed: u64) -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(Spool::new(seed)),
        Box::new(Database::new(seed)),
        Box::new(Repository::default()),
    ]
}

/// Starts the service, lets it fail at a random time under the workloads, starts it again, lets
/// them check, and so on; `check` looks at each round for itself. How much was acknowledged.
///
/// # Errors
/// What was lost, with the round and the seed.
pub fn run(
    service: &mut dyn Service,
    workloads: &mut [Box<dyn Workload>],
    rounds: u64,
    seed: u64,
    mut check: impl FnMut(&Path) -> Result<(), String>,
) -> Result<u64, String> {
    let mut random = Random(seed);
    service.start()?;
    for round in 1..=rounds {
        let failed = |what| format!("round {round} of seed {seed}: {what}");
        let length = Duration::from_millis(20 + random.below(1_500));
        one(service, workloads, length, &mut random).map_err(failed)?;
        for workload in &mut *workloads {
            let at = service.path().join(workload.name());
            let checked = workload.check(&at);
            checked.map_err(|what| failed(format!("{}: {what}", workload.name())))?;
        }
        check(service.path()).map_err(failed)?;
    }
    service.stop()?;
    Ok(workloads.iter().map(|one| one.acknowledged()).sum())
}

fn one(
    service: &mut dyn Service,
    workloads: &mut [Box<dyn Workload>],
    length: Duration,
    random: &mut Random,
) -> Result<(), String> {
    let end = AtomicBool::new(false);
    let root = service.path().to_owned();
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        for workload in workloads {
            let (at, end) = (root.join(workload.name()), &end);
            scope.spawn(move || {
                // It is there from the second round on, or the service has failed already.
                let _ = std::fs::create_dir(&at);
                workload.work(&at, end);
            });
        }
        std::thread::sleep(length);
        service.fail(random)
    })?;
    service.start()
}

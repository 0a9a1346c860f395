//! The tree survives the end of a volume and a kill between any two steps of a script: the volume
//! is opened again, the processes open their files again, and the script goes on.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "model/driver.rs"]
mod driver;

use driver::Library;
use hearth::Volume;
use hearth_model::strategy::{Abilities, run_scripts};
use hearth_model::{Former, Model, Numbers, Op, Outcome, PROCESSES, System, compare_trees};
use hearth_store::backend::Limits;
use hearth_store::backend::simulated::SimulatedStore;
use hearth_store::disk::simulated::SimulatedDisk;
use proptest::prelude::*;
use std::sync::Arc;

const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};
const SCRIPTS: u32 = 150;
/// The trees are compared after so many openings.
const COMPARED: u64 = 8;

/// How a volume ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// After a sync; the disk forgets the rest.
    Killed,
}

struct Site {
    disk: SimulatedDisk,
    store: SimulatedStore,
    library: Library,
    model: Model,
    numbers: Numbers,
    openings: u64,
}

fn opened(disk: &SimulatedDisk) -> Result<(SimulatedStore, Library), String> {
    let store = SimulatedStore::open(disk, Limits::default());
    let store = store.map_err(|error| format!("opening: {error}"))?;
    let builder = Volume::builder().workers(0);
    let volume = builder.backend(Arc::clone(&store.backend)).build();
    let volume = volume.map_err(|error| error.to_string())?;
    Ok((store, Library::new(volume)))
}

impl Site {
    fn new(seed: u64) -> Result<Site, String> {
        let disk = SimulatedDisk::new(seed);
        SimulatedStore::make(&disk, 48).map_err(|error| error.to_string())?;
        let (store, library) = opened(&disk)?;
        let mut model = Model::new();
        for (uid, gid, groups) in PROCESSES {
            model.add_process(uid, gid, groups);
        }
        Ok(Site {
            disk,
            store,
            library,
            model,
            numbers: Numbers::default(),
            openings: 0,
        })
    }

    fn call(&mut self, p: usize, op: &Op) -> Result<Outcome, String> {
        let expected = self.model.apply(p, op);
        if expected == Outcome::Unspecified {
            return Ok(expected);
        }
        let found = self.library.apply(p, op);
        match expected.agrees(&found, &mut self.numbers) {
            true => Ok(found),
            false => Err(format!("{op:?}: expected {expected:?}, found {found:?}")),
        }
    }

    /// Ends the volume, opens it again, and lets the processes go on where they were.
    fn remount(&mut self, end: End) -> Result<(), String> {
        let volume = self.library.volume().clone();
        let ended = match end {
            End::Closed => {
                self.library.exit_all();
                volume.close()
            }
            End::Killed => {
                let synced = volume.sync();
                volume.abandon();
                self.library.exit_all();
                self.disk = self.disk.crashed(self.openings);
                synced
            }
        };
        ended.map_err(|errno| format!("{end:?}: {errno}"))?;
        drop(volume);
        let former = self.model.remounted();
        let living: Vec<usize> = former.iter().map(|former| former.process).collect();
        (self.store, self.library) = opened(&self.disk)?;
        for p in (0..PROCESSES.len()).filter(|p| !living.contains(p)) {
            self.library.apply(p, &Op::Exit);
        }
        self.openings += 1;
        if self.openings.is_multiple_of(COMPARED) {
            self.check()?;
        }
        let resume = |former: &Former| {
            let p = former.process;
            former.resume(&mut |op| self.call(p, op))
        };
        let resumed = former.iter().try_for_each(resume);
        resumed.map_err(|why| format!("behind {end:?}: {why}"))
    }

    fn check(&mut self) -> Result<(), String> {
        compare_trees(&mut self.model, &mut self.library)?;
        let quota = self.library.volume().quota().check();
        let quota = quota.map_err(|errno| format!("the check of quotas: {errno}"))?;
        match quota.is_clean() && self.store.backend.strays() == 0 {
            true => Ok(()),
            false => Err(format!("{quota:?}, {} strays", self.store.backend.strays())),
        }
    }
}

fn check(end: End, seed: u64, steps: &[(usize, Op)]) -> Result<(), String> {
    let mut site = Site::new(seed)?;
    for (number, (p, op)) in steps.iter().enumerate() {
        // Processes that share a description cannot open it again.
        if *op == Op::Fork {
            continue;
        }
        let at = |why| format!("step {number}: {why}");
        site.remount(end).map_err(at)?;
        site.call(*p, op).map_err(at)?;
    }
    site.remount(end)?;
    site.check()
}

fn run(end: End) {
    let config = ProptestConfig {
        max_shrink_iters: 400,
        ..ProptestConfig::with_cases(SCRIPTS)
    };
    run_scripts(config, (ABILITIES, 20..80), |seed, steps| {
        check(end, seed, steps)
    });
}

#[test]
fn a_tree_survives_a_close_and_an_opening_between_any_two_steps() {
    run(End::Closed);
}

#[test]
fn a_tree_survives_a_kill_after_a_sync_between_any_two_steps() {
    run(End::Killed);
}

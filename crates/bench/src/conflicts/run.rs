//! Running cases.

use super::case::Case;
use super::overlap::{Conflict, Line, overlap};
use super::recorder;
use super::verb::{PAGE, Verb};
use super::world::{Names, SETTLED, World};
use crate::pinned::Worker;
use hearth_sync::epoch;
use std::sync::Arc;

/// When the operations of a case happen.
const MOMENT: i64 = 3_000;

/// A case that commutes, and what the two windows shared.
pub struct Verdict {
    /// The case.
    pub case: Case,
    /// Lines in conflict.
    pub conflicts: Vec<Conflict>,
}

impl Verdict {
    /// Whether the windows shared no more than the case allows.
    pub fn is_free(&self) -> bool {
        self.conflicts.len() <= self.case.budget()
    }
}

/// Two threads on two cores.
pub struct Cores([Worker; 2]);

impl Cores {
    /// Starts them.
    ///
    /// # Errors
    /// This process may use one core only.
    pub fn start() -> Result<Cores, String> {
        match *crate::pinned::allowed_cores() {
            [first, second, ..] => Ok(Cores([Worker::on(first), Worker::on(second)])),
            _ => Err("the conflict runner needs two cores, and this process may use one".into()),
        }
    }

    /// Lets each side do something alone, one after the other, and answers the lines that both
    /// touched and one wrote.
    pub fn conflicts<F>(&self, mut side: impl FnMut(usize) -> F) -> Vec<Conflict>
    where
        F: FnMut() + Send + 'static,
    {
        let [a, b] = [0, 1].map(|n| {
            let work = side(n);
            self.0[n].run(move || window(work))
        });
        overlap(&a, &b)
    }

    /// Runs a case that commutes.
    pub fn measure(&self, case: Case) -> Verdict {
        let world = Arc::new(World::new(&case, Names::Apart));
        for side in [0, 1, 0, 1] {
            let world = world.clone();
            self.0[side].run(move || world.warm(side));
        }
        world.set_time(SETTLED);
        for side in 0..2 {
            let world = world.clone();
            self.0[side].run(move || {
                world.settle(side);
                empty_epoch();
            });
        }
        empty_epoch();
        let conflicts = self.conflicts(|side| {
            world.set_time(MOMENT + side as i64);
            let world = world.clone();
            let verb = [case.a, case.b][side];
            let mut page = vec![9; PAGE];
            let on = world.operands[side].clone();
            move || {
                let p = world.process(side);
                for i in 0..case.window {
                    std::hint::black_box(verb.run(p, &on, i, &mut page, SETTLED));
                }
            }
        });
        Verdict { case, conflicts }
    }
}

/// The case, if its operations give the same results and the same tree in both orders; without
/// access times if they do only then.
pub fn commuting(case: Case) -> Option<Case> {
    let reads = |verb| matches!(verb, Verb::Read | Verb::List);
    let quiet = Case {
        is_noatime: true,
        ..case
    };
    match () {
        () if in_order(&case, [0, 1]) == in_order(&case, [1, 0]) => Some(case),
        () if !reads(case.a) && !reads(case.b) => None,
        () if in_order(&quiet, [0, 1]) == in_order(&quiet, [1, 0]) => Some(quiet),
        () => None,
    }
}

/// Results of both sides and the tree after.
fn in_order(case: &Case, order: [usize; 2]) -> ([Vec<u64>; 2], u64) {
    let world = World::new(case, Names::Any);
    world.warm(0);
    world.warm(1);
    world.set_time(SETTLED);
    world.settle(0);
    let mut results = [Vec::new(), Vec::new()];
    for (moment, side) in order.into_iter().enumerate() {
        world.set_time(MOMENT + moment as i64);
        let verb = [case.a, case.b][side];
        let mut page = vec![side as u8; PAGE];
        let (p, on) = (world.process(side), &world.operands[side]);
        results[side] = (0..case.window)
            .map(|i| verb.run(p, on, i, &mut page, SETTLED))
            .collect();
    }
    (results, world.digest())
}

/// Records `work` from a known point of the epoch: nothing retired waits, and the next round of
/// collection is as far away as it can be, so that a short window never meets one by chance.
fn window(mut work: impl FnMut()) -> Vec<Line> {
    empty_epoch();
    let mut least = usize::MAX;
    for _ in 0..1_000 {
        let lines = recorder::count(|| drop(epoch::pin()));
        // A pin that collects touches more.
        if lines > least {
            break;
        }
        least = least.min(lines);
    }
    // What `work` owns is dropped after the window.
    recorder::record(&mut work)
}

/// Hands over what this thread has retired, and drops most of what is due.
fn empty_epoch() {
    for _ in 0..4 {
        epoch::pin().flush();
    }
}

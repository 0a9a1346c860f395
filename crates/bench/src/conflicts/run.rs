//! Running cases.

use super::case::Case;
use super::commute::Errnos;
use super::cores::{Cores, Watch, empty_epoch};
use super::ground::{CANDIDATES, FEW_CANDIDATES, Ground, MADE, MOMENT, SETTLED};
use super::manner::Manner;
use super::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Cases that share a volume, with how they run.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The cases, each with the results that the library must give.
    pub cases: Vec<(Case, Errnos)>,
    /// How they run.
    pub manner: Manner,
    is_noatime: bool,
}

/// Splits `cases` into batches, those with access times first.
pub fn batches(cases: &[(Case, Errnos)], manner: Manner) -> Vec<Batch> {
    let size = if manner.is_lean { 1_000 } else { 96 };
    let mut found = Vec::new();
    for is_noatime in [false, true] {
        let these = cases.iter().filter(|it| it.0.is_noatime == is_noatime);
        let these: Vec<_> = these.copied().collect();
        found.extend(these.chunks(size).map(|cases| Batch {
            cases: cases.to_vec(),
            manner,
            is_noatime,
        }));
    }
    found
}

/// Runs a batch; `each` gets what was seen of either side, with the number of the case.
///
/// # Errors
/// A case whose first calls do not answer what the model does, or in which a call panics.
pub fn run<W: Watch>(
    cores: &Cores,
    batch: &Batch,
    watch: W,
    mut each: impl FnMut(usize, [W::Seen; 2]),
) -> Result<(), String> {
    let manner = batch.manner;
    let candidates = match (manner.is_lean, manner.count) {
        (false, 2..) => CANDIDATES,
        _ => FEW_CANDIDATES,
    };
    let mut ground = Arc::new(Ground::new(
        batch.is_noatime,
        manner.layout.seed,
        candidates,
        manner.layout.setting,
    ));
    for (n, &(case, errnos)) in batch.cases.iter().enumerate() {
        let alone = Arc::get_mut(&mut ground).expect("every state is gone");
        let base = alone.next_base();
        let measured = AssertUnwindSafe(|| measure(cores, &ground, base, case, manner, watch));
        let (seen, found) = catch_unwind(measured)
            .map_err(|_| format!("{case}: a step of it panics, {manner:?}"))?;
        if found != errnos {
            let wrong = format!("{case}: {found:?}, the model {errnos:?}");
            return Err(format!("the library and the model differ: {wrong}"));
        }
        each(n, seen);
    }
    Ok(())
}

/// What was seen of either side, and the results of the first calls.
fn measure<W: Watch>(
    cores: &Cores,
    ground: &Arc<Ground>,
    base: String,
    case: Case,
    manner: Manner,
    watch: W,
) -> ([W::Seen; 2], Errnos) {
    let layout = manner.layout;
    ground.set_time(MADE);
    let mut world = {
        let ground = ground.clone();
        cores.run(layout.maker, move || World::new(ground, base, case, manner))
    };
    for side in 0..2 {
        world = on(cores, side, world, move |world| world.seat(side));
    }
    let rounds = if manner.is_lean { 1 } else { 2 };
    for side in [0, 1].repeat(rounds) {
        world = on(cores, side, world, move |world| world.warm(side));
    }
    ground.set_time(SETTLED);
    for side in 0..2 {
        world = on(cores, side, world, move |world| {
            world.settle(side);
            world.prepare(side);
            empty_epoch();
        });
    }
    let mut seen = [None, None];
    let mut errnos = [0, 0];
    for (moment, side) in [layout.first, 1 - layout.first].into_iter().enumerate() {
        ground.set_time(MOMENT + moment as i64);
        let mut seat = world.take(side);
        let (seat, touched, errno) = cores.run(side, move || {
            let mut errno = 0;
            let touched = watch.window(side, &mut || {
                for (i, call) in seat.calls.iter().enumerate() {
                    let answer = call.make(&seat.process, &mut seat.hands, i);
                    if let (0, Err(no)) = (i, answer) {
                        errno = no.0;
                    }
                }
            });
            (seat, touched, errno)
        });
        world.put(side, seat);
        seen[side] = Some(touched);
        errnos[side] = errno;
    }
    // Everything goes where it was made.
    for side in [1, 0] {
        let seat = world.take(side);
        cores.run(side, move || drop(seat));
    }
    cores.run(layout.maker, move || drop(world));
    (
        seen.map(|seen| seen.expect("both sides had their window")),
        errnos,
    )
}

fn on(
    cores: &Cores,
    side: usize,
    mut world: World,
    f: impl FnOnce(&mut World) + Send + 'static,
) -> World {
    cores.run(side, move || {
        f(&mut world);
        world
    })
}

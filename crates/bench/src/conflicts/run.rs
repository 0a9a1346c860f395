//! Running cases.

use super::case::Case;
use super::commute::Errnos;
use super::ground::{Ground, MADE, MOMENT, SETTLED};
use super::overlap::{Conflict, overlap};
use super::verdict::Verdict;
use super::window::{Cores, empty_epoch, window};
use super::world::{Layout, World};
use std::sync::Arc;

/// Cases that share a volume.
const BATCH: usize = 96;

/// Runs cases in windows of `count` calls a side.
///
/// # Errors
/// A case whose first calls do not answer what the model does.
pub fn run(
    cores: &Cores,
    cases: &[(Case, Errnos)],
    count: usize,
    layout: Layout,
    mut each: impl FnMut(Verdict),
) -> Result<(), String> {
    for is_noatime in [false, true] {
        let these: Vec<_> = cases
            .iter()
            .filter(|it| it.0.is_noatime == is_noatime)
            .collect();
        for batch in these.chunks(BATCH) {
            let mut ground = Arc::new(Ground::new(is_noatime, layout.seed));
            for &&(case, errnos) in batch {
                let alone = Arc::get_mut(&mut ground).expect("every state is gone");
                let base = alone.next_base();
                let found = measure(cores, &ground, base, case, count, layout);
                if found.1 != errnos {
                    let wrong = format!("{case}: {:?}, the model {errnos:?}", found.1);
                    return Err(format!("the library and the model differ: {wrong}"));
                }
                each(Verdict::new(case, count, found.0));
            }
        }
    }
    Ok(())
}

/// The lines in conflict, and the results of the first calls.
fn measure(
    cores: &Cores,
    ground: &Arc<Ground>,
    base: String,
    case: Case,
    count: usize,
    layout: Layout,
) -> (Vec<Conflict>, Errnos) {
    ground.set_time(MADE);
    let mut world = {
        let ground = ground.clone();
        let seed = layout.seed;
        cores.run(layout.maker, move || {
            World::new(ground, base, case, count, seed)
        })
    };
    for side in 0..2 {
        world = on(cores, side, world, move |world| world.seat(side));
    }
    for side in [0, 1, 0, 1] {
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
    let mut lines = [Vec::new(), Vec::new()];
    let mut errnos = [0, 0];
    for (moment, side) in [layout.first, 1 - layout.first].into_iter().enumerate() {
        ground.set_time(MOMENT + moment as i64);
        let mut seat = world.take(side);
        let (seat, touched, errno) = cores.run(side, move || {
            let mut errno = 0;
            let touched = window(&mut || {
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
        lines[side] = touched;
        errnos[side] = errno;
    }
    // Everything goes where it was made.
    for side in [1, 0] {
        let seat = world.take(side);
        cores.run(side, move || drop(seat));
    }
    cores.run(layout.maker, move || drop(world));
    (overlap(&lines[0], &lines[1]), errnos)
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

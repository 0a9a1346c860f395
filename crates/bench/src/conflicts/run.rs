//! Running cases.

use super::case::Case;
use super::commute::Errnos;
use super::cores::{Cores, Watch, empty_epoch};
use super::ground::{CANDIDATES, FEW_CANDIDATES, Ground, MADE, MOMENT, SETTLED};
use super::manner::Manner;
use super::world::World;
use std::sync::Arc;

/// Runs cases; `each` gets what was seen of either side.
///
/// # Errors
/// A case whose first calls do not answer what the model does.
pub fn run<W: Watch>(
    cores: &Cores,
    cases: &[(Case, Errnos)],
    manner: Manner,
    watch: W,
    mut each: impl FnMut(Case, [W::Seen; 2]),
) -> Result<(), String> {
    // Cases that share a volume, and names that are tried in each.
    let (batch, candidates) = match manner.is_lean {
        true => (1_000, FEW_CANDIDATES),
        false => (96, CANDIDATES),
    };
    for is_noatime in [false, true] {
        let these = cases.iter().filter(|it| it.0.is_noatime == is_noatime);
        let these: Vec<_> = these.collect();
        for batch in these.chunks(batch) {
            let seed = manner.layout.seed;
            let mut ground = Arc::new(Ground::new(is_noatime, seed, candidates));
            for &&(case, errnos) in batch {
                let alone = Arc::get_mut(&mut ground).expect("every state is gone");
                let base = alone.next_base();
                let (seen, found) = measure(cores, &ground, base, case, manner, watch);
                if found != errnos {
                    let wrong = format!("{case}: {found:?}, the model {errnos:?}");
                    return Err(format!("the library and the model differ: {wrong}"));
                }
                each(case, seen);
            }
        }
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

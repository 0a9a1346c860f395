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
    pub cases: Vec<(Case, [Errnos; 2])>,
    /// How they run.
    pub manner: Manner,
    is_noatime: bool,
}

/// Splits `cases` into batches, those with access times first.
pub fn batches(cases: &[(Case, [Errnos; 2])], manner: Manner) -> Vec<Batch> {
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
/// A case in which a call does not answer what the model does, or panics.
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
        let measured =
            AssertUnwindSafe(|| measure(cores, &ground, base, (case, errnos), manner, watch));
        let (seen, wrong) = catch_unwind(measured)
            .map_err(|_| format!("{case}: a step of it panics, {manner:?}"))?;
        if let Some(Wrong { side, call, errno }) = wrong {
            let expected = errnos[side];
            return Err(format!(
                "the library and the model differ: {case}: call {call} of side {side} answers \
                 {errno}, the model {expected:?}"
            ));
        }
        each(n, seen);
    }
    Ok(())
}

/// A call that did not answer what the model does.
struct Wrong {
    side: usize,
    call: usize,
    errno: i32,
}

/// What was seen of either side, and a call that answered something else than it should.
fn measure<W: Watch>(
    cores: &Cores,
    ground: &Arc<Ground>,
    base: String,
    (case, errnos): (Case, [Errnos; 2]),
    manner: Manner,
    watch: W,
) -> ([W::Seen; 2], Option<Wrong>) {
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
    let mut wrong = None;
    for (moment, side) in [layout.first, 1 - layout.first].into_iter().enumerate() {
        ground.set_time(MOMENT + moment as i64);
        let mut seat = world.take(side);
        let (seat, touched, differs) = cores.run(side, move || {
            let mut differs = None;
            let touched = watch.window(side, &mut || {
                for (n, call) in seat.calls.iter().enumerate() {
                    let answer = call.make(&seat.process, &mut seat.hands, n);
                    let errno = answer.map_or_else(|errno| errno.0, |()| 0);
                    if differs.is_none() && !errnos[side].allow(n, errno) {
                        differs = Some(Wrong {
                            side,
                            call: n,
                            errno,
                        });
                    }
                }
            });
            (seat, touched, differs)
        });
        world.put(side, seat);
        seen[side] = Some(touched);
        wrong = wrong.or(differs);
    }
    // Everything goes where it was made.
    for side in [1, 0] {
        let seat = world.take(side);
        cores.run(side, move || drop(seat));
    }
    cores.run(layout.maker, move || drop(world));
    (
        seen.map(|seen| seen.expect("both sides had their window")),
        wrong,
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

#[cfg(test)]
mod tests {
    use super::super::case::Sharing;
    use super::super::lackey::LEAN;
    use super::super::marks::Marking;
    use super::super::operation::{Dir, Name, Operation, Place, Slot};
    use super::super::verb::Verb;
    use super::*;

    #[test]
    fn an_answer_that_is_not_the_models_is_told_whichever_call_gives_it() {
        let stat = Operation {
            verb: Verb::Stat,
            on: Place {
                dir: Dir::First,
                name: Name::File,
            },
            to: None,
            slot: Slot::First,
            choice: 0,
            value: 0,
        };
        let case = Case {
            sides: [stat, stat],
            sharing: Sharing::Processes,
            is_noatime: false,
        };
        let manner = Manner { count: 3, ..LEAN };
        let cores = Cores::start().expect("two cores");
        let told = |first, again| {
            let errnos = [Errnos { first, again }; 2];
            let batch = batches(&[(case, errnos)], manner).remove(0);
            run(&cores, &batch, Marking, |_, _| {})
        };
        assert_eq!(told(0, Some(0)), Ok(()));
        assert_eq!(told(0, None), Ok(()));
        let at = |told: Result<(), String>, call: &str| {
            let wrong = told.expect_err("the model answers something else");
            assert!(wrong.contains(call), "{wrong}");
        };
        at(told(libc::ENOENT, Some(0)), "call 0 of side 0 answers 0");
        at(told(0, Some(libc::ENOENT)), "call 1 of side 0 answers 0");
    }
}

//! Running cases.

use super::case::Case;
use super::case_state::CaseState;
use super::commute::Errnos;
use super::cores::{Cores, Watch, empty_epoch};
use super::fixture::{CANDIDATES, FEW_CANDIDATES, Fixture, MADE, MOMENT, SETTLED};
use super::opts::Opts;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A batch: cases that share a volume, with the options of their run.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The cases, each with the results that the library must give.
    pub cases: Vec<(Case, [Errnos; 2])>,
    /// The options.
    pub opts: Opts,
    is_noatime: bool,
}

/// Splits `cases` into batches, those with access times first.
pub fn batches(cases: &[(Case, [Errnos; 2])], opts: Opts) -> Vec<Batch> {
    let size = if opts.is_lean { 1_000 } else { 96 };
    let mut found = Vec::new();
    for is_noatime in [false, true] {
        let these = cases.iter().filter(|it| it.0.is_noatime == is_noatime);
        let these: Vec<_> = these.copied().collect();
        found.extend(these.chunks(size).map(|cases| Batch {
            cases: cases.to_vec(),
            opts,
            is_noatime,
        }));
    }
    found
}

/// Runs a batch. `each` gets the number of a case and what was seen of either side.
///
/// # Errors
/// A case in which a call gives another result than the model, or panics.
pub fn run<W: Watch>(
    cores: &Cores,
    batch: &Batch,
    watch: W,
    mut each: impl FnMut(usize, [W::Seen; 2]),
) -> Result<(), String> {
    let opts = batch.opts;
    let candidates = match (opts.is_lean, opts.count) {
        (false, 2..) => CANDIDATES,
        _ => FEW_CANDIDATES,
    };
    let mut fixture = Arc::new(Fixture::new(
        batch.is_noatime,
        opts.layout.seed,
        candidates,
        opts.layout.setting,
    ));
    for (n, &(case, errnos)) in batch.cases.iter().enumerate() {
        let alone = Arc::get_mut(&mut fixture).expect("every state is gone");
        let base = alone.next_base();
        let measured =
            AssertUnwindSafe(|| measure(cores, &fixture, base, (case, errnos), opts, watch));
        let (seen, wrong) =
            catch_unwind(measured).map_err(|_| format!("{case}: a step of it panics, {opts:?}"))?;
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

/// A call whose result differs from the model's.
struct Wrong {
    side: usize,
    call: usize,
    errno: i32,
}

/// Returns what was seen of either side, and a call with a wrong result.
fn measure<W: Watch>(
    cores: &Cores,
    fixture: &Arc<Fixture>,
    base: String,
    (case, errnos): (Case, [Errnos; 2]),
    opts: Opts,
    watch: W,
) -> ([W::Seen; 2], Option<Wrong>) {
    let layout = opts.layout;
    fixture.set_time(MADE);
    let mut case_state = {
        let fixture = fixture.clone();
        cores.run(layout.maker, move || {
            CaseState::new(fixture, base, case, opts)
        })
    };
    for side in 0..2 {
        case_state = on(cores, side, case_state, move |case_state| {
            case_state.open_side(side)
        });
    }
    let rounds = if opts.is_lean { 1 } else { 2 };
    for side in [0, 1].repeat(rounds) {
        case_state = on(cores, side, case_state, move |case_state| {
            case_state.warm(side)
        });
    }
    fixture.set_time(SETTLED);
    for side in 0..2 {
        case_state = on(cores, side, case_state, move |case_state| {
            case_state.settle(side);
            case_state.prepare(side);
            empty_epoch();
        });
    }
    let mut seen = [None, None];
    let mut wrong = None;
    for (moment, side) in [layout.first, 1 - layout.first].into_iter().enumerate() {
        fixture.set_time(MOMENT + moment as i64);
        let mut side_state = case_state.take(side);
        let (side_state, touched, differs) = cores.run(side, move || {
            let mut differs = None;
            let touched = watch.window(side, &mut || {
                for (n, call) in side_state.calls.iter().enumerate() {
                    let answer = call.make(&side_state.process, &mut side_state.buffers, n);
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
            (side_state, touched, differs)
        });
        case_state.put(side, side_state);
        seen[side] = Some(touched);
        wrong = wrong.or(differs);
    }
    // Everything is dropped on the thread that made it.
    for side in [1, 0] {
        let side_state = case_state.take(side);
        cores.run(side, move || drop(side_state));
    }
    cores.run(layout.maker, move || drop(case_state));
    (
        seen.map(|seen| seen.expect("both sides had their window")),
        wrong,
    )
}

fn on(
    cores: &Cores,
    side: usize,
    mut case_state: CaseState,
    f: impl FnOnce(&mut CaseState) + Send + 'static,
) -> CaseState {
    cores.run(side, move || {
        f(&mut case_state);
        case_state
    })
}

#[cfg(test)]
mod tests {
    use super::super::case::Sharing;
    use super::super::lackey_trace::LEAN;
    use super::super::marks::Marking;
    use super::super::operation::{Dir, Name, Operation, Place, Slot};
    use super::super::verb::Verb;
    use super::*;

    #[test]
    fn a_result_that_differs_from_the_model_fails_in_any_call_of_a_window() {
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
        let opts = Opts { count: 3, ..LEAN };
        let cores = Cores::start().expect("two cores");
        let told = |first, again| {
            let errnos = [Errnos { first, again }; 2];
            let batch = batches(&[(case, errnos)], opts).remove(0);
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

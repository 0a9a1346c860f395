//! Instructions of one operation, by valgrind.

use super::{Wanted, wanted_of_all};
use crate::activity::Repeat;
use crate::instructions;
use crate::measure::prepare;
use crate::pinned::{allowed_cores, pin};
use crate::seeds::options::SeedOptions;
use crate::target::{Library, Sharing, Target};

/// The verb by which this program runs under valgrind.
pub const LOOPS: &str = "seeds-loops";

/// The function that is counted, as callgrind demangles it.
const COUNTED: &str = "hearth_bench::seeds::counted::instructions::in_window";

/// Repetitions that are counted, in strides.
pub(super) const STRIDES: u32 = 32;

/// Instructions of one operation of each of `wanted`.
pub fn count(wanted: &[Wanted], options: &SeedOptions) -> Result<Vec<f64>, String> {
    if cfg!(debug_assertions) {
        return Err("counts mean the release profile: cargo xtask bench seeds".to_owned());
    }
    let mut args = vec![LOOPS.to_owned()];
    if let Some(only) = &options.common.only {
        args.extend(["--only".to_owned(), only.clone()]);
    }
    let totals = instructions::totals(COUNTED, &args, wanted.len())?;
    let values = wanted.iter().zip(totals).map(|(one, total)| {
        let times = f64::from(times_of(one)?);
        Ok(total as f64 / times)
    });
    values.collect()
}

/// Runs every wanted activity; callgrind counts what `in_window` does.
///
/// # Errors
/// The library refuses.
pub fn run_loops(args: &[String]) -> Result<(), String> {
    // Counters split when a second core uses them.
    let core = *allowed_cores().first().ok_or("no core may be used")?;
    pin(core).map_err(|error| format!("core {core}: {error}"))?;
    for one in wanted_of_all(&SeedOptions::parse(args)?) {
        on_library(&one, |task| {
            let times = task.stride() * STRIDES;
            task.repeat(times)?;
            in_window(task, times)
        })?;
    }
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn in_window(task: &mut dyn Repeat, times: u32) -> Result<(), String> {
    task.repeat(times)
}

fn times_of(one: &Wanted) -> Result<u32, String> {
    on_library(one, |task| Ok(task.stride() * STRIDES))
}

fn on_library<T>(
    one: &Wanted,
    f: impl FnOnce(&mut dyn Repeat) -> Result<T, String>,
) -> Result<T, String> {
    let library = Library::new(Sharing::Processes)?;
    prepare(&library, &*one.activity, 1)?;
    let client = library.client();
    let mut task = one.activity.task(&*client, 0, 1)?;
    f(&mut *task)
}

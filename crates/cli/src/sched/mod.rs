//! `hearth sched`: the control files `.hearth/sched` and `.hearth/sched.json`, and the questions of
//! `.hearth/ask` that set weights and limits.

mod args;

pub use args::SchedArgs;

use crate::ask::ask;
use crate::control_file;
use crate::failure::Failure;
use crate::output;
use crate::quota::{learn_names_in, with_names};
use crate::which::mount_of;
use crate::wrong_place::{OWNERS, unreached};
use args::{Ceiling, SchedVerb};
use hearth_sync::primitive::thread;
use std::path::Path;
use std::time::Duration;

/// How often `--watch` prints.
const INTERVAL: Duration = Duration::from_secs(1);

/// Shows the scheduler of a mounted volume, or sets something.
pub fn run(args: &SchedArgs) -> Result<(), Failure> {
    match (&args.verb, &args.mount) {
        (Some(SchedVerb::Weight(args)), _) => {
            let (tenant, weight) = (args.tenant.0, args.weight);
            ask(&args.mount, &format!("sched weight {tenant} {weight}")).map(drop)
        }
        (Some(SchedVerb::Limit(args)), _) => {
            let mut question = format!("sched limit {}", args.tenant.0);
            let ceilings = [("iops", args.ceilings.iops), ("bw", args.ceilings.bw)];
            for (name, ceiling) in ceilings {
                if let Some(Ceiling(amount)) = ceiling {
                    let amount = amount.map_or("none".to_owned(), |amount| amount.to_string());
                    question.push_str(&format!(" {name}={amount}"));
                }
            }
            ask(&args.mount, &question).map(drop)
        }
        (None, Some(mount)) => show(mount, args.json, args.watch),
        (None, None) => show(&mount_of(None)?, args.json, args.watch),
    }
}

fn show(mount: &Path, json: bool, watch: bool) -> Result<(), Failure> {
    loop {
        let text = read(mount, json)?;
        output::print(&text)?;
        if !watch {
            return Ok(());
        }
        thread::sleep(INTERVAL);
        output::print("\n")?;
    }
}

/// What the scheduler of the volume mounted at `mount` says.
///
/// # Errors
/// It is no mount, or its control files cannot be read.
pub fn read(mount: &Path, json: bool) -> Result<String, Failure> {
    let name = if json { "sched.json" } else { "sched" };
    let text =
        control_file::read(mount, name).map_err(|error| unreached(mount, name, &error, OWNERS))?;
    if text.is_empty() {
        return Err(Failure::empty(mount));
    }
    if json {
        return Ok(text);
    }
    learn_names_in(text.lines());
    // Tenants stand at the end of their lines, so that names may be longer than numbers.
    Ok(text.lines().map(|line| with_names(line) + "\n").collect())
}

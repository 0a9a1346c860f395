//! The allocator of a daemon gives unused memory back sooner than it does by itself: of a volume
//! with little memory it would keep several times as much for a second, and of what was removed
//! before the daemon fell idle all of it, since it looks only when somebody allocates. The reasons
//! are in `docs/design/memory.md`.

use hearth::{Trimmer, Volume};
use hearth_sync::epoch;
use hearth_sync::primitive::OnceLock;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Has the allocator give back what is due, or all that is free; the library does not know which
/// allocator its program has.
static COLLECT: OnceLock<fn(bool)> = OnceLock::new();

/// Says how the allocator of this program is asked for unused memory; the first word counts.
pub fn collects_by(collect: fn(bool)) {
    let _ = COLLECT.set(collect);
}

/// A daemon that used less CPU than this since the last look is calm: nobody waits for pages that
/// it gives back and wants again.
const CALM: Duration = Duration::from_millis(50);
/// CPU time in which something worth a collection may have been freed.
const WORTH: Duration = Duration::from_millis(5);
/// One collection visits a quarter of the arenas and one more.
const PASSES: usize = 5;

/// Gives memory back that a volume and the allocator keep, by looks at a steady pace.
pub struct GiveBack {
    trimmer: Trimmer,
    /// CPU time of this process at the last look.
    seen: Duration,
    /// CPU time when everything was given back.
    done: Duration,
}

impl GiveBack {
    /// Of a process that has given everything back.
    pub fn new(volume: &Volume) -> GiveBack {
        let now = cpu_time();
        GiveBack {
            trimmer: volume.trimmer(),
            seen: now,
            done: now,
        }
    }

    /// Gives back what is due; all of it once the process is calm, and nothing if it has done
    /// nothing since.
    pub fn look(&mut self) {
        epoch::free_leftovers();
        let now = cpu_time();
        let is_calm = now.saturating_sub(self.seen) < CALM;
        if is_calm && now.saturating_sub(self.done) >= WORTH {
            self.trimmer.look(true);
            collect(true);
            self.done = cpu_time();
        } else if !is_calm {
            self.trimmer.look(false);
            (0..PASSES).for_each(|_| collect(false));
        }
        self.seen = cpu_time();
    }
}

fn collect(all: bool) {
    if let Some(collect) = COLLECT.get() {
        collect(all);
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A setting of mimalloc: a variable and its value. Who has set it knows why.
type Setting = (&'static str, &'static str);

/// A page whose blocks are all in use belongs to no thread. The thread that made it takes it again
/// when it frees the first of them, and if others free the rest the page stays with that thread,
/// idle or not: of a million files that two queues had removed up to 2 GiB did. So nobody takes
/// one, and who frees its last block frees the page.
const NOBODY_TAKES: Setting = ("MIMALLOC_PAGE_RECLAIM_ON_FREE", "-1");
/// For a volume with little memory, in milliseconds.
const SOON: Setting = ("MIMALLOC_PURGE_DELAY", "100");

/// The settings of a daemon that are not set yet.
fn missing(has_little_memory: bool) -> impl Iterator<Item = Setting> {
    let all = [Some(NOBODY_TAKES), has_little_memory.then_some(SOON)];
    let is_missing = |(name, _): &Setting| std::env::var_os(name).is_none();
    all.into_iter().flatten().filter(is_missing)
}

/// Lets a daemon that is about to be started give memory back.
pub fn gives_back(command: &mut Command, has_little_memory: bool) {
    command.envs(missing(has_little_memory));
}

/// Begins this program again with the settings, which the allocator reads at the begin. Returns if
/// it has them, or cannot begin again.
pub fn begin_again(has_little_memory: bool) {
    if missing(has_little_memory).next().is_none() {
        return;
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    let (Some((name, rest)), Ok(program)) = (args.split_first(), std::env::current_exe()) else {
        return;
    };
    let mut again = Command::new(program);
    gives_back(&mut again, has_little_memory);
    // It comes back only if it could not begin; then it goes on as it is.
    let _ = again.arg0(name).args(rest).exec();
}

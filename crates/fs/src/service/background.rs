//! Maintenance: folding and ageing of heat, reclaim, recall of quota credit that nobody uses,
//! events for grace periods that end, and averages for statistics. One task of the idle class does
//! a slice of each in turn; see `docs/design/scheduler.md`, section 14.
//!
//! Every job but folding can wait and is throttled; reclaim is not while memory grows. A pause
//! between two folds bounds what folding costs, and how much is counted and not yet folded.

use crate::heat::AgeingCursor;
use crate::superblock::{Handle, Jobs, Superblock};
use crate::throttle::CpuTimer;
use hearth_sched::{Sleep, Spec, TaskError, block_in_place, yield_now};
use hearth_sync::epoch;
use hearth_sync::primitive::Weak;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};
use std::future::{Future, poll_fn};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Between two looks at what is due.
const PERIOD: Duration = Duration::from_millis(1000);
/// The least time between the beginnings of two folds.
const PAUSE: Duration = Duration::from_millis(100);
/// Milliseconds between two passes over the quota accounts.
const SETTLES: u64 = 30_000;
/// Accounts in one slice of such a pass.
const ACCOUNTS: u32 = 64;
/// Milliseconds between two passes over the tenants of the scheduler.
const FORGETS: u64 = 60_000;
/// A tenant of the scheduler that has no settings is forgotten when unused for this long.
const UNUSED: Duration = Duration::from_secs(300);
/// Milliseconds between two passes that keep the heat which changed. A volume that ends, and a
/// sync of all of it, keep it too.
const KEEPS: u64 = 300_000;
/// Files in one slice of the look for those that a crash has lost.
const FILES: usize = 64;
/// Tenants in one slice of such a pass.
const TENANTS: usize = 64;
/// Ends of grace periods that one slice announces.
const ENDS: usize = 64;
/// Bytes that one slice of reclaim frees.
const RECLAIM: u64 = 256 << 10;
/// Steps of a sweep in one slice, however little they free.
const SWEEPS: usize = 32;
/// Slices of each job in one call of [`crate::Volume::run_background_once`].
const SLICES: usize = 64;
/// Reclaim goes on below the budget by one part in this many of it.
const SPARE: u64 = 64;

/// What [`crate::Volume::run_background_once`] does.
pub(crate) fn run_once(sb: &Superblock) {
    let before = sb.maintenance.called.lock().take();
    let mut jobs = before.unwrap_or_else(|| Jobs::new(sb.sched.handle()));
    jobs.run_due(sb);
    let other = sb.maintenance.called.lock().replace(jobs);
    drop(other);
    sb.sched.run_once();
}

/// Starts the maintenance task. It ends with the last handle of the volume.
pub(crate) fn start(sb: &Handle<Superblock>) {
    let sched = sb.sched.handle();
    let work = run(sb.downgrade(), sched.clone());
    // On the first worker's run queue; the threads of front ends have requests to serve.
    drop(sched.spawn(Spec::idle().with_key(0), work));
}

async fn run(volume: Weak<Superblock>, sched: hearth_sched::Handle) {
    let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    if let Some(sb) = volume.upgrade() {
        sb.heat.set_drainer(waker.clone());
        sb.maintenance.task.get_or_init(|| waker);
    }
    let mut jobs = Jobs::new(sched.clone());
    loop {
        let Some(sb) = volume.upgrade() else { return };
        let timer = CpuTimer::begin();
        // A panic leaves half-done work behind locks, which release on unwinding. How far the jobs
        // were is forgotten.
        let slice = catch_unwind(AssertUnwindSafe(|| jobs.run_slice(&sb)));
        let wait = slice.map_err(|payload| {
            record(&sb, TaskError::Panicked(payload));
            jobs = Jobs::new(sched.clone());
        });
        drop(sb);
        if std::mem::take(&mut jobs.freed) {
            epoch::throttle_background();
        }
        timer.count_as_own();
        match wait {
            Ok(Duration::ZERO) => yield_now().await,
            Ok(wait) => rest(sched.sleep(wait)).await,
            // A wake-up does not shorten this sleep: a job that always panics does so rarely.
            Err(()) => sched.sleep(PERIOD).await,
        }
    }
}

/// Reports the panic of a job, and obeys `errors=`.
fn record(sb: &Superblock, panic: TaskError) {
    let what = panic.message().unwrap_or("no message");
    // Standard error may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "hearth: panic in the background, which goes on in a while: {what}"
    );
    sb.record_panic(what);
}

impl Jobs {
    /// Does a slice of each job that is due. Returns how long to sleep, unless woken.
    fn run_slice(&mut self, sb: &Superblock) -> Duration {
        let wait = self.fold(sb);
        let pause = wait.unwrap_or(match sb.heat.drain_requested() {
            true => PAUSE,
            false => PERIOD,
        });
        sb.step_rates();
        // Not throttled: `docs/design/quota.md` promises when these events come.
        let all_told = sb.quotas.ledger.report_ended(ENDS);
        if wait.is_none() {
            sb.objects.clock.look();
            sb.look_for_leftovers();
            sb.tell_unsaved();
        }
        sb.maintenance.look();
        let left = self.resting.since(self.sched.now());
        if !left.is_zero() && !sb.is_behind() {
            return left.min(pause);
        }
        let timer = CpuTimer::begin();
        let mut more = self.reclaim(sb);
        more |= self.age(sb);
        more |= self.settle(sb);
        more |= self.forget(sb);
        more |= self.keep(sb);
        let rest = self.throttle.rest_after(timer.used());
        self.resting = self.sched.now() + rest;
        match more || !all_told {
            true if sb.is_behind() => Duration::ZERO,
            true => rest.min(pause),
            false => pause,
        }
    }

    /// Does up to [`SLICES`] slices of each job that is due.
    fn run_due(&mut self, sb: &Superblock) {
        sb.fold();
        sb.look_for_leftovers();
        sb.tell_unsaved();
        sb.step_rates();
        for _ in 0..SLICES {
            let all_told = sb.quotas.ledger.report_ended(ENDS);
            let mut more = self.reclaim(sb);
            more |= self.age(sb);
            more |= self.settle(sb);
            more |= self.forget(sb);
            more |= self.keep(sb);
            if all_told && !more {
                break;
            }
        }
    }

    /// Folds heat, unless the last fold began less than [`PAUSE`] ago and nothing is lost by that:
    /// then returns how long to wait.
    fn fold(&mut self, sb: &Superblock) -> Option<Duration> {
        let now = self.sched.now();
        let wait = self
            .folded
            .and_then(|last| PAUSE.checked_sub(now.since(last)))
            .filter(|_| !sb.heat.drain_is_urgent());
        if wait.is_none() {
            sb.fold();
            self.folded = Some(now);
        }
        wait
    }

    /// Reclaims a slice; true if there is more to free. It goes on to a little below the budget, so
    /// that it is not due again at once.
    fn reclaim(&mut self, sb: &Superblock) -> bool {
        sb.cache.mem_usage.lower_watermark();
        let over = sb.over_budget();
        if over > 0 {
            self.spare = sb.cache.mem_usage.budget() / SPARE;
        }
        let wanted = over + self.spare;
        if wanted == 0 {
            return false;
        }
        // The backend may block: another thread runs this queue meanwhile.
        let freed = block_in_place(|| self.sweep(sb, wanted.min(RECLAIM)));
        self.freed = freed > 0;
        self.spare = self.spare.saturating_sub(freed.saturating_sub(over));
        if freed > 0 {
            self.barren = 0;
            sb.maintenance.set_stuck(false);
        } else if self.barren >= 2 {
            // Everything is in use. The next period looks again.
            (self.barren, self.spare) = (0, 0);
            sb.maintenance.set_stuck(over > 0);
            return false;
        }
        true
    }

    fn sweep(&mut self, sb: &Superblock, bytes: u64) -> u64 {
        let mut freed = 0;
        for _ in 0..SWEEPS {
            let step = sb.sweep(bytes - freed);
            freed += step.freed;
            self.barren += u32::from(step.wrapped && !step.is_overtaken);
            sb.let_go(&step.known);
            if freed >= bytes {
                break;
            }
        }
        freed
    }

    fn age(&mut self, sb: &Superblock) -> bool {
        if self.ageing.is_none() && sb.is_ageing_due() {
            sb.heat.drain(&sb.objects);
            self.ageing = Some(AgeingCursor::default());
        }
        let Some(pass) = &mut self.ageing else {
            return false;
        };
        let goes_on = sb.heat.sweep_slice(&sb.objects, pass);
        if !goes_on {
            self.ageing = None;
        }
        goes_on
    }

    /// Recalls unused quota credit, so that a charge near a limit has few per-core words to close.
    fn settle(&mut self, sb: &Superblock) -> bool {
        if self.settling.is_none() && sb.is_settling_due() {
            self.settling = Some(0);
        }
        if let Some(from) = self.settling {
            self.settling = sb.quotas.ledger.recall_unused(from, ACCOUNTS);
        }
        self.settling.is_some()
    }

    /// Forgets tenants of the scheduler that nobody uses.
    fn forget(&mut self, sb: &Superblock) -> bool {
        if self.forgetting.is_none() && sb.is_forgetting_due() {
            self.forgetting = Some(0);
        }
        if let Some(from) = self.forgetting {
            self.forgetting = sb.sched.forget_idle(from, TENANTS, UNUSED);
        }
        self.forgetting.is_some()
    }

    /// Keeps heat that changed, and looks for files that are gone of heat that was kept.
    fn keep(&mut self, sb: &Superblock) -> bool {
        if sb.heat.has_unseen() {
            // The backend may block, as in a sweep.
            return block_in_place(|| sb.heat.look_for_lost(&sb.objects, FILES));
        }
        if sb.objects.foreign().is_some() {
            if sb.is_keeping_due() {
                block_in_place(|| sb.heat.keep_foreign(&sb.objects));
            }
            return false;
        }
        if !self.keeping && sb.is_keeping_due() {
            sb.heat.drain(&sb.objects);
            self.keeping = true;
        }
        if self.keeping {
            self.keeping = sb.heat.keep_slice(&sb.objects);
        }
        self.keeping
    }
}

/// Sleeps until the time is over or the task is woken.
async fn rest(sleep: Sleep) {
    let (mut sleep, mut slept) = (pin!(sleep), false);
    poll_fn(|context| {
        if std::mem::replace(&mut slept, true) {
            return Poll::Ready(());
        }
        sleep.as_mut().poll(context)
    })
    .await;
}

impl Superblock {
    /// Whether a pass that keeps heat should begin now.
    fn is_keeping_due(&self) -> bool {
        let keeps = self.is_durable() || self.objects.foreign().is_some();
        keeps && self.heat.has_records() && self.is_due(&self.maintenance.kept, KEEPS)
    }

    fn fold(&self) {
        let is_due = self.heat.drain_requested() || self.heat.drain_is_urgent();
        if self.heat.is_on() || is_due {
            self.heat.drain(&self.objects);
        }
    }

    fn step_rates(&self) {
        let now = self.objects.clock.monotonic();
        if self.stats.rate.0.is_due(now) {
            self.stats.rate.0.step(self.stats.operations(), now);
        }
    }

    /// Whether a pass over the accounts should begin now.
    fn is_settling_due(&self) -> bool {
        self.is_due(&self.maintenance.settled, SETTLES)
    }

    /// Whether a pass over the tenants of the scheduler should begin now.
    fn is_forgetting_due(&self) -> bool {
        self.is_due(&self.maintenance.forgot, FORGETS)
    }

    /// Whether a job that was done at `last` is due, `every` milliseconds later; if so it counts as
    /// done now. Relaxed: see `Maintenance::aged`.
    fn is_due(&self, last: &AtomicU64, every: u64) -> bool {
        let now = self.objects.clock.monotonic();
        let is_due = now.saturating_sub(last.load(Ordering::Relaxed)) >= every;
        if is_due {
            last.store(now, Ordering::Relaxed);
        }
        is_due
    }

    /// Whether an eighth of the records should age now: one interval covers a pass over all of them
    /// in eight parts.
    fn is_ageing_due(&self) -> bool {
        let now = self.objects.clock.monotonic();
        let due = self.heat.settings.interval() * 1000;
        let aged = self.maintenance.aged.load(Ordering::Relaxed);
        // Records cool and files end also while nothing is recorded.
        let is_due = self.heat.has_records() && now.saturating_sub(aged) >= due / 8;
        if is_due {
            self.maintenance.aged.store(now, Ordering::Relaxed);
        }
        is_due
    }
}

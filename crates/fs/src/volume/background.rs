//! Work that no request waits for: folding and ageing of heat, reclaim, calling credit of quotas
//! back that nobody uses, telling of grace periods that end, averages for statistics. One task of
//! the idle class, in turns of a slice of each; see docs/design/scheduler.md, 14.
//!
//! All but folding can wait, and goes at a [`Pace`]; reclaim goes on without rest while memory
//! grows. Between two folds is a pause: what is counted and not folded is bounded, and so is what
//! folding takes.

use super::pace::{Pace, Stretch};
use super::{Superblock, Volume};
use crate::heat::AgeingCursor;
use hearth_sched::{Handle, Sleep, Spec, TaskError, Time, block_in_place, yield_now};
use hearth_sync::epoch;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use hearth_sync::primitive::{OnceLock, Weak};
use std::future::{Future, poll_fn};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Between two looks at what there is to do.
const PERIOD: Duration = Duration::from_millis(1000);
/// The least between the begins of two folds.
const PAUSE: Duration = Duration::from_millis(100);
/// Milliseconds between two passes over the accounts of quotas.
const SETTLES: u64 = 30_000;
/// Accounts that one slice of such a pass looks at.
const ACCOUNTS: u32 = 64;
/// Milliseconds between two looks at who uses the scheduler.
const FORGETS: u64 = 60_000;
/// A tenant of the scheduler without settings that nobody uses for so long is forgotten.
const UNUSED: Duration = Duration::from_secs(300);
/// Tenants that one slice of such a look takes.
const TENANTS: usize = 64;
/// Ends of grace periods that one slice tells of.
const ENDS: usize = 64;
/// Bytes that one slice of reclaim wins.
const RECLAIM: u64 = 256 << 10;
/// Steps of a sweep in one slice, whatever they win.
const SWEEPS: usize = 32;
/// Slices of each chore that one call of [`Volume::run_background_once`] does.
const SLICES: usize = 64;
/// Of so many parts of the budget, one is won beyond what is too much.
const SPARE: u64 = 64;

/// What was done last, and who does it.
pub(crate) struct Background {
    /// When ageing last began, in the clock's milliseconds. Relaxed: doing it twice is harmless.
    aged: AtomicU64,
    /// When accounts were last looked at, likewise.
    settled: AtomicU64,
    /// When tenants of the scheduler were, likewise.
    forgot: AtomicU64,
    /// The last reclaim did not win what it should. Relaxed: a hint.
    stuck: AtomicBool,
    /// The task was woken for reclaim since it last looked. Relaxed: a hint.
    pressed: AtomicBool,
    task: OnceLock<Waker>,
    /// How far [`Volume::run_background_once`] is, while nobody is in it.
    called: Lock<CalledLock, Option<Chores>>,
}

lock_class! {
    /// Taken for a move only.
    CalledLock = "volume.called", 986;
}

impl Background {
    pub fn new() -> Background {
        Background {
            aged: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            forgot: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            task: OnceLock::new(),
            called: Lock::new(None),
        }
    }

    /// Memory is over its budget; false if nobody is there to win it back.
    pub fn press(&self) -> bool {
        let Some(task) = self.task.get() else {
            return false;
        };
        if !self.pressed.load(Ordering::Relaxed) && !self.pressed.swap(true, Ordering::Relaxed) {
            task.wake_by_ref();
        }
        true
    }

    /// Whether the last reclaim won all that it should.
    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Whether memory cannot be won at present: everything is in use.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }
}

impl Volume {
    /// Does what the background would do now, and returns: for programs that have no thread to
    /// spare (see [`crate::VolumeBuilder::workers`]) and call it about once a second. A call folds
    /// heat and does up to 64 slices of each chore that is due: 16 MiB of memory are won back, or
    /// 64 files that are larger, the accounts of 4,096 owners and as many tenants of the scheduler
    /// looked at, all records aged. What is left the next call goes on with. Front ends' tasks that
    /// nobody else runs get their turn as well.
    pub fn run_background_once(&self) {
        let sb = &self.sb;
        let before = sb.background.called.lock().take();
        let mut chores = before.unwrap_or_else(|| Chores::new(sb.sched.handle()));
        chores.call(sb);
        let other = sb.background.called.lock().replace(chores);
        drop(other);
        sb.sched.run_once();
    }

    /// Starts the task that does the background's work. It ends with the last handle of the
    /// volume.
    pub(super) fn start_background(&self) {
        let sched = self.sb.sched.handle();
        let work = run(self.sb.downgrade(), sched.clone());
        // With the first worker's station as its key; front ends' threads have their own to do.
        drop(sched.spawn(Spec::idle().with_key(0), work));
    }
}

async fn run(volume: Weak<Superblock>, sched: Handle) {
    let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    if let Some(sb) = volume.upgrade() {
        sb.heat.wakes(waker.clone());
        sb.background.task.get_or_init(|| waker);
    }
    let mut chores = Chores::new(sched.clone());
    loop {
        let Some(sb) = volume.upgrade() else { return };
        let stretch = Stretch::begin();
        // What a panic leaves half done is behind the core's own locks, which release on unwinding;
        // what the chores knew is forgotten.
        let turn = catch_unwind(AssertUnwindSafe(|| chores.turn(&sb)));
        let wait = turn.map_err(|payload| {
            record(&sb, TaskError::Panicked(payload));
            chores = Chores::new(sched.clone());
        });
        drop(sb);
        if std::mem::take(&mut chores.freed) {
            epoch::give_way();
        }
        stretch.count_as_own();
        match wait {
            Ok(Duration::ZERO) => yield_now().await,
            Ok(wait) => rest(sched.sleep(wait)).await,
            // A wake-up does not shorten it: what panics every time does so once in a while.
            Err(()) => sched.sleep(PERIOD).await,
        }
    }
}

/// Tells of a panic of a chore and obeys `errors=`.
fn record(sb: &Superblock, panic: TaskError) {
    let what = panic.message().unwrap_or("no message");
    // Nobody may be there to read it.
    let _ = writeln!(
        std::io::stderr(),
        "hearth: panic in the background, which goes on in a while: {what}"
    );
    sb.record_panic(what);
}

/// What is to be done, and how far it is.
struct Chores {
    sched: Handle,
    pace: Pace,
    /// Until when what can wait does.
    resting: Time,
    folded: Option<Time>,
    /// Bytes that are to be won although memory is within its budget.
    spare: u64,
    /// Memory was given back since the last look.
    freed: bool,
    /// Ends of the table that a sweep came to since it won something.
    barren: u32,
    /// The records that age next.
    ageing: Option<AgeingCursor>,
    /// The account that is looked at next.
    settling: Option<u32>,
    /// The tenant of the scheduler that is looked at next.
    forgetting: Option<usize>,
}

impl Chores {
    fn new(sched: Handle) -> Chores {
        Chores {
            pace: Pace::new(),
            resting: sched.now(),
            folded: None,
            spare: 0,
            freed: false,
            barren: 0,
            ageing: None,
            settling: None,
            forgetting: None,
            sched,
        }
    }

    /// Does a slice of everything that is due, and says when to come again, unless woken.
    fn turn(&mut self, sb: &Superblock) -> Duration {
        let wait = self.fold(sb);
        let pause = wait.unwrap_or(match sb.heat.is_pressed() {
            true => PAUSE,
            false => PERIOD,
        });
        sb.step_rates();
        // Does not wait: the page on quotas promises when it is told.
        let told = sb.ledger.tell_ended(ENDS);
        if wait.is_none() {
            sb.look_for_leftovers();
        }
        sb.background.pressed.store(false, Ordering::Relaxed);
        let left = self.resting.since(self.sched.now());
        if !left.is_zero() && !sb.is_behind() {
            return left.min(pause);
        }
        let stretch = Stretch::begin();
        let mut more = self.reclaim(sb);
        more |= self.age(sb);
        more |= self.settle(sb);
        more |= self.forget(sb);
        let rest = self.pace.rest_after(stretch.used());
        self.resting = self.sched.now() + rest;
        match more || !told {
            true if sb.is_behind() => Duration::ZERO,
            true => rest.min(pause),
            false => pause,
        }
    }

    /// Does up to [`SLICES`] slices of everything that is due.
    fn call(&mut self, sb: &Superblock) {
        sb.fold();
        sb.look_for_leftovers();
        sb.step_rates();
        for _ in 0..SLICES {
            let told = sb.ledger.tell_ended(ENDS);
            let mut more = self.reclaim(sb);
            more |= self.age(sb);
            more |= self.settle(sb);
            more |= self.forget(sb);
            if told && !more {
                break;
            }
        }
    }

    /// Folds, unless the last fold began a moment ago: then answers when to come again.
    fn fold(&mut self, sb: &Superblock) -> Option<Duration> {
        let now = self.sched.now();
        let wait = self
            .folded
            .and_then(|last| PAUSE.checked_sub(now.since(last)));
        if wait.is_none() {
            sb.fold();
            self.folded = Some(now);
        }
        wait
    }

    /// Whether there is more to win. It goes on a little below the budget, so that it is not wanted
    /// again at once.
    fn reclaim(&mut self, sb: &Superblock) -> bool {
        sb.mem_usage.lower_mark();
        let over = sb.over_budget();
        if over > 0 {
            self.spare = sb.mem_usage.budget() / SPARE;
        }
        let wanted = over + self.spare;
        if wanted == 0 {
            return false;
        }
        // The backend is written to: another thread drives the station meanwhile.
        let won = block_in_place(|| self.sweep(sb, wanted.min(RECLAIM)));
        self.freed = won > 0;
        self.spare = self.spare.saturating_sub(won.saturating_sub(over));
        if won > 0 {
            self.barren = 0;
            sb.background.set_stuck(false);
        } else if self.barren >= 2 {
            // Everything is in use. Looked at again in a while.
            (self.barren, self.spare) = (0, 0);
            sb.background.set_stuck(over > 0);
            return false;
        }
        true
    }

    fn sweep(&mut self, sb: &Superblock, bytes: u64) -> u64 {
        let mut won = 0;
        for _ in 0..SWEEPS {
            let step = sb.sweep(bytes - won);
            won += step.won;
            self.barren += u32::from(step.wrapped);
            if won >= bytes {
                break;
            }
        }
        won
    }

    fn age(&mut self, sb: &Superblock) -> bool {
        if self.ageing.is_none() && sb.is_ageing_due() {
            sb.heat.fold(sb);
            self.ageing = Some(AgeingCursor::default());
        }
        let Some(pass) = &mut self.ageing else {
            return false;
        };
        let goes_on = sb.heat.sweep_slice(sb, pass);
        if !goes_on {
            self.ageing = None;
        }
        goes_on
    }

    /// Calls back what credit of quotas nobody uses, so that a charge near a limit finds few words
    /// to close.
    fn settle(&mut self, sb: &Superblock) -> bool {
        if self.settling.is_none() && sb.is_settling_due() {
            self.settling = Some(0);
        }
        if let Some(from) = self.settling {
            self.settling = sb.ledger.settle(from, ACCOUNTS);
        }
        self.settling.is_some()
    }

    /// Forgets tenants of the scheduler that nobody uses any more.
    fn forget(&mut self, sb: &Superblock) -> bool {
        if self.forgetting.is_none() && sb.is_forgetting_due() {
            self.forgetting = Some(0);
        }
        if let Some(from) = self.forgetting {
            self.forgetting = sb.sched.forget_idle(from, TENANTS, UNUSED);
        }
        self.forgetting.is_some()
    }
}

/// Sleeps, but no longer than until the next wake-up.
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
    fn fold(&self) {
        if self.heat.is_on() || self.heat.is_pressed() {
            self.heat.fold(self);
        }
    }

    fn step_rates(&self) {
        let now = self.clock.monotonic();
        if self.stats.rate.0.is_due(now) {
            self.stats.rate.0.step(self.stats.operations(), now);
        }
    }

    /// Whether a pass over the accounts should begin now.
    fn is_settling_due(&self) -> bool {
        self.is_due(&self.background.settled, SETTLES)
    }

    /// Whether a pass over the tenants of the scheduler should begin now.
    fn is_forgetting_due(&self) -> bool {
        self.is_due(&self.background.forgot, FORGETS)
    }

    /// Whether what was `last` done so many milliseconds ago is due: then it is done now. Relaxed,
    /// as the field says.
    fn is_due(&self, last: &AtomicU64, every: u64) -> bool {
        let now = self.clock.monotonic();
        let is_due = now.saturating_sub(last.load(Ordering::Relaxed)) >= every;
        if is_due {
            last.store(now, Ordering::Relaxed);
        }
        is_due
    }

    /// Whether an eighth of the records should age now: a pass over everything in eight parts, one
    /// interval for all of them.
    fn is_ageing_due(&self) -> bool {
        let now = self.clock.monotonic();
        let due = self.heat.settings.interval() * 1000;
        let aged = self.background.aged.load(Ordering::Relaxed);
        // Records cool and files end also while nothing is recorded.
        let is_due = self.heat.has_records() && now.saturating_sub(aged) >= due / 8;
        if is_due {
            self.background.aged.store(now, Ordering::Relaxed);
        }
        is_due
    }
}

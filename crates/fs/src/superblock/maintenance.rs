//! The state of the maintenance work: what operations tell it, and the progress of its jobs.
//! `service` does the work.

use crate::heat::AgeingCursor;
use crate::throttle::Throttle;
use hearth_sched::{Handle, Time};
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::OnceLock;
use hearth_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

/// What operations and the maintenance task tell each other.
pub(crate) struct Maintenance {
    /// When ageing last began, in the clock's milliseconds. Relaxed: to age twice is harmless.
    pub aged: AtomicU64,
    /// When unused credit was last recalled. Relaxed: see `aged`.
    pub settled: AtomicU64,
    /// When unused tenants of the scheduler were last forgotten. Relaxed: see `aged`.
    pub forgot: AtomicU64,
    /// When heat that changed was last kept. Relaxed: see `aged`.
    pub kept: AtomicU64,
    /// Whether the last reclaim freed less than was wanted. Relaxed: a hint.
    stuck: AtomicBool,
    /// Whether the task was woken for reclaim since it last looked. Relaxed: a hint.
    pressed: AtomicBool,
    /// The maintenance task, once it runs.
    pub task: OnceLock<Waker>,
    /// The jobs of [`crate::Volume::run_background_once`], while no call is in progress.
    pub called: Lock<CalledLock, Option<Jobs>>,
}

lock_class! {
    /// Held only while the jobs are moved out or in.
    pub(crate) CalledLock = "volume.called", 986;
}

impl Maintenance {
    pub fn new() -> Maintenance {
        Maintenance {
            aged: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            forgot: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            pressed: AtomicBool::new(false),
            task: OnceLock::new(),
            called: Lock::new(None),
        }
    }

    /// Tells the task that memory is over its budget. Returns false if no task runs.
    pub fn press(&self) -> bool {
        let Some(task) = self.task.get() else {
            return false;
        };
        if !self.pressed.load(Ordering::Relaxed) && !self.pressed.swap(true, Ordering::Relaxed) {
            task.wake_by_ref();
        }
        true
    }

    /// Records that the task looks at memory now. The next [`Maintenance::press`] wakes it again.
    pub fn look(&self) {
        self.pressed.store(false, Ordering::Relaxed);
    }

    /// Records whether the last reclaim freed less than was wanted.
    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Whether no memory can be reclaimed at present: everything is in use.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }
}

/// The progress of the maintenance jobs.
pub(crate) struct Jobs {
    pub sched: Handle,
    pub throttle: Throttle,
    /// The time until which the jobs that can wait rest.
    pub resting: Time,
    /// When the last fold of heat began.
    pub folded: Option<Time>,
    /// Bytes to reclaim although memory is within its budget.
    pub spare: u64,
    /// Whether memory was given back since the last look.
    pub freed: bool,
    /// How many times a sweep has reached the end of the inode table since one last freed
    /// something.
    pub barren: u32,
    /// The position of the records that age next.
    pub ageing: Option<AgeingCursor>,
    /// The quota account to look at next.
    pub settling: Option<u32>,
    /// The tenant of the scheduler to look at next.
    pub forgetting: Option<usize>,
    /// Whether a pass is under way that keeps heat.
    pub keeping: bool,
}

impl Jobs {
    pub fn new(sched: Handle) -> Jobs {
        Jobs {
            throttle: Throttle::new(),
            resting: sched.now(),
            folded: None,
            spare: 0,
            freed: false,
            barren: 0,
            ageing: None,
            settling: None,
            forgetting: None,
            keeping: false,
            sched,
        }
    }
}

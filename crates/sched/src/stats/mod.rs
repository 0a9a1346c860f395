//! Statistics of the scheduler.

mod histogram;

pub use histogram::Histogram;

/// Statistics of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Realtime tasks that wait.
    pub realtime: usize,
    /// Normal tasks that wait.
    pub normal: usize,
    /// Idle tasks that wait.
    pub idle: usize,
    /// Tasks in the inbox, put there by threads that do not own this core.
    pub inbox: usize,
    /// Whether a thread owns this core.
    pub driven: bool,
    /// How often a task was picked.
    pub switches: u64,
    /// Pieces of work that were done directly, without a task.
    pub served: u64,
    /// How often this core stole.
    pub steals: u64,
    /// How many tasks it stole.
    pub stolen: u64,
    /// How many tasks were stolen from it.
    pub given: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// How long tasks ran.
    pub run: Histogram,
    /// How long tasks waited to run.
    pub wait: Histogram,
}

/// The service that one tenant got on one core, or on all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// How often a task of it ran, or a piece of its work was done directly.
    pub runs: u64,
    /// Pieces of its work that were done directly, without waiting.
    pub served: u64,
    /// How long it ran, in nanoseconds.
    pub run_ns: u64,
    /// How long its tasks waited.
    pub wait: Histogram,
}

impl Service {
    /// Adds service from elsewhere.
    pub fn merge(&mut self, other: &Service) {
        self.runs += other.runs;
        self.served += other.served;
        self.run_ns += other.run_ns;
        self.wait.merge(&other.wait);
    }

    /// Returns the wait that `share` (0 to 1) of all work does not exceed, in nanoseconds. Work
    /// that was done directly counts with a wait of zero.
    pub fn wait_quantile_ns(&self, share: f64) -> u64 {
        let (served, waited) = (self.served as f64, self.wait.count() as f64);
        let rank = (share * (served + waited)).ceil() - served;
        match rank > 0.0 {
            true => self.wait.quantile_ns((rank / waited).min(1.0)),
            false => 0,
        }
    }
}

/// Statistics of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantStats {
    /// The embedder's number for it.
    pub id: u64,
    /// Its weight.
    pub weight: u32,
    /// Its service on all cores.
    pub service: Service,
    /// Its part of the service of all these tenants so far, 0 to 1.
    pub share: f64,
    /// Tasks that it began.
    pub tasks: u64,
    /// Requests of it that threads outside the run queues were given, also where a task finishes
    /// them.
    pub given: u64,
    /// Operations charged to its rate limits.
    pub ops: u64,
    /// Bytes charged to its rate limits.
    pub bytes: u64,
    /// Sum of the delays that its rate limits imposed, in nanoseconds.
    pub throttled_ns: u64,
}

/// All statistics, at about one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Per core.
    pub cores: Vec<CoreStats>,
    /// Tenants that were served, charged or configured, without those evicted since.
    pub tenants: Vec<TenantStats>,
    /// Unfinished tasks.
    pub tasks: u64,
    /// Tasks that ended by a panic.
    pub panics: u64,
}

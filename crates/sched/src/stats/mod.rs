//! What the scheduler counts, and what it shows.

mod histogram;

pub use histogram::Histogram;

/// One core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Realtime tasks that wait.
    pub realtime: usize,
    /// Normal tasks that wait.
    pub normal: usize,
    /// Idle tasks that wait.
    pub idle: usize,
    /// Tasks put in by threads that do not drive this core, not yet looked at.
    pub inbox: usize,
    /// Whether a thread drives this core.
    pub driven: bool,
    /// How often a task was picked.
    pub switches: u64,
    /// Pieces of work that were done at once, without a task.
    pub served: u64,
    /// How often this core found tasks to steal.
    pub steals: u64,
    /// How many it stole.
    pub stolen: u64,
    /// How many were stolen from it.
    pub given: u64,
    /// How often it slept.
    pub sleeps: u64,
    /// How long tasks ran.
    pub run: Histogram,
    /// How long they waited for it.
    pub wait: Histogram,
}

/// What one tenant got on one core, or on all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// How often a task of it ran, or a piece of its work was done at once.
    pub runs: u64,
    /// Pieces of its work that were done at once: they waited for nothing.
    pub served: u64,
    /// For how long, in nanoseconds.
    pub run_ns: u64,
    /// How long its tasks waited.
    pub wait: Histogram,
}

impl Service {
    /// Adds what was got elsewhere.
    pub fn merge(&mut self, other: &Service) {
        self.runs += other.runs;
        self.served += other.served;
        self.run_ns += other.run_ns;
        self.wait.merge(&other.wait);
    }

    /// The wait that `share` (0 to 1) of all work does not exceed, in nanoseconds; what was done
    /// at once counts with a wait of zero.
    pub fn wait_quantile_ns(&self, share: f64) -> u64 {
        let (served, waited) = (self.served as f64, self.wait.count() as f64);
        let rank = (share * (served + waited)).ceil() - served;
        match rank > 0.0 {
            true => self.wait.quantile_ns((rank / waited).min(1.0)),
            false => 0,
        }
    }
}

/// One tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantStats {
    /// The embedder's number for it.
    pub id: u64,
    /// Its weight.
    pub weight: u32,
    /// What it got on all cores.
    pub service: Service,
    /// Its part of what all these tenants got so far, 0 to 1.
    pub share: f64,
    /// Tasks of it that were begun.
    pub tasks: u64,
    /// Operations charged to its rate limits.
    pub ops: u64,
    /// Bytes charged to its rate limits.
    pub bytes: u64,
    /// Sum of the delays that its rate limits imposed, in nanoseconds.
    pub throttled_ns: u64,
}

/// Everything, at about one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Per core.
    pub cores: Vec<CoreStats>,
    /// Tenants that were served, charged or set, but for those that were forgotten since.
    pub tenants: Vec<TenantStats>,
    /// Tasks that are not finished.
    pub tasks: u64,
    /// Tasks that ended by a panic.
    pub panics: u64,
}

//! Priority classes.

/// The priority class of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Strict priority, first in, first out: short work of the daemon itself.
    Realtime,
    /// Shared fairly between tenants, by weight.
    #[default]
    Normal,
    /// Background work: it gets what the other classes leave, and a small share at least.
    Idle,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 3] = [Class::Realtime, Class::Normal, Class::Idle];

    /// Returns true for work that a user waits for.
    pub fn is_user(self) -> bool {
        self != Class::Idle
    }
}

/// A queued task: what decides where it is queued.
pub trait Job {
    /// Returns its class.
    fn class(&self) -> Class;
    /// Returns the index of its tenant.
    fn tenant(&self) -> usize;
    /// Returns whether it has an affinity key, and so should run at its own run queue.
    fn is_affine(&self) -> bool;
}

/// A source of tenant weights.
pub trait Weights {
    /// Returns the weight of the tenant with this index, 1 to 10,000.
    fn weight(&self, tenant: usize) -> u32;
}

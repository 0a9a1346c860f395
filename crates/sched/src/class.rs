//! Classes: which work goes first.

/// How urgent a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Ahead of everything, first come first served: the daemon's own short work.
    Realtime,
    /// Fair between tenants by weight.
    #[default]
    Normal,
    /// Background work: what the others leave, and a small share at least.
    Idle,
}

impl Class {
    /// All classes, most urgent first.
    pub const ALL: [Class; 3] = [Class::Realtime, Class::Normal, Class::Idle];

    /// True for work that somebody waits for.
    pub fn is_user(self) -> bool {
        self != Class::Idle
    }
}

/// What is queued tells where it belongs.
pub trait Job {
    /// Its class.
    fn class(&self) -> Class;
    /// The index of its tenant.
    fn tenant(&self) -> usize;
    /// Whether it has a key, so that it should stay where it is.
    fn is_affine(&self) -> bool;
}

/// Who knows the weight of a tenant.
pub trait Weights {
    /// The weight of the tenant with this index, 1 to 10,000.
    fn weight(&self, tenant: usize) -> u32;
}

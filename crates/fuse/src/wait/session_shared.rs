//! What the request threads of a session share.

use super::Park;
use super::delayed_memory::DelayedMemory;
use super::waiting::Waiting;
use super::workers::Workers;
use crate::placement::idle_policy::IdleMonitor;
use hearth::TenantId;
use hearth::sched::{Handle, Tenant};
use hearth_sync::primitive::Arc;

/// What the request threads of a session share. Immutable; the parts have locks of their own.
pub(crate) struct SessionShared<S> {
    pub service: Arc<S>,
    /// The worker threads, with the tenant (or the system) that they work for.
    pub workers: Arc<Workers>,
    pub waiting: Arc<Waiting>,
    pub delayed: Arc<DelayedMemory>,
    pub sched: Handle,
    pub park: Park,
    /// Present with `sched_policy=auto`.
    pub idle: Option<Arc<IdleMonitor>>,
}

impl<S> SessionShared<S> {
    /// The tenant that the workers work for.
    pub fn tenant(&self) -> Tenant {
        self.sched.tenant(self.workers.tenant().number())
    }

    /// A copy whose workers work for `tenant`.
    pub fn of(&self, tenant: TenantId) -> SessionShared<S> {
        SessionShared {
            service: Arc::clone(&self.service),
            workers: Arc::new(self.workers.of(tenant)),
            waiting: Arc::clone(&self.waiting),
            delayed: Arc::clone(&self.delayed),
            sched: self.sched.clone(),
            park: self.park,
            idle: self.idle.clone(),
        }
    }
}

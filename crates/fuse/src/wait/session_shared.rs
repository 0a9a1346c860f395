//! What the threads of a session share that take requests.

use crate::placement::idle_policy::IdleMonitor;
use crate::wait::Park;
use crate::wait::waiting::Waiting;
use crate::wait::workers::Workers;
use hearth::TenantId;
use hearth::sched::{Handle, Tenant};
use hearth_sync::primitive::Arc;

/// Who answers, who helps with it, and when.
pub(crate) struct SessionShared<S> {
    pub service: Arc<S>,
    pub workers: Arc<Workers>,
    pub waiting: Arc<Waiting>,
    pub sched: Handle,
    pub park: Park,
    /// With `sched_policy=auto`.
    pub idle: Option<Arc<IdleMonitor>>,
}

impl<S> SessionShared<S> {
    /// Whose requests these are.
    pub fn tenant(&self) -> Tenant {
        self.sched.tenant(self.workers.tenant().number())
    }

    /// The same for requests of `tenant`: workers serve tenants in turn.
    pub fn of(&self, tenant: TenantId) -> SessionShared<S> {
        SessionShared {
            service: Arc::clone(&self.service),
            workers: Arc::new(self.workers.of(tenant)),
            waiting: Arc::clone(&self.waiting),
            sched: self.sched.clone(),
            park: self.park,
            idle: self.idle.clone(),
        }
    }
}

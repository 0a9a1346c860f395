//! What the threads of a session share that take requests.

use crate::options::Park;
use crate::policy::IdleWatch;
use crate::waiting::Waiting;
use crate::workers::Workers;
use hearth::TenantId;
use hearth::sched::{Handle, Tenant};
use hearth_sync::primitive::Arc;

/// Who answers, who helps with it, and when.
pub(crate) struct Hall<S> {
    pub service: Arc<S>,
    pub workers: Arc<Workers>,
    pub waiting: Arc<Waiting>,
    pub sched: Handle,
    pub park: Park,
    /// With `sched_policy=auto`.
    pub idle: Option<Arc<IdleWatch>>,
}

impl<S> Hall<S> {
    /// Whose requests these are.
    pub fn tenant(&self) -> Tenant {
        self.sched.tenant(self.workers.tenant().number())
    }

    /// The same for requests of `tenant`: workers serve tenants in turn.
    pub fn of(&self, tenant: TenantId) -> Hall<S> {
        Hall {
            service: Arc::clone(&self.service),
            workers: Arc::new(self.workers.of(tenant)),
            waiting: Arc::clone(&self.waiting),
            sched: self.sched.clone(),
            park: self.park,
            idle: self.idle.clone(),
        }
    }
}

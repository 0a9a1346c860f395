//! Work of a tenant on a thread outside the scheduler.

use crate::shared::Shared;
use crate::tenant::Tenant;
use hearth_sync::primitive::Arc;

/// A piece of work that waits or runs outside the run queues. Its tenant is not evicted while it
/// lives.
pub struct ExternalTask {
    shared: Arc<Shared>,
    tenant: Tenant,
}

impl ExternalTask {
    pub(crate) fn new(shared: &Arc<Shared>, tenant: Tenant) -> ExternalTask {
        shared.runtime.weights().begin(tenant);
        ExternalTask {
            shared: Arc::clone(shared),
            tenant,
        }
    }

    /// Returns its tenant.
    pub fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Ends the work, which used `ns` nanoseconds of processor time: they count in the tenant's
    /// share.
    pub fn finish(self, ns: u64) {
        self.shared.runtime.weights().count_run(self.tenant, ns);
    }
}

impl Drop for ExternalTask {
    fn drop(&mut self) {
        self.shared.runtime.weights().end_one(self.tenant);
    }
}

impl std::fmt::Debug for ExternalTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside")
            .field("tenant", &self.tenant)
            .finish()
    }
}

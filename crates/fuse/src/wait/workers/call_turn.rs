//! Calls on threads that are none of the pool's.

use super::{Pool, used_since};
use hearth::TenantId;
use hearth::sched::{ExternalTask, Tenant};
use hearth_sync::primitive::{Arc, thread_time};

/// A call that a thread makes which is none of the pool's, and counts as one meanwhile.
pub(crate) struct CallTurn {
    pool: Arc<Pool>,
    /// Present until it is dropped.
    outside: Option<ExternalTask>,
    /// Processor time of the thread when it began.
    begin: Option<u64>,
}

impl Drop for CallTurn {
    fn drop(&mut self) {
        if let Some(outside) = self.outside.take() {
            let (tenant, ns) = (outside.tenant(), used_since(self.begin));
            outside.finish(ns);
            self.pool.end_here(tenant, ns);
        }
    }
}

impl Pool {
    /// Counts the calling thread among those of the pool, unless work waits or may not begin.
    pub(super) fn begin_here(self: &Arc<Pool>, tenant: TenantId) -> Option<CallTurn> {
        let tenant = self.sched.tenant(tenant.number());
        let outside = self.sched.external_task(tenant);
        let mut state = self.state.lock();
        if state.closed || !state.has_room() || !state.queue.begin_here(tenant) {
            return None;
        }
        state.threads += 1;
        drop(state);
        Some(CallTurn {
            pool: Arc::clone(self),
            outside: Some(outside),
            begin: thread_time(),
        })
    }

    /// The work of a thread that was counted for it alone has ended.
    fn end_here(self: &Arc<Pool>, tenant: Tenant, ns: u64) {
        let mut state = self.state.lock();
        state.queue.finish(&self.sched, tenant, ns);
        state.threads -= 1;
        let more = state.begins_more();
        drop(state);
        self.start(more);
    }
}

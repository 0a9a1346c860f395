//! What the threads of a session share that take requests.

use crate::options::Park;
use crate::waiting::Waiting;
use crate::workers::Workers;
use hearth::sched::Handle;
use hearth_sync::primitive::Arc;

/// Who answers, who helps with it, and when.
pub(crate) struct Hall<S> {
    pub service: Arc<S>,
    pub workers: Arc<Workers>,
    pub waiting: Arc<Waiting>,
    pub sched: Handle,
    pub park: Park,
}

//! What the threads that read `/dev/fuse` have in common.

use super::dev_request::{DevRequest, finish};
use super::device::Device;
use crate::log::say;
use crate::placement::reader_admission::ReaderAdmission;
use crate::wait::outcome::Offload;
use crate::wait::service::Service;
use crate::wait::session_shared::SessionShared;
use crate::wire::InHeader;
use crate::wire::request::RawRequest;
use hearth_sync::primitive::Arc;

/// Space for a reply to anything but READ and listings, which have the size that the kernel gave
/// them.
const SMALL_REPLY: usize = 1 << 17;

/// What one reading thread needs.
pub(crate) struct Reader<S> {
    pub device: Arc<Device>,
    pub shared: Arc<SessionShared<S>>,
    /// Largest data of a request in bytes.
    pub max_write: usize,
    pub setxattr_ext: bool,
    /// The CPU to stay on, and the place among the readers of the others. `None` beside rings.
    pub place: Option<ReaderPlace>,
}

/// A reader's place among several.
pub(crate) struct ReaderPlace {
    pub cpu: usize,
    pub admission: Arc<ReaderAdmission>,
    pub number: usize,
    /// Whether other readers have the same descriptor.
    pub shares: bool,
    /// Whether it has a run queue: the second reader of a CPU has none.
    pub has_queue: bool,
}

impl<S: Service> Reader<S> {
    /// Has a worker finish a request.
    pub(super) fn offload(&self, header: &InHeader, offload: Offload) {
        let finish = finish(Arc::clone(&self.device), header.unique);
        let tenant = self.shared.service.tenant(header);
        self.shared.workers.of(tenant).submit(offload, finish);
    }

    pub(super) fn raw<'r>(&self, request: &'r [u8]) -> Option<RawRequest<'r>> {
        let raw = RawRequest::from_buffer(request, self.setxattr_ext);
        if raw.is_none() {
            let size = request.len();
            say(format_args!("{size} bytes from /dev/fuse are no request"));
        }
        raw
    }

    /// A copy of the request for a task.
    pub(super) fn pending(&self, raw: &RawRequest<'_>, request: &[u8]) -> DevRequest {
        let (device, reply_max) = (&self.device, self.reply_max());
        DevRequest::new(device, raw, request, self.setxattr_ext, reply_max)
    }

    pub(super) fn reply_max(&self) -> usize {
        self.max_write.max(SMALL_REPLY)
    }
}

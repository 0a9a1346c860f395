//! Advisory locks of an open file.

use super::open::OpenFile;
use super::run::PATIENCE;
use crate::errno::{Errno, Result};
use crate::locks::{FileLocks, Interrupt, LockKind, LockRequest, Wait};
use crate::superblock::Superblock;
use hearth_sync::epoch::{is_pinned, pin};
use hearth_sync::primitive::thread::yield_now;
use std::time::Instant;

/// The lock that conflicts with `request`, if any.
pub(crate) fn get(
    sb: &Superblock,
    file: &OpenFile,
    request: &LockRequest,
) -> Result<Option<LockRequest>> {
    let g = pin();
    Ok(file.inode(&g)?.locks(&sb.file_locks.allowance).get(request))
}

/// Takes or releases a lock. Without `wait` a conflict is `EAGAIN`; with it the calling thread
/// waits. `EDEADLK` in a callback of the library, whose end the holder may wait for.
pub(crate) fn set(
    sb: &Superblock,
    file: &OpenFile,
    request: &LockRequest,
    wait: Option<&Interrupt>,
) -> Result<()> {
    let held = {
        let g = pin();
        file.inode(&g)?.hold().ok_or(Errno::EBADF)?
    };
    // Waits without a guard: the reference keeps the inode, and so its locks.
    let locks = held.locks(&sb.file_locks.allowance);
    let mut result = match wait {
        Some(_) if is_pinned() => set_pinned(locks, request),
        _ => locks.set(
            request,
            wait.map(|interrupt| Wait {
                graph: &sb.file_locks.waits,
                interrupt: Some(interrupt),
            }),
        ),
    };
    // The last close empties the file and then takes its locks away; see `OpenFile::finish`.
    let closed = file.inode(&pin()).is_err();
    if closed && result.is_ok() && request.kind != LockKind::Unlock {
        let back = LockRequest {
            kind: LockKind::Unlock,
            ..*request
        };
        result = locks.set(&back, None);
        // In Linux a request that waited for a lock of the open file keeps that lock: it has held
        // it.
        let of_file = request.flock || request.pid == LockRequest::OFD_PID;
        if !of_file {
            result = result.and(Err(Errno::EBADF));
        }
    }
    sb.release(held, &pin());
    result
}

/// Takes a lock in a callback: whoever has it may wait for a cut, and the cut for the callback.
#[cold]
fn set_pinned(locks: &FileLocks, request: &LockRequest) -> Result<()> {
    let since = Instant::now();
    loop {
        match locks.set(request, None) {
            Err(Errno::EAGAIN) if since.elapsed() > PATIENCE => return Err(Errno::EDEADLK),
            Err(Errno::EAGAIN) => yield_now(),
            done => return done,
        }
    }
}

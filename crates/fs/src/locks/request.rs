//! Requests to the lock table of one file, and its reports.

use crate::errno::Errno;

/// The kind of lock of a request or a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
    /// Release what the owner holds in the range.
    Unlock,
}

/// A request for, or a report of, one advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The owner of the lock: a process for POSIX locks, an open file description for `flock` and
    /// OFD locks. Locks of one owner never conflict with each other.
    pub owner: u64,
    /// The process shown to others, [`LockRequest::OFD_PID`] for locks of a description.
    pub pid: u32,
    /// Shared, exclusive, or unlock.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; [`LockRequest::EOF`] (or `i64::MAX`) for "however long it grows".
    pub end: u64,
    /// A `flock(2)` lock of the whole file; the range is ignored. `flock` locks and record locks do
    /// not conflict with each other.
    pub flock: bool,
}

impl LockRequest {
    /// The `end` of a lock that reaches to the end of the file.
    pub const EOF: u64 = u64::MAX;
    /// The `pid` of locks that belong to an open file description (shown as -1 by Linux). Waiting
    /// for such a lock is never refused as a deadlock.
    pub const OFD_PID: u32 = u32::MAX;

    /// The last byte as a file offset: `i64::MAX` for a lock to the end of the file.
    pub fn end_offset(&self) -> i64 {
        i64::try_from(self.end).unwrap_or(i64::MAX)
    }

    /// The length in bytes as `struct flock` has it: 0 for a lock to the end of the file.
    pub fn length(&self) -> i64 {
        match self.end_offset() {
            i64::MAX => 0,
            end => end - self.start as i64 + 1,
        }
    }

    /// The request with one representation of "to the end", or `EINVAL` for an impossible range.
    pub(super) fn normalised(&self) -> Result<LockRequest, Errno> {
        if self.flock {
            return Ok(LockRequest {
                start: 0,
                end: LockRequest::EOF,
                ..*self
            });
        }
        if self.start > self.end || self.start > i64::MAX as u64 {
            return Err(Errno::EINVAL);
        }
        let end = if self.end >= i64::MAX as u64 {
            LockRequest::EOF
        } else {
            self.end
        };
        Ok(LockRequest { end, ..*self })
    }

    /// Whether waiting for this lock takes part in deadlock detection.
    pub(super) fn detects_deadlock(&self) -> bool {
        !self.flock && self.pid != LockRequest::OFD_PID
    }
}

//! Whether calls on a volume wait for its backend.

#![allow(
    private_bounds,
    private_interfaces,
    reason = "the trait is sealed; it names types of the core"
)]

use super::error::{Miss, MissKind, VfsError};
use crate::caller::Caller;
use crate::errno::Errno;
use crate::ops::ctx::Ctx;
use crate::superblock::{Attempt, Stop, Superblock};
use hearth_sync::epoch::Guard;

/// Calls wait for the backend, for threads that may block.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {}

/// Calls return [`VfsError::Miss`] instead of waiting, for threads that carry requests.
#[derive(Clone, Copy, Debug)]
pub enum NonBlocking {}

/// One of the two modes.
pub trait WaitMode: sealed::Run {}

impl WaitMode for Blocking {}
impl WaitMode for NonBlocking {}

pub(super) mod sealed {
    use super::*;

    /// How an operation of a volume runs.
    pub trait Run: Clone + Send + Sync + 'static {
        /// The error of a call that does not finish.
        type Error: From<Errno>;

        /// Runs an operation.
        #[allow(
            private_interfaces,
            reason = "sealed: nobody else implements or calls it"
        )]
        fn run<T>(
            sb: &Superblock,
            caller: &Caller<'_>,
            operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
        ) -> Result<T, Self::Error>;
    }
}

#[allow(
    private_interfaces,
    reason = "sealed: nobody else implements or calls it"
)]
impl sealed::Run for Blocking {
    type Error = Errno;

    #[inline]
    fn run<T>(
        sb: &Superblock,
        caller: &Caller<'_>,
        operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T, Errno> {
        sb.run(caller, operation)
    }
}

#[allow(
    private_interfaces,
    reason = "sealed: nobody else implements or calls it"
)]
impl sealed::Run for NonBlocking {
    type Error = VfsError;

    #[inline]
    fn run<T>(
        sb: &Superblock,
        caller: &Caller<'_>,
        operation: impl FnMut(&Ctx<'_>, &Guard) -> Attempt<T>,
    ) -> Result<T, VfsError> {
        sb.try_run(caller, operation).map_err(|stop| match stop {
            Stop::Errno(errno) => VfsError::Errno(errno),
            Stop::Miss(fetch) => VfsError::Miss(Miss(MissKind::Core(*fetch))),
            // `try_run` restarts by itself.
            Stop::Restart => VfsError::Errno(Errno::EAGAIN),
        })
    }
}

//! How requests reach the dispatcher, and replies the kernel.
//!
//! | module | carries |
//! |---|---|
//! | [`dev`] | everything, or beside [`uring`] FORGET, BATCH_FORGET and INTERRUPT |
//! | [`uring`] | requests of each CPU through a ring of its own |
//!
//! Locks: those of a completion queue (`uring`) and of the admission of readers (`dev`) are leaves;
//! no lock is held while a request is handled.

mod buffer;
mod completions;
pub(crate) mod dev;
mod dev_request;
pub(crate) mod device;
pub(crate) mod event;
mod free_entries;
mod kick;
pub(crate) mod queues;
mod read_loop;
pub(crate) mod reader;
mod region;
mod ring;
mod ring_command;
mod ring_request;
pub(crate) mod uring;

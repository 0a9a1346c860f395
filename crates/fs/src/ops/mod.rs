//! The operations of the filesystem: one file per family of verbs, with all of an operation's
//! control flow.
//!
//! Both front ends come here: [`crate::VolumeVfs`] with a directory's number and a name,
//! [`crate::Process`] after it walked a path. Operations get the request's
//! [`Ctx`](crate::ops::ctx::Ctx) and an epoch guard, and change nothing before they have everything
//! they need.

pub(crate) mod ancestry;
pub(crate) mod attr;
pub(crate) mod create;
pub(crate) mod ctx;
pub(crate) mod io;
pub(crate) mod ioctl;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod path;
pub(crate) mod perm;
pub(crate) mod privilege;
pub(crate) mod range;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod reserve;
pub(crate) mod run;
pub(crate) mod statfs;
pub(crate) mod xattr;

//! Extended attributes, POSIX ACLs among them.

use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::outcome::Outcome;
use crate::wire::reply::Reply;
use crate::wire::{GetxattrOut, SETXATTR_ACL_KILL_SGID, SetxattrIn};
use hearth::{Errno, KernelCache};

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn setxattr(
        &self,
        cx: &Context<'_>,
        args: &SetxattrIn,
        name: &[u8],
        value: &[u8],
    ) -> OpResult {
        let kill_sgid = args.setxattr_flags & SETXATTR_ACL_KILL_SGID != 0;
        let flags = args.flags as i32;
        self.vfs
            .setxattr(&cx.caller(0), cx.ino(), name, value, flags, kill_sgid)?;
        Ok(Outcome::Done(()))
    }

    pub(crate) fn getxattr(
        &self,
        cx: &Context<'_>,
        name: &[u8],
        size: u32,
        reply: &mut Reply<'_>,
    ) -> OpResult {
        let value = self.vfs.getxattr(&cx.caller(0), cx.ino(), name)?;
        value_or_size(&value, size, reply)
    }

    pub(crate) fn listxattr(&self, cx: &Context<'_>, size: u32, reply: &mut Reply<'_>) -> OpResult {
        let names = self.vfs.listxattr(&cx.caller(0), cx.ino())?;
        value_or_size(&names, size, reply)
    }

    pub(crate) fn removexattr(&self, cx: &Context<'_>, name: &[u8]) -> OpResult {
        self.vfs.removexattr(&cx.caller(0), cx.ino(), name)?;
        Ok(Outcome::Done(()))
    }
}

/// Size 0 asks how much room is needed.
fn value_or_size(value: &[u8], size: u32, reply: &mut Reply<'_>) -> OpResult {
    match size as usize {
        0 => reply.push(&GetxattrOut {
            size: value.len() as u32,
            padding: 0,
        })?,
        size if value.len() > size => return Err(Errno(libc::ERANGE).into()),
        _ => reply.bytes(value)?,
    }
    Ok(Outcome::Done(()))
}

//! What a file loses when it is changed: setuid and setgid where a stranger does it, file
//! capabilities whoever does.

use super::xattr::publish;
use crate::caller::Caller;
use crate::inode::{CAPABILITY, ChangeLock, Inode, Mark};
use crate::ops::ctx::Ctx;
use hearth_sync::epoch::Guard;
use hearth_sync::lock;

/// Whether a write by `caller` clears setuid and setgid. A kernel in front says so by itself.
pub(crate) fn kills_suid(caller: &Caller<'_>) -> bool {
    caller.checks() && kills_suid_untold(caller)
}

/// The same of an allocation or a copy, with which a kernel in front says nothing.
pub(crate) fn kills_suid_untold(caller: &Caller<'_>) -> bool {
    !caller.privileged()
}

/// Whether `inode` has setuid or setgid.
pub(crate) fn has_suidgid(inode: &Inode) -> bool {
    let suid = (libc::S_ISUID | libc::S_ISGID) as u16;
    inode.meta.perm() & suid != 0
}

/// Clears setuid and setgid of a file whose contents `caller` changes; whether that changed its
/// mode.
pub(crate) fn strip_suidgid(caller: &Caller<'_>, inode: &Inode) -> bool {
    if !has_suidgid(inode) {
        return false;
    }
    let kind = inode.kind();
    let mut is_changed = false;
    inode.meta.update(|fields| {
        let (member, before) = (keeps_setgid(caller, fields.gid), fields.perm);
        fields.kill_suidgid(kind, member);
        is_changed = fields.perm != before;
    });
    is_changed
}

/// Whether setgid may stay for `caller`. A kernel in front has made up its mind.
pub(crate) fn keeps_setgid(caller: &Caller<'_>, gid: u32) -> bool {
    !caller.checks() || caller.privileged() || caller.in_group(gid)
}

/// Takes the capabilities away from a file whose contents have changed.
pub(crate) fn drop_capability(cx: &Ctx<'_>, inode: &Inode, g: &Guard) {
    if inode.marks.has(Mark::Capable) {
        drop_capability_held(cx, inode, &inode.meta.change.lock(), g);
    }
}

/// The same for who holds `change`.
pub(crate) fn drop_capability_held(
    cx: &Ctx<'_>,
    inode: &Inode,
    _change: &lock::Guard<'_, ChangeLock, ()>,
    g: &Guard,
) {
    if !inode.marks.has(Mark::Capable) || cx.sb.payer(inode).is_err() {
        return;
    }
    if let Some(mut extra) = inode.extra(g).cloned()
        && extra.xattrs.remove(CAPABILITY)
    {
        publish(cx, inode, extra, None, |_| {}, g);
    }
}

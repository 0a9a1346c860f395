//! What a change of a file takes away from it: setuid and setgid if an unprivileged caller changes
//! it, file capabilities if anybody does.

use super::xattr::publish;
use crate::caller::Caller;
use crate::inode::{CAPABILITY, ChangeLock, Inode, StateBit};
use crate::ops::ctx::Ctx;
use hearth_sync::epoch::Guard;
use hearth_sync::lock;

/// Whether a write by `caller` clears setuid and setgid. A kernel in front says so with the write.
pub(crate) fn kills_suid(caller: &Caller<'_>) -> bool {
    caller.checks() && kills_suid_untold(caller)
}

/// Whether an allocation or a copy by `caller` clears setuid and setgid. A kernel in front says
/// nothing with these.
pub(crate) fn kills_suid_untold(caller: &Caller<'_>) -> bool {
    !caller.privileged()
}

/// Whether `inode` has setuid or setgid.
pub(crate) fn has_suidgid(inode: &Inode) -> bool {
    let suid = (libc::S_ISUID | libc::S_ISGID) as u16;
    inode.meta.perm() & suid != 0
}

/// Clears setuid and setgid of a file whose contents `caller` changes; true if that changed its
/// mode.
pub(crate) fn strip_suidgid(cx: &Ctx<'_>, inode: &Inode) -> bool {
    strip_unless(cx, inode, |gid| keeps_setgid(cx.caller, gid))
}

/// [`strip_suidgid`] where a kernel in front has decided nothing: setgid without group execute
/// stays for a member of the group only.
pub(crate) fn strip_suidgid_undecided(cx: &Ctx<'_>, inode: &Inode) -> bool {
    strip_unless(cx, inode, |gid| is_member(cx.caller, gid))
}

fn strip_unless(cx: &Ctx<'_>, inode: &Inode, stays: impl Fn(u32) -> bool) -> bool {
    if !has_suidgid(inode) {
        return false;
    }
    let kind = inode.kind();
    let mut is_changed = false;
    cx.sb.change_attrs(inode, |fields| {
        let (member, before) = (stays(fields.gid), fields.perm);
        fields.kill_suidgid(kind, member);
        is_changed = fields.perm != before;
    });
    is_changed
}

/// Whether setgid may stay for `caller`. A kernel in front has decided already.
pub(crate) fn keeps_setgid(caller: &Caller<'_>, gid: u32) -> bool {
    !caller.checks() || is_member(caller, gid)
}

/// Whether setgid without group execute may stay in a file that `caller` changes. Of the groups of
/// a caller behind a kernel only the first is known.
pub(crate) fn is_member(caller: &Caller<'_>, gid: u32) -> bool {
    caller.privileged() || caller.in_group(gid)
}

/// Drops the capabilities of a file whose contents have changed.
pub(crate) fn drop_capability(cx: &Ctx<'_>, inode: &Inode, g: &Guard) {
    if inode.state.has(StateBit::Capable) {
        drop_capability_held(cx, inode, &inode.meta.change.lock(), g);
    }
}

/// [`drop_capability`] for a holder of `change`.
pub(crate) fn drop_capability_held(
    cx: &Ctx<'_>,
    inode: &Inode,
    _change: &lock::LockGuard<'_, ChangeLock, ()>,
    g: &Guard,
) {
    if !inode.state.has(StateBit::Capable) || cx.sb.payer(inode).is_err() {
        return;
    }
    if let Some(mut extra) = inode.extra(g).cloned()
        && extra.xattrs.remove(CAPABILITY)
    {
        publish(cx, inode, extra, None, |_| {}, g);
    }
}

//! Advisory locks: `flock(2)` and record locks.

use crate::dispatch::closing_locks::{LONGEST, PAUSE};
use crate::dispatch::handles::Handles;
use crate::dispatch::{Context, Dispatcher, OpResult};
use crate::wait::outcome::{BlockingClass, InlineReply, Outcome, WaitFor};
use crate::wait::waiting::RequestId;
use crate::wire::reply::Reply;
use crate::wire::{FileLock, LK_FLOCK, LkIn, LkOut};
use hearth::{Errno, KernelCache, LockKind, LockRequest, VfsError, VfsFile, VfsResult};
use hearth_sync::primitive::{Arc, thread};
use std::time::Instant;

impl<V: KernelCache> Dispatcher<V> {
    pub(crate) fn getlk(&self, cx: &Context<'_>, args: &LkIn, reply: &mut Reply<'_>) -> OpResult {
        let (file, wanted) = (self.file(args.fh)?, lock_request(args)?);
        let get = || self.vfs.getlk(&file, &wanted);
        let Some(held) = self.behind_closes(cx, get, |held| matches!(held, Ok(Some(_)))) else {
            return Ok(Outcome::Wait(WaitFor::Thread));
        };
        let lk = match held? {
            Some(held) => FileLock {
                start: held.start,
                end: held.end_offset() as u64,
                kind: lock_number(held.kind),
                pid: held.pid,
            },
            None => FileLock {
                kind: lock_number(LockKind::Unlock),
                ..args.lk
            },
        };
        reply.push(&LkOut { lk })?;
        Ok(Outcome::Done(()))
    }

    /// Takes a free lock at once. A request that has to wait does so on a thread of its own, where
    /// INTERRUPT finds it.
    pub(crate) fn setlk(&self, cx: &Context<'_>, args: &LkIn, wait: bool) -> OpResult {
        let wanted = lock_request(args)?;
        let file = self.file(args.fh)?;
        let set = || self.vfs.setlk(&file, &wanted, None);
        let is_refused = |set: &VfsResult<()>| matches!(set, Err(VfsError::Errno(Errno::EAGAIN)));
        let result = match wait {
            true => set(),
            false => match self.behind_closes(cx, set, is_refused) {
                Some(result) => result,
                None => return Ok(Outcome::Wait(WaitFor::Thread)),
            },
        };
        if !wait || !is_refused(&result) {
            result?;
            remember(&self.handles, args.fh, &wanted);
            return Ok(Outcome::Done(()));
        }
        let begun = self
            .waiting
            .begin(RequestId::new(cx.header.unique, cx.header.pid));
        let begun = begun.ok_or(Errno::EINTR)?;
        let (vfs, handles, handle) = (self.vfs.clone(), Arc::clone(&self.handles), args.fh);
        Ok(Outcome::offload(BlockingClass::Wait, move || {
            let result = vfs.block_on(|vfs| vfs.setlk(&file, &wanted, Some(&begun.token)));
            drop(begun);
            result?;
            remember(&handles, handle, &wanted);
            Ok(InlineReply::default())
        }))
    }

    /// What `ask` answers, asked again while it meets locks that may be about to end. `None`: it is
    /// to be asked on a thread that may block. A holder whose children end all the time, each of
    /// which closes its descriptor, is not waited for any longer.
    fn behind_closes<R>(
        &self,
        cx: &Context<'_>,
        ask: impl Fn() -> R,
        meets: impl Fn(&R) -> bool,
    ) -> Option<R> {
        let began = Instant::now();
        loop {
            let may_end = self.handles.closing_locks().may_end(cx.ino(), Instant::now);
            let answer = ask();
            if !may_end || !meets(&answer) || began.elapsed() > LONGEST {
                return Some(answer);
            }
            match (cx.attempt.may_block, cx.attempt.again) {
                (true, _) => thread::sleep(PAUSE),
                (false, true) => return None,
                (false, false) => return Some(answer),
            }
        }
    }
}

/// Somebody has a lock through this handle, which is not released before the reply. Noted when the
/// lock is granted and not when it is requested: the file may be closed meanwhile, and the FLUSH of
/// that close comes before there is a lock to release.
fn remember<F: VfsFile>(handles: &Handles<F>, handle: u64, granted: &LockRequest) {
    let is_set = granted.kind != LockKind::Unlock;
    if granted.flock {
        handles.with(handle, |handle| handle.set_flock(is_set));
    } else if is_set {
        handles.with(handle, |handle| handle.add_lock_owner(granted.owner));
    }
}

fn lock_request(args: &LkIn) -> Result<LockRequest, Errno> {
    let kind = match args.lk.kind as i32 {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL),
    };
    Ok(LockRequest {
        owner: args.owner,
        pid: args.lk.pid,
        kind,
        start: args.lk.start,
        end: args.lk.end,
        flock: args.lk_flags & LK_FLOCK != 0,
    })
}

fn lock_number(kind: LockKind) -> u32 {
    (match kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    }) as u32
}

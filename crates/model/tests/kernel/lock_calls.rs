//! The system calls of advisory locks.

use std::mem::{size_of_val, zeroed};

use hearth_model::{Fd, LockInfo, LockKind, LockSpec, Op, Outcome};

use super::calls::{Answer, call};

/// A lock call of `fcntl`.
#[derive(Clone, Copy)]
pub enum How {
    /// `F_GETLK`
    Get,
    /// `F_SETLK`
    Set,
    /// `F_SETLKW`
    Wait,
}

/// Makes a lock call that may wait.
#[allow(
    dead_code,
    reason = "not every suite that uses this file has calls that wait"
)]
pub fn wait(op: &Op) -> Outcome {
    let done = match op {
        Op::Flock { fd, op } => {
            call(libc::SYS_flock, &[*fd as usize, *op as usize]).map(|_| Outcome::Done)
        }
        Op::SetLock { fd, lock } => record_lock(*fd, lock, How::Wait),
        other => panic!("{other:?} does not wait"),
    };
    done.unwrap_or_else(Outcome::Error)
}

pub fn record_lock(fd: Fd, lock: &LockSpec, how: How) -> Answer {
    // SAFETY: all bit patterns are valid for this plain struct.
    let mut flock: libc::flock = unsafe { zeroed() };
    flock.l_type = match lock.kind {
        LockKind::Read => libc::F_RDLCK,
        LockKind::Write => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    } as i16;
    flock.l_whence = lock.whence as i16;
    flock.l_start = lock.start;
    flock.l_len = lock.len;
    let cmd = match (lock.ofd, how) {
        (false, How::Get) => libc::F_GETLK,
        (false, How::Set) => libc::F_SETLK,
        (false, How::Wait) => libc::F_SETLKW,
        (true, How::Get) => libc::F_OFD_GETLK,
        (true, How::Set) => libc::F_OFD_SETLK,
        (true, How::Wait) => libc::F_OFD_SETLKW,
    };
    assert_eq!(
        size_of_val(&flock),
        32,
        "the kernel's struct flock of a 64-bit machine"
    );
    let arguments = [fd as usize, cmd as usize, &raw mut flock as usize];
    call(libc::SYS_fcntl, &arguments)?;
    if !matches!(how, How::Get) {
        return Ok(Outcome::Done);
    }
    let kind = match i32::from(flock.l_type) {
        libc::F_UNLCK => return Ok(Outcome::Locks(Vec::new())),
        libc::F_RDLCK => LockKind::Read,
        _ => LockKind::Write,
    };
    let end = if flock.l_len == 0 {
        i64::MAX
    } else {
        flock.l_start + flock.l_len - 1
    };
    Ok(Outcome::Locks(vec![LockInfo {
        kind,
        start: flock.l_start as u64,
        end: end as u64,
    }]))
}

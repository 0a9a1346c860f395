mod many;
mod model;
mod waiting;

use super::*;
use LockKind::{Read, Unlock, Write};

fn posix(owner: u64, kind: LockKind, start: u64, end: u64) -> LockRequest {
    LockRequest {
        owner,
        pid: owner as u32 + 1000,
        kind,
        start,
        end,
        flock: false,
    }
}

fn ofd(owner: u64, kind: LockKind, start: u64, end: u64) -> LockRequest {
    LockRequest {
        pid: LockRequest::OFD_PID,
        ..posix(owner, kind, start, end)
    }
}

fn flock(owner: u64, kind: LockKind) -> LockRequest {
    LockRequest {
        flock: true,
        ..posix(owner, kind, 0, LockRequest::EOF)
    }
}

#[test]
fn readers_share_and_a_writer_excludes() {
    let locks = FileLocks::new();
    assert_eq!(locks.set(&posix(1, Read, 0, 9), None), Ok(()));
    assert_eq!(locks.set(&posix(2, Read, 5, 20), None), Ok(()));
    assert_eq!(locks.set(&posix(3, Write, 9, 9), None), Err(Errno::EAGAIN));
    assert_eq!(locks.set(&posix(3, Write, 21, 30), None), Ok(()));
    assert_eq!(locks.set(&posix(1, Read, 30, 30), None), Err(Errno::EAGAIN));
}

#[test]
fn a_conflict_is_reported_with_its_whole_range_and_its_holder() {
    let locks = FileLocks::new();
    locks.set(&posix(1, Write, 10, 19), None).unwrap();
    locks.set(&ofd(2, Read, 30, u64::MAX), None).unwrap();
    assert_eq!(locks.get(&posix(3, Read, 0, 9)), None);
    assert_eq!(locks.get(&posix(1, Write, 0, 29)), None);
    assert_eq!(locks.get(&posix(3, Read, 30, 30)), None);
    assert_eq!(
        locks.get(&posix(3, Read, 0, 10)),
        Some(posix(1, Write, 10, 19))
    );
    assert_eq!(
        locks.get(&posix(3, Write, 25, 99)),
        Some(ofd(2, Read, 30, u64::MAX))
    );
    assert_eq!(locks.get(&posix(3, Unlock, 0, 99)), None);
}

#[test]
fn both_spellings_of_the_end_of_the_file_are_one() {
    let locks = FileLocks::new();
    locks
        .set(&posix(1, Write, 10, i64::MAX as u64), None)
        .unwrap();
    let found = locks.get(&posix(2, Read, 1 << 40, 1 << 41)).unwrap();
    assert_eq!(found, posix(1, Write, 10, LockRequest::EOF));
    assert_eq!((found.end_offset(), found.length()), (i64::MAX, 0));
    assert_eq!(posix(1, Write, 10, 19).length(), 10);
    locks
        .set(&posix(1, Unlock, 10, LockRequest::EOF), None)
        .unwrap();
    assert!(locks.is_empty());
}

#[test]
fn an_impossible_range_is_refused() {
    let locks = FileLocks::new();
    assert_eq!(locks.set(&posix(1, Read, 10, 9), None), Err(Errno::EINVAL));
    assert_eq!(
        locks.set(&posix(1, Read, 1 << 63, u64::MAX), None),
        Err(Errno::EINVAL)
    );
    assert!(locks.is_empty());
}

#[test]
fn unlocking_the_middle_splits_and_locking_it_again_merges() {
    let locks = FileLocks::new();
    let held = |owner| {
        let state = locks.shared.state.lock();
        let ranges = state.held.ranges(owner).into_iter();
        ranges
            .map(|(start, range)| (start, range.end, range.kind))
            .collect::<Vec<_>>()
    };
    locks.set(&posix(1, Write, 0, 99), None).unwrap();
    locks.set(&posix(1, Unlock, 40, 59), None).unwrap();
    assert_eq!(held(1), [(0, 39, Write), (60, 99, Write)]);
    locks.set(&posix(1, Read, 50, 69), None).unwrap();
    assert_eq!(held(1), [(0, 39, Write), (50, 69, Read), (70, 99, Write)]);
    locks.set(&posix(1, Write, 40, 69), None).unwrap();
    assert_eq!(held(1), [(0, 99, Write)]);
    locks
        .set(&posix(1, Read, 0, LockRequest::EOF), None)
        .unwrap();
    assert_eq!(held(1), [(0, LockRequest::EOF, Read)]);
}

#[test]
fn an_upgrade_needs_the_other_readers_gone_and_keeps_the_old_lock_when_refused() {
    let locks = FileLocks::new();
    locks.set(&posix(1, Read, 0, 9), None).unwrap();
    locks.set(&posix(2, Read, 0, 9), None).unwrap();
    assert_eq!(locks.set(&posix(1, Write, 0, 9), None), Err(Errno::EAGAIN));
    assert_eq!(
        locks.get(&posix(3, Write, 0, 9)),
        Some(posix(1, Read, 0, 9))
    );
    locks.release_owner(2, false);
    assert_eq!(locks.set(&posix(1, Write, 0, 9), None), Ok(()));
    assert_eq!(
        locks.get(&posix(3, Read, 0, 9)),
        Some(posix(1, Write, 0, 9))
    );
}

#[test]
fn a_refused_flock_conversion_leaves_no_lock_as_in_linux() {
    let locks = FileLocks::new();
    locks.set(&flock(1, Read), None).unwrap();
    locks.set(&flock(2, Read), None).unwrap();
    assert_eq!(
        locks.set(&flock(1, Read), None),
        Ok(()),
        "the same again is no conversion"
    );
    assert_eq!(locks.set(&flock(1, Write), None), Err(Errno::EAGAIN));
    assert_eq!(
        locks.set(&flock(2, Write), None),
        Ok(()),
        "1 has lost its lock"
    );
    assert_eq!(locks.set(&flock(2, Read), None), Ok(()));
    assert_eq!(locks.set(&flock(1, Read), None), Ok(()));
}

#[test]
fn flock_and_record_locks_do_not_see_each_other() {
    let locks = FileLocks::new();
    locks.set(&flock(1, Write), None).unwrap();
    assert_eq!(
        locks.set(&posix(2, Write, 0, LockRequest::EOF), None),
        Ok(())
    );
    assert_eq!(
        locks.get(&flock(3, Read)),
        Some(LockRequest {
            kind: Write,
            ..flock(1, Write)
        })
    );
    locks.release_owner(1, false);
    assert_eq!(locks.set(&flock(3, Read), None), Err(Errno::EAGAIN));
    locks.release_owner(1, true);
    locks.release_owner(2, true);
    assert_eq!(locks.set(&flock(3, Read), None), Ok(()));
    assert_eq!(locks.set(&posix(3, Read, 0, 0), None), Err(Errno::EAGAIN));
    locks.release_owner(2, false);
    locks.set(&flock(3, Unlock), None).unwrap();
    assert!(locks.is_empty());
}

#[test]
fn locks_of_a_process_and_of_its_description_conflict() {
    let locks = FileLocks::new();
    locks.set(&posix(1, Write, 0, 9), None).unwrap();
    assert_eq!(locks.set(&ofd(2, Read, 0, 0), None), Err(Errno::EAGAIN));
    locks.release_owner(1, false);
    locks.set(&ofd(2, Read, 0, 0), None).unwrap();
    assert_eq!(
        locks.get(&posix(1, Write, 0, 9)).unwrap().pid,
        LockRequest::OFD_PID
    );
}

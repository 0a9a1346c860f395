//! Calls that move the offset of an open file.

use super::{Fd, Process};
use crate::errno::{Errno, Result};
use crate::ops::open::{OpenFile, PositionLock};
use crate::ops::run::PATIENCE;
use hearth_sync::epoch::{is_pinned, pin};
use hearth_sync::lock::{LockGuard, lock_two};
use hearth_sync::primitive::thread::yield_now;
use hearth_sync::rcu::Shared;
use std::time::Instant;

/// The offset of `file`. Nobody waits for it pinned: its holder may wait for a cut in between, and
/// the cut for who is pinned. `EDEADLK` in a callback of the library, where the caller is pinned by
/// the call above, if the offset is in use for long: perhaps by that call.
pub(super) fn lock_position(file: &OpenFile) -> Result<Position<'_>> {
    if !is_pinned() {
        return Ok(file.position().lock());
    }
    let since = Instant::now();
    loop {
        match file.position().try_lock() {
            Some(position) => return Ok(position),
            None if since.elapsed() > PATIENCE => return Err(Errno::EDEADLK),
            None => yield_now(),
        }
    }
}

/// The offset of an open file, locked.
type Position<'f> = LockGuard<'f, PositionLock, u64>;

/// The offsets of two open files, of those that are given, in the order of the arguments. The
/// second is `None` where both are one file. `EDEADLK` as [`lock_position`].
pub(super) fn lock_positions<'f>(
    files: [Option<&'f OpenFile>; 2],
) -> Result<[Option<Position<'f>>; 2]> {
    let [Some(one), Some(other)] = files else {
        let [one, other] = files.map(|file| file.map(lock_position).transpose());
        return Ok([one?, other?]);
    };
    if !is_pinned() {
        let (first, second) = lock_two(one.position(), other.position());
        return Ok([Some(first), second]);
    }
    let first = lock_position(one)?;
    let is_same = std::ptr::eq(one, other);
    let second = (!is_same).then(|| lock_position(other)).transpose()?;
    Ok([Some(first), second])
}

impl Process {
    /// Runs `f` on the open file of `fd` and its offset, if `check` accepts the file.
    ///
    /// A long transfer holds the offset to its end, and drops its epoch guard in between so that
    /// retired memory is freed. A waiter for the offset must not hold that back either: the file is
    /// counted, as for a backend, and nothing is pinned.
    pub(super) fn with_position<R>(
        &self,
        fd: Fd,
        check: fn(&OpenFile) -> Result<&OpenFile>,
        mut f: impl FnMut(Shared<'_, OpenFile>, &mut u64) -> Result<R>,
    ) -> Result<R> {
        let g = pin();
        if !self.sb().is_durable() {
            let done = self.on(fd, &g, |file| {
                match check(file.get())?.position().try_lock() {
                    Some(mut position) if file.control().is_none() => {
                        f(file, &mut position).map(Some)
                    }
                    _ => Ok(None),
                }
            })?;
            if let Some(done) = done {
                return Ok(done);
            }
        }
        drop(g);
        self.with_counted(fd, |file| {
            let mut position = lock_position(check(file)?)?;
            f(Shared::from(file), &mut position)
        })
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;
    use crate::{Credentials, Observer, Volume};
    use hearth_sync::epoch;
    use hearth_sync::rcu::Share;
    use std::io::IoSliceMut;
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    struct Retired(Arc<AtomicBool>);

    impl Drop for Retired {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    /// Whether memory that is retired now is dropped although `waiter` has not come back.
    fn is_freed_beside(waiter: &AtomicBool) -> bool {
        let dropped = Arc::new(AtomicBool::new(false));
        epoch::retire(Box::new(Retired(dropped.clone())), &epoch::pin());
        let limit = Instant::now() + Duration::from_secs(5);
        while !dropped.load(SeqCst) && Instant::now() < limit {
            epoch::pin().flush();
            std::thread::yield_now();
        }
        dropped.load(SeqCst) && !waiter.load(SeqCst)
    }

    #[test]
    fn a_thread_that_waits_for_the_offset_holds_no_retired_memory_back() {
        let p = Volume::memory().process(Credentials::root());
        p.mkdir("/d", 0o755).expect("a new name");
        let fd = p.open("/f", libc::O_CREAT | libc::O_RDWR, 0o644);
        let dir = p.open("/d", libc::O_RDONLY, 0);
        let (fd, dir) = (fd.expect("a new name"), dir.expect("it is there"));
        let calls: [(Fd, &(dyn Fn() -> bool + Sync)); 5] = [
            (fd, &|| p.read(fd, &mut [0; 9]).is_ok()),
            (fd, &|| {
                let mut out = [0; 9];
                p.readv(fd, &mut [IoSliceMut::new(&mut out)]).is_ok()
            }),
            (fd, &|| p.write(fd, b"w").is_ok()),
            (fd, &|| p.lseek(fd, 0, libc::SEEK_CUR).is_ok()),
            (dir, &|| p.getdents(dir, &mut |_| true).is_ok()),
        ];
        for (n, (fd, call)) in calls.into_iter().enumerate() {
            let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
            let file = p.counted(fd).expect("it is open");
            let position = file.position().lock();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begun.store(true, SeqCst);
                    assert!(call(), "it is open");
                    done.store(true, SeqCst);
                });
                while !begun.load(SeqCst) {
                    std::thread::yield_now();
                }
                // Time for the other thread to begin its wait.
                sleep(Duration::from_millis(20));
                let is_freed = is_freed_beside(&done);
                drop(position);
                assert!(is_freed, "call {n} is pinned while it waits");
            });
        }
    }

    /// Takes the offset of a file for ever when something has been written, if it gets it.
    struct Thief(Share<OpenFile>);

    impl Observer for Thief {
        fn entry_changed(&self, _: u64, _: &[u8]) {}

        fn inode_changed(&self, _: u64, _: Option<Range<u64>>) {
            std::mem::forget(self.0.position().try_lock());
        }
    }

    /// Regression: a copy in a callback of the library that found an offset taken when it had
    /// copied failed with `EDEADLK`, and the offset of the source had moved.
    #[test]
    fn a_copy_has_the_offsets_that_it_moves_from_its_begin_to_its_end() {
        let volume = Volume::memory();
        let p = volume.process(Credentials::root());
        p.mkdir("/d", 0o755).expect("a new name");
        let new = |name| p.open(name, libc::O_CREAT | libc::O_RDWR, 0o644);
        let (from, to) = (new("/from").expect("new"), new("/to").expect("new"));
        p.pwrite(from, b"hello", 0).expect("room");
        let dir = p.open("/d", libc::O_RDONLY, 0).expect("it is there");
        volume.observe(Arc::new(Thief(p.counted(to).expect("it is open"))));
        let mut copied = None;
        p.getdents(dir, &mut |_| {
            copied = Some(p.copy_file_range((from, None), (to, None), 9, 0));
            false
        })
        .expect("a listing");
        assert_eq!(copied, Some(Ok(5)));
        let offset = |fd| p.lseek(fd, 0, libc::SEEK_CUR);
        assert_eq!((offset(from), offset(to)), (Ok(5), Ok(5)));
        // One description has one offset, and a range is not copied into itself.
        let itself = p.copy_file_range((from, None), (from, None), 9, 0);
        assert_eq!(itself, Ok(0));
    }
}

//! The mtimes that the kernel has cached although the files have others.
//!
//! With a writeback cache the kernel keeps the times of a regular file itself, and sends them
//! whenever it has moved one: with `rename`, `link`, `unlink` and extended attributes, for the time
//! of change. A write that it passes on (quotas, `O_APPEND` of append-only files, `direct_io`) does
//! not move its own mtime, so what it sends then is a time before the write, which is not to be
//! stored. It looks like the `utimensat` of a program that sets the mtime alone; but it is the very
//! time that the kernel was last told. With a handle it is never a program's, and may be one that
//! the kernel has made itself, of a cut or of a store through a mapping: the later one counts.
//!
//! A first write and a time that the kernel sends beside it, as `sync` makes it, have no order. The
//! write looks at the mtime and notes it, *unsettled*: a time that was stored between the look and
//! the note has found nothing to change. So it looks again before it writes, as does every other
//! write that finds the note unsettled, and settles what is seen; a time that is stored from then
//! on changes the note itself, and settles it too. No look that settles comes behind a write,
//! because the write's own had settled before. Whoever stores a time looks for the note again
//! afterwards: where a first write has made it meanwhile, its time may have been there before, so
//! the file has that of now.

use super::by_inode::ByInode;
use hearth::{SetTime, Time};
use hearth_sync::epoch;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicU64, Ordering};

lock_class!(CachedMtimesLock = "fuse.believed-times", 878);

/// Times closer together than this are the same to programs: a tick of the kernel's own clock.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// The mtimes that the kernel has cached of files whose writes it has passed on, until it forgets
/// the inode.
#[derive(Default)]
pub(crate) struct CachedMtimes {
    files: ByInode<CachedMtimesLock, Believed>,
    /// The next number of a current time that is to be stored. Relaxed: nothing else depends on it.
    owed: AtomicU64,
}

#[derive(Clone, Copy)]
struct Believed {
    time: Time,
    is_settled: bool,
    /// The kernel's time may have replaced that of a write, and the current time, which makes up
    /// for it, is not stored yet: the number of the last time that did so.
    owes_now: Option<u64>,
}

impl CachedMtimes {
    /// A first write to `ino` through a handle is about to be passed on: until now the file has the
    /// mtime that the kernel believes, unless there was another write before.
    ///
    /// # Errors
    /// Those of `mtime`, which looks.
    pub fn first_write<E>(&self, ino: u64, mtime: impl Fn() -> Result<Time, E>) -> Result<(), E> {
        if self.believed(ino).is_some_and(|known| known.is_settled) {
            return Ok(());
        }
        let time = mtime()?;
        let is_settled = self.files.with(ino, |times| {
            let new = Believed {
                is_settled: false,
                ..Believed::told(time)
            };
            times.entry(ino).or_insert(new).is_settled
        });
        if !is_settled {
            let time = mtime()?;
            self.change(ino, |known| {
                if !known.is_settled {
                    (known.time, known.is_settled) = (time, true);
                }
            });
        }
        Ok(())
    }

    /// Has `store` store an mtime of the kernel's own: with a write that was passed on the later
    /// one counts.
    ///
    /// # Errors
    /// Those of `store`. The caller may try again: a current time that is still to be stored is
    /// remembered.
    pub fn settle<R, E>(
        &self,
        ino: u64,
        time: Time,
        store: impl Fn(SetTime) -> Result<R, E>,
    ) -> Result<R, E> {
        let knew = self.knows(ino);
        let stored = store(match knew {
            true => SetTime::NoEarlier(time),
            false => SetTime::At(time),
        })?;
        // Relaxed: see the field.
        let own = (!knew).then(|| self.owed.fetch_add(1, Ordering::Relaxed));
        // Not before: what the kernel believes already is not stored.
        self.change(ino, |known| {
            *known = Believed {
                owes_now: own.or(known.owes_now),
                ..Believed::told(time)
            };
        });
        let owed = self.believed(ino).and_then(|known| known.owes_now);
        if owed.is_none() {
            return Ok(stored);
        }
        let stored = store(SetTime::Now)?;
        self.change(ino, |known| {
            // Another time may have replaced this current one as well.
            if known.owes_now == owed {
                known.owes_now = None;
            }
        });
        Ok(stored)
    }

    /// Whether writes to `ino` were passed on.
    pub fn knows(&self, ino: u64) -> bool {
        self.believed(ino).is_some()
    }

    /// The mtime that the kernel believes of such a file.
    pub fn get(&self, ino: u64) -> Option<Time> {
        self.believed(ino).map(|known| known.time)
    }

    /// Whether that is so, and the kernel believes that it has this time. False while the current
    /// time is still to be stored, so that what the kernel sends is settled again.
    pub fn has(&self, ino: u64, time: Time) -> bool {
        let known = self.believed(ino);
        known.is_some_and(|known| known.time == time && known.owes_now.is_none())
    }

    /// The kernel knows that `ino` has this time.
    pub fn set(&self, ino: u64, time: Time) {
        self.change(ino, |known| *known = Believed::told(time));
    }

    /// A FORGET of the inode was counted. The kernel may have found it again before it said this of
    /// an earlier time, and may have written since; so `is_known`, whether it has the inode, is
    /// asked under the lock.
    pub fn forgotten(&self, ino: u64, is_known: impl FnOnce() -> bool) {
        if self.files.may_know(ino) {
            // Garbage of the core is not collected under the lock.
            let _pinned = epoch::pin();
            self.files.with(ino, |times| {
                if times.contains_key(&ino) && !is_known() {
                    times.remove(&ino);
                }
            });
        }
    }

    fn believed(&self, ino: u64) -> Option<Believed> {
        match self.files.may_know(ino) {
            true => self.files.with(ino, |times| times.get(&ino).copied()),
            false => None,
        }
    }

    fn change(&self, ino: u64, change: impl FnOnce(&mut Believed)) {
        if self.files.may_know(ino) {
            self.files.with(ino, |times| {
                times.entry(ino).and_modify(change);
            });
        }
    }
}

impl Believed {
    /// The kernel has said or seen so.
    fn told(time: Time) -> Believed {
        Believed {
            time,
            is_settled: true,
            owes_now: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::convert::Infallible;

    const INO: u64 = 7;

    fn second(sec: i64) -> Time {
        Time { sec, nsec: 5 }
    }

    /// A file that is written and has times stored; each does something else first, or afterwards,
    /// if it is its turn.
    struct Timed {
        believed: CachedMtimes,
        mtime: Cell<Time>,
        /// How many steps until the turn of what is beside it.
        steps: Cell<u32>,
        beside: RefCell<Option<fn(&Timed)>>,
    }

    impl Timed {
        /// Of second 1. `beside` is done after so many steps.
        fn new(steps: u32, beside: fn(&Timed)) -> Timed {
            Timed {
                believed: CachedMtimes::default(),
                mtime: Cell::new(second(1)),
                steps: Cell::new(steps),
                beside: RefCell::new(Some(beside)),
            }
        }

        fn step(&self) {
            let steps = self.steps.get();
            self.steps.set(steps.saturating_sub(1));
            let beside = match steps {
                0 => self.beside.take(),
                _ => None,
            };
            if let Some(beside) = beside {
                beside(self);
            }
        }

        /// A first write, in second 3.
        fn write(&self) {
            let look = || {
                self.step();
                let seen = self.mtime.get();
                self.step();
                Ok::<_, Infallible>(seen)
            };
            self.believed.first_write(INO, look).unwrap();
            self.step();
            self.mtime.set(self.mtime.get().max(second(3)));
            self.step();
        }

        /// The kernel sends a time of its own, second 2, in second 4.
        fn settle(&self) {
            let store = |time| {
                self.step();
                self.mtime.set(match time {
                    SetTime::Now => second(4),
                    SetTime::At(time) => time,
                    SetTime::NoEarlier(time) => self.mtime.get().max(time),
                });
                self.step();
                Ok::<_, Infallible>(())
            };
            self.believed.settle(INO, second(2), store).unwrap();
            self.step();
        }

        fn is_right(&self, what: &str) {
            assert!(self.mtime.get() >= second(3), "{what}: the write's time");
            assert!(self.believed.has(INO, second(2)), "{what}: what was sent");
        }
    }

    /// Once, a time that was stored between the look of a first write and its note was not the one
    /// that the kernel was known to believe, and one that was stored behind the write took its time
    /// away.
    #[test]
    fn a_first_write_and_a_time_of_the_kernel_need_no_order() {
        for steps in 0..7 {
            let file = Timed::new(steps, Timed::settle);
            file.write();
            file.step();
            file.is_right(&format!("sent after {steps} steps of the write"));
            let file = Timed::new(steps, Timed::write);
            file.settle();
            (0..4).for_each(|_| file.step());
            file.is_right(&format!("written after {steps} steps of what is sent"));
        }
    }

    /// Once tried: the second look of one took the time of another's write for what is believed.
    #[test]
    fn two_first_writes_believe_what_was_before_both() {
        for steps in 0..7 {
            let file = Timed::new(steps, Timed::write);
            file.write();
            (0..2).for_each(|_| file.step());
            let believed = file.believed.get(INO);
            assert_eq!(believed, Some(second(1)), "after {steps} steps");
        }
    }

    #[test]
    fn what_was_told_before_the_first_write_is_believed_until_something_else_is_said() {
        let believed = CachedMtimes::default();
        let [one, two, three] = [1, 2, 3].map(second);
        believed.set(INO, one);
        assert!(
            !believed.has(INO, one) && !believed.knows(INO),
            "no write was passed on"
        );
        for time in [one, two] {
            let look = || Ok::<_, Infallible>(time);
            believed.first_write(INO, look).unwrap();
        }
        assert!(believed.has(INO, one) && !believed.has(INO, two));
        believed.set(INO, three);
        assert!(believed.has(INO, three) && !believed.has(INO, one));
        assert!(!believed.has(8, three));
        believed.forgotten(INO, || true);
        assert!(believed.has(INO, three), "it was found again");
        believed.forgotten(INO, || false);
        assert!(!believed.has(INO, three));
    }

    /// Once, it was noted before, so that the second attempt found that it was believed already,
    /// and stored nothing.
    #[test]
    fn what_could_not_be_stored_is_not_believed() {
        let believed = CachedMtimes::default();
        let look = || Ok::<_, Infallible>(second(1));
        believed.first_write(INO, look).unwrap();
        let refused = believed.settle(INO, second(2), |_| Err::<(), _>("it is fetched"));
        assert!(refused.is_err() && !believed.has(INO, second(2)));
    }

    /// Once, a store that found the inode evicted was tried again as one behind a known write, and
    /// the time of a write that had come beside the first store was lost.
    #[test]
    fn a_write_beside_a_store_keeps_its_time_when_the_store_is_tried_again() {
        let file = Timed::new(0, Timed::write);
        let attempt = |refuses_now: bool| {
            file.believed.settle(INO, second(2), |time| {
                file.step();
                let time = match time {
                    SetTime::Now if refuses_now => return Err("it is fetched"),
                    SetTime::Now => second(4),
                    SetTime::At(time) => time,
                    SetTime::NoEarlier(time) => file.mtime.get().max(time),
                };
                file.mtime.set(time);
                Ok(())
            })
        };
        for _ in 0..2 {
            assert!(attempt(true).is_err());
            assert!(!file.believed.has(INO, second(2)), "it would not be stored");
        }
        assert_eq!(attempt(false), Ok(()));
        file.is_right("tried again");
    }

    /// Once, a current time that was stored counted for the time of a write that another time of
    /// the kernel's had replaced behind it.
    #[test]
    fn a_current_time_makes_up_for_what_was_replaced_before_it_only() {
        let believed = CachedMtimes::default();
        let mtime = std::sync::Mutex::new(second(1));
        let set = |to: Time| *mtime.lock().unwrap() = to;
        let (begin, begun) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (believed, set) = (&believed, &set);
        let behind = move || {
            believed.settle(INO, second(2), |time| match time {
                SetTime::Now => Err("it is fetched"),
                SetTime::At(time) | SetTime::NoEarlier(time) => {
                    begin.send(()).unwrap();
                    gone.recv().unwrap();
                    set(time);
                    Ok(())
                }
            })
        };
        std::thread::scope(|scope| {
            let behind = std::cell::RefCell::new(Some(scope.spawn(behind)));
            begun.recv().unwrap();
            let first = believed.settle(INO, second(2), |time| {
                if time != SetTime::Now {
                    let look = || Ok::<_, Infallible>(second(1));
                    believed.first_write(INO, look).unwrap();
                    set(second(3));
                    return Ok::<_, &str>(());
                }
                set(second(4));
                go.send(()).unwrap();
                let other = behind.borrow_mut().take().expect("once");
                assert_eq!(other.join().unwrap(), Err("it is fetched"));
                Ok(())
            });
            assert_eq!(first, Ok(()));
        });
        assert_eq!(
            *mtime.lock().unwrap(),
            second(2),
            "the write's time is gone"
        );
        assert!(
            !believed.has(INO, second(2)),
            "it would not be stored again"
        );
        believed
            .settle(INO, second(2), |time| {
                set(if time == SetTime::Now {
                    second(5)
                } else {
                    second(2)
                });
                Ok::<_, &str>(())
            })
            .unwrap();
        assert_eq!(*mtime.lock().unwrap(), second(5));
    }
}

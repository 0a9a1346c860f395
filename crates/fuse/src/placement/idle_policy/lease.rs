//! How long a thread that has the policy `SCHED_IDLE` keeps it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The wait that is allowed for each turn of the thread. It takes its client's place, so it waits
/// until the client sleeps.
pub(super) const USUAL: Duration = Duration::from_micros(20);
/// Besides, the thread may have waited one part in this many of the time since the last look.
const PART: u32 = 8;
/// The number of consecutive looks at a thread that waits and has not run after which it counts as
/// delayed.
const STUCK: u32 = 2;
/// A thread that has had no work for this long does not need the policy.
const QUIET: Duration = Duration::from_millis(100);
/// The length of the rest after the first delay, and the longest rest.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(64);
/// The state of a thread in its `stat`, behind its name.
const RUNNABLE: &[u8] = b" R";

/// The kernel's counts for a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub ran: Duration,
    /// Time that the thread was ready to run before it ran. A wait in progress is not included.
    pub waited: Duration,
    /// Number of times that the thread was given a CPU.
    pub turns: u64,
    /// The part of `waited` that kept nobody waiting. The thread itself reports it, a little after
    /// the kernel has counted the wait.
    pub excused: Duration,
}

impl Reading {
    fn is_as(&self, other: &Reading) -> bool {
        let counted = |of: &Reading| (of.ran, of.waited, of.turns);
        counted(self) == counted(other)
    }
}

/// The files of a thread of this process; proc(5).
pub(super) struct Files {
    schedstat: File,
    stat: File,
}

impl Files {
    /// # Errors
    /// There is no such thread, or the kernel does not count how long threads wait.
    pub fn of(thread: libc::pid_t) -> io::Result<Files> {
        let open = |name| File::open(format!("/proc/self/task/{thread}/{name}"));
        let files = Files {
            schedstat: open("schedstat")?,
            stat: open("stat")?,
        };
        match files.read()? {
            // This thread has run, so 0 means that nothing is counted.
            Reading { turns: 0, .. } => Err(io::ErrorKind::Unsupported.into()),
            _ => Ok(files),
        }
    }

    pub fn read(&self) -> io::Result<Reading> {
        let mut text = [0; 128];
        let size = self.schedstat.read_at(&mut text, 0)?;
        parse(&text[..size]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the thread runs or waits for a processor.
    pub fn is_runnable(&self) -> io::Result<bool> {
        let mut text = [0; 64];
        let size = self.stat.read_at(&mut text, 0)?;
        Ok(is_runnable(&text[..size]))
    }
}

/// Nanoseconds run, nanoseconds waited, times run.
fn parse(schedstat: &[u8]) -> Option<Reading> {
    let text = std::str::from_utf8(schedstat).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some(Reading {
        ran: Duration::from_nanos(next()?),
        waited: Duration::from_nanos(next()?),
        turns: next()?,
        excused: Duration::ZERO,
    })
}

/// The name of a thread is in parentheses and may have any bytes in it.
fn is_runnable(stat: &[u8]) -> bool {
    let end = stat.iter().rposition(|&byte| byte == b')');
    end.is_some_and(|end| stat[end + 1..].starts_with(RUNNABLE))
}

/// The result of a look at a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The thread runs when it has work.
    Well,
    /// The thread has had nothing to do for a while.
    Quiet,
    /// Others may keep the thread from its work. The next look decides.
    Stuck,
    /// Others keep the thread from its work.
    Delayed,
}

/// What is observed of a thread from the moment that it gets the policy.
pub(super) struct Lease {
    /// The time of the last look, and its reading.
    seen: (Instant, Reading),
    /// The last look that found that the thread had run.
    still: Instant,
    /// Consecutive looks at which the thread waited and had not run.
    stuck: u32,
}

impl Lease {
    pub fn begin(now: Instant, reading: Reading) -> Lease {
        Lease {
            seen: (now, reading),
            still: now,
            stuck: 0,
        }
    }

    /// Judges the thread by a new reading. `is_kept` returns whether the thread is ready to run and
    /// has something to do. It is called only if the kernel's counts have not changed since the
    /// last look.
    pub fn look(
        &mut self,
        now: Instant,
        reading: Reading,
        is_kept: impl FnOnce() -> bool,
    ) -> Verdict {
        let (then, before) = std::mem::replace(&mut self.seen, (now, reading));
        if reading.is_as(&before) {
            let is_kept = is_kept();
            self.stuck = if is_kept { self.stuck + 1 } else { 0 };
            let is_quiet = !is_kept && now.saturating_duration_since(self.still) >= QUIET;
            return match self.stuck {
                STUCK.. => Verdict::Delayed,
                1.. => Verdict::Stuck,
                _ if is_quiet => Verdict::Quiet,
                _ => Verdict::Well,
            };
        }
        (self.still, self.stuck) = (now, 0);
        let turns = u32::try_from(reading.turns.saturating_sub(before.turns)).unwrap_or(u32::MAX);
        // An excuse comes after its wait, so the wait may lie before the last look. The reverse
        // never lasts long. An excess of excuses is therefore not kept for later delays.
        let excused = reading.excused.saturating_sub(before.excused);
        let waited = reading.waited.saturating_sub(before.waited);
        let waited = waited.saturating_sub(excused);
        let fair = USUAL.saturating_mul(turns) + now.saturating_duration_since(then) / PART;
        if waited > fair {
            Verdict::Delayed
        } else {
            Verdict::Well
        }
    }
}

/// The rests of a delayed thread, in which it does not have the policy. Each rest is longer than
/// the last one, unless the time since the last one ended is at least its length.
#[derive(Default)]
pub(super) struct Rest {
    last: Option<(Duration, Instant)>,
}

impl Rest {
    /// Begins a rest now. Returns when it ends.
    pub fn begin(&mut self, now: Instant) -> Instant {
        let length = match self.last {
            Some((length, end)) if now.saturating_duration_since(end) < length => {
                (length * 2).min(LONGEST_REST)
            }
            _ => FIRST_REST,
        };
        let end = now + length;
        self.last = Some((length, end));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::cpu;

    const MS: Duration = Duration::from_millis(1);

    fn reading(ran: Duration, waited: Duration, turns: u64) -> Reading {
        Reading {
            ran,
            waited,
            turns,
            excused: Duration::ZERO,
        }
    }

    #[test]
    fn what_the_kernel_writes_of_a_thread_is_read() {
        let expected = reading(Duration::from_nanos(12), Duration::from_nanos(3), 4);
        assert_eq!(parse(b"12 3 4\n"), Some(expected));
        assert_eq!(parse(b"12 3"), None);
        assert_eq!(parse(b"12 x 4"), None);
        assert!(is_runnable(b"7 (a) S) R 1 7"));
        assert!(!is_runnable(b"7 (a) R) S 1 7"));
        assert!(!is_runnable(b""));
    }

    #[test]
    fn the_calling_thread_has_run_and_is_runnable() {
        let own = Files::of(cpu::this_thread()).unwrap();
        assert!(own.read().unwrap().turns > 0 && own.is_runnable().unwrap());
        // Above any thread.
        assert!(Files::of(1 << 30).is_err());
    }

    #[test]
    fn who_waits_no_longer_than_for_his_client_does_well() {
        let start = Instant::now();
        let mut lease = Lease::begin(start, reading(MS, MS, 10));
        let usual = reading(MS * 3, MS + USUAL * 100, 110);
        assert_eq!(lease.look(start + MS * 4, usual, || true), Verdict::Well);
        // An eighth of 16 ms besides.
        let more = reading(MS * 4, usual.waited + MS * 2, 110);
        assert_eq!(lease.look(start + MS * 20, more, || true), Verdict::Well);
        let most = reading(MS * 4, more.waited + USUAL * 3 + MS * 2, 112);
        assert_eq!(lease.look(start + MS * 36, most, || true), Verdict::Delayed);
    }

    #[test]
    fn what_is_excused_is_excused_once() {
        let start = Instant::now();
        let mut lease = Lease::begin(start, reading(MS, MS, 10));
        let away = Reading {
            excused: MS * 50,
            ..reading(MS * 2, MS * 51, 11)
        };
        assert_eq!(lease.look(start + MS * 60, away, || true), Verdict::Well);
        // More than was waited, as the measuring of it has it.
        let more = Reading {
            excused: MS * 1050,
            ..reading(MS * 3, MS * 52, 12)
        };
        assert_eq!(lease.look(start + MS * 70, more, || true), Verdict::Well);
        let delayed = Reading {
            waited: MS * 60,
            turns: 13,
            ..more
        };
        assert_eq!(
            lease.look(start + MS * 80, delayed, || true),
            Verdict::Delayed
        );
    }

    #[test]
    fn who_waits_and_never_runs_is_delayed_although_nothing_is_counted() {
        let start = Instant::now();
        let same = reading(MS, MS, 10);
        let mut lease = Lease::begin(start, same);
        assert_eq!(lease.look(start + MS * 2, same, || true), Verdict::Stuck);
        assert_eq!(lease.look(start + MS * 4, same, || false), Verdict::Well);
        assert_eq!(lease.look(start + MS * 6, same, || true), Verdict::Stuck);
        // It was said late.
        let excused = Reading {
            excused: MS,
            ..same
        };
        assert_eq!(
            lease.look(start + MS * 8, excused, || true),
            Verdict::Delayed
        );
    }

    #[test]
    fn who_has_nothing_to_do_is_quiet_after_a_while() {
        let start = Instant::now();
        let same = reading(MS, MS, 10);
        let mut lease = Lease::begin(start, same);
        assert_eq!(
            lease.look(start + QUIET - MS, same, || false),
            Verdict::Well
        );
        let ran = reading(MS * 2, MS, 11);
        assert_eq!(lease.look(start + QUIET, ran, || false), Verdict::Well);
        let later = start + QUIET * 2;
        assert_eq!(lease.look(later - MS, ran, || false), Verdict::Well);
        assert_eq!(lease.look(later, ran, || false), Verdict::Quiet);
    }

    #[test]
    fn rests_grow_until_there_was_none_for_as_long() {
        let (mut rest, mut now) = (Rest::default(), Instant::now());
        for length in [1, 2, 4, 8, 16, 32, 64, 64].map(|times| FIRST_REST * times) {
            let end = rest.begin(now);
            assert_eq!(end - now, length);
            now = end + length - MS;
        }
        let end = rest.begin(now + MS);
        assert_eq!(end - now, FIRST_REST + MS);
    }
}

//! The thread that looks where clients are, and seats the readers nearby.
//!
//! It carries no requests, because looking may wait: the kernel does not tell of a process in the
//! middle of `exec`, and that may be waiting for an answer of this very mount.

use super::reader_admission::{Last, Origin, ReaderAdmission};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Between two looks while clients move, and while they stay where they are.
const SHORT: Duration = Duration::from_micros(500);
const LONG: Duration = Duration::from_millis(4);
/// Whoever is the only one that long is taken to be alone. A look sees the last request of each
/// reader, so that of several clients it may see one only.
const ALONE: Duration = Duration::from_millis(10);
/// Looks without a request after which the lookout rests.
const QUIET: u32 = 10;
/// Index of the CPU among the fields of `stat` behind the name of the thread.
const CPU_FIELD: usize = 36;

/// Looks until the mount is gone.
pub(crate) fn look_out(seats: &ReaderAdmission) {
    let mut views: Vec<View> = seats.last().map(|_| View::default()).collect();
    let mut origins = Vec::with_capacity(views.len());
    let mut company = Company::default();
    let (mut quiet, mut pause) = (0, SHORT);
    while seats.pause((quiet < QUIET).then_some(pause)) {
        let now = Instant::now();
        let mut is_quiet = true;
        for ((last, client), view) in seats.last().zip(&mut views) {
            is_quiet &= view.seen == Some(last);
            if let Some((client, origin)) = view.origin(last, client) {
                company.saw(client, now);
                origins.push(origin);
            }
        }
        pause = match seats.saw(&origins, company.is_alone(now), now) {
            true => SHORT,
            false => LONG.min(pause * 2),
        };
        // Also a request that tells of no client: it would rouse the lookout again.
        quiet = if is_quiet { quiet + 1 } else { 0 };
        origins.clear();
    }
}

/// Whether there is more than one client.
#[derive(Default)]
struct Company {
    /// The last one seen, and since when there is no other.
    only: Option<(u32, Instant)>,
}

impl Company {
    fn saw(&mut self, client: u32, now: Instant) {
        if self.only.is_none_or(|(only, _)| only != client) {
            self.only = Some((client, now));
        }
    }

    fn is_alone(&self, now: Instant) -> bool {
        let since = self.only.map(|(_, since)| since);
        since.is_some_and(|since| now.saturating_duration_since(since) >= ALONE)
    }
}

/// What is known of one reader's clients.
#[derive(Default)]
struct View {
    seen: Option<Last>,
    /// The last client, and its `stat`.
    client: Option<(u32, File)>,
}

impl View {
    /// Whose the reader's last request was, and where it came from, if that is news.
    fn origin(&mut self, last: Last, client: Option<u32>) -> Option<(u32, Origin)> {
        if self.seen.replace(last) == Some(last) {
            return None;
        }
        let id = client?;
        let cpu = match Last::is_for_everybody(id) {
            true => None,
            false => self.cpu_of(id),
        };
        Some((id, cpu.map_or(Origin::Anywhere, Origin::Cpu)))
    }

    fn cpu_of(&mut self, thread: u32) -> Option<usize> {
        if self.client.as_ref().is_none_or(|(id, _)| *id != thread) {
            let path = format!("/proc/{thread}/task/{thread}/stat");
            self.client = File::open(path).ok().map(|stat| (thread, stat));
        }
        let (_, stat) = self.client.as_ref()?;
        // Longer than any: some 50 numbers.
        let mut text = [0; 1024];
        let size = stat.read_at(&mut text, 0).ok()?;
        parse_cpu(&text[..size])
    }
}

/// The name of the thread is in parentheses and may have any bytes in it.
fn parse_cpu(stat: &[u8]) -> Option<usize> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(CPU_FIELD)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::cpu;
    use hearth_sync::primitive::thread;

    #[test]
    fn a_client_is_found_on_the_cpu_that_it_is_pinned_to() {
        for cpu in cpu::online() {
            let client = thread::spawn(move || {
                cpu::pin(cpu);
                // SAFETY: both take nothing.
                let (here, id) = unsafe { (libc::sched_getcpu(), libc::gettid() as u32) };
                // Where pinning is forbidden, nothing can be said.
                here != cpu as i32 || View::default().cpu_of(id) == Some(cpu)
            });
            assert!(client.join().unwrap(), "cpu {cpu}");
        }
    }

    #[test]
    fn the_name_of_a_thread_may_look_like_the_end_of_a_name() {
        let fields: Vec<_> = (0..50).map(|n| n.to_string()).collect();
        let stat = format!("7 (a) 1 2) {}\n", fields.join(" "));
        assert_eq!(parse_cpu(stat.as_bytes()), Some(CPU_FIELD));
        assert_eq!(parse_cpu(b"7 (a) S 1"), None);
        assert_eq!(parse_cpu(b""), None);
    }

    #[test]
    fn news_are_told_once_and_what_is_not_found_is_anywhere() {
        let (seats, mut view) = (ReaderAdmission::new(&[0]), View::default());
        let mut look = |thread, is_written_back| {
            seats.serves(0, thread, is_written_back);
            seats
                .last()
                .map(|(last, id)| (view.origin(last, id), view.origin(last, id)))
                .last()
        };
        // Above any thread.
        let gone = 1 << 30;
        assert_eq!(
            look(gone, false),
            Some((Some((gone, Origin::Anywhere)), None))
        );
        assert_eq!(look(0, true), Some((None, None)));
        let (everybody, again) = look(0, true).unwrap();
        let (id, origin) = everybody.unwrap();
        assert!(Last::is_for_everybody(id) && origin == Origin::Anywhere);
        assert_eq!(again, None);
        assert_eq!(look(0, false), Some((None, None)));
    }

    #[test]
    fn who_is_the_only_one_for_a_while_is_alone() {
        let (mut company, mut now) = (Company::default(), Instant::now());
        assert!(!company.is_alone(now));
        company.saw(7, now);
        assert!(!company.is_alone(now));
        now += ALONE;
        company.saw(7, now);
        assert!(company.is_alone(now));
        company.saw(8, now);
        assert!(!company.is_alone(now));
        company.saw(7, now + ALONE / 2);
        assert!(!company.is_alone(now + ALONE));
        assert!(company.is_alone(now + ALONE * 3 / 2));
    }
}

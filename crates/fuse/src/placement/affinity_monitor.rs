//! The affinity monitor: a thread that looks on which CPUs clients are, and admits the readers there.
//!
//! It carries no requests, because looking may wait: the kernel does not tell of a process in the
//! middle of `exec`, and that process may wait for a reply of this very mount.

use super::reader_admission::{LastRequest, Origin, ReaderAdmission};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Between two looks while clients move, and while they lease where they are.
const SHORT: Duration = Duration::from_micros(500);
const LONG: Duration = Duration::from_millis(4);
/// A client that was the only one for this long is taken to be alone. A look sees the last request of each
/// reader, so that of several clients it may see one only.
const ALONE: Duration = Duration::from_millis(10);
/// Looks without a request after which the affinity monitor rests.
const QUIET: u32 = 10;
/// Index of the CPU among the fields of `stat` behind the name of the thread.
const CPU_FIELD: usize = 36;

/// Looks until the mount is gone.
pub(crate) fn monitor_clients(slots: &ReaderAdmission) {
    let mut views: Vec<View> = slots.last().map(|_| View::default()).collect();
    let mut origins = Vec::with_capacity(views.len());
    let mut lone = LoneClient::default();
    let (mut quiet, mut pause) = (0, SHORT);
    while slots.pause((quiet < QUIET).then_some(pause)) {
        let now = Instant::now();
        let mut is_quiet = true;
        for ((last, client), view) in slots.last().zip(&mut views) {
            is_quiet &= view.seen == Some(last);
            if let Some((client, origin)) = view.origin(last, client) {
                lone.saw(client, now);
                origins.push(origin);
            }
        }
        pause = match slots.saw(&origins, lone.is_alone(now), now) {
            true => SHORT,
            false => LONG.min(pause * 2),
        };
        // Also a request that tells of no client: it would wake the affinity monitor again.
        quiet = if is_quiet { quiet + 1 } else { 0 };
        origins.clear();
    }
}

/// Whether there is more than one client.
#[derive(Default)]
struct LoneClient {
    /// The last one seen, and since when there is no other.
    only: Option<(u32, Instant)>,
}

impl LoneClient {
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
    seen: Option<LastRequest>,
    /// The last client, and its `stat`.
    client: Option<(u32, File)>,
}

impl View {
    /// Client and origin of the reader's last request, if there is a new one.
    fn origin(&mut self, last: LastRequest, client: Option<u32>) -> Option<(u32, Origin)> {
        if self.seen.replace(last) == Some(last) {
            return None;
        }
        let id = client?;
        let cpu = match LastRequest::is_for_everybody(id) {
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
        let (slots, mut view) = (ReaderAdmission::new(&[0]), View::default());
        let mut look = |thread, is_written_back| {
            slots.serves(0, thread, is_written_back);
            slots
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
        assert!(LastRequest::is_for_everybody(id) && origin == Origin::Anywhere);
        assert_eq!(again, None);
        assert_eq!(look(0, false), Some((None, None)));
    }

    #[test]
    fn who_is_the_only_one_for_a_while_is_alone() {
        let (mut lone, mut now) = (LoneClient::default(), Instant::now());
        assert!(!lone.is_alone(now));
        lone.saw(7, now);
        assert!(!lone.is_alone(now));
        now += ALONE;
        lone.saw(7, now);
        assert!(lone.is_alone(now));
        lone.saw(8, now);
        assert!(!lone.is_alone(now));
        lone.saw(7, now + ALONE / 2);
        assert!(!lone.is_alone(now + ALONE));
        assert!(lone.is_alone(now + ALONE * 3 / 2));
    }
}

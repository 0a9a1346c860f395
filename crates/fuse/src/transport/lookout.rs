//! The thread that looks where clients are, and seats the readers nearby.
//!
//! It carries no requests, because looking may wait: the kernel does not tell of a process in the
//! middle of `exec`, and that may be waiting for an answer of this very mount.

use super::seats::{Last, Origin, Seats};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Between two looks while clients move, and while they stay where they are.
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_millis(4);
/// Looks without a request after which the lookout rests.
const QUIET: u32 = 10;
/// Index of the CPU among the fields of `stat` behind the name of the thread.
const CPU_FIELD: usize = 36;

/// Looks until the mount is gone.
pub(crate) fn look_out(seats: &Seats) {
    let mut views: Vec<View> = seats.last().map(|_| View::default()).collect();
    let mut origins = Vec::with_capacity(views.len());
    let (mut quiet, mut pause) = (0, SHORT);
    while seats.pause((quiet < QUIET).then_some(pause)) {
        let news = seats.last().zip(&mut views);
        origins.extend(news.filter_map(|((last, client), view)| view.origin(last, client)));
        pause = match seats.saw(&origins, Instant::now()) {
            true => SHORT,
            false => LONG.min(pause * 2),
        };
        quiet = if origins.is_empty() { quiet + 1 } else { 0 };
        origins.clear();
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
    /// Where the reader's last request came from, if that is news.
    fn origin(&mut self, last: Last, client: Option<u32>) -> Option<Origin> {
        if self.seen.replace(last) == Some(last) {
            return None;
        }
        let id = client?;
        if Last::is_for_everybody(id) {
            return Some(Origin::Anywhere);
        }
        Some(match self.cpu_of(id) {
            Some(cpu) => Origin::Cpu(cpu),
            None => Origin::Anywhere,
        })
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
    use crate::transport::cpu;
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
        let (seats, mut view) = (Seats::new(&[0]), View::default());
        let mut look = |thread, is_written_back| {
            seats.serves(0, thread, is_written_back);
            seats
                .last()
                .map(|(last, id)| (view.origin(last, id), view.origin(last, id)))
                .last()
        };
        assert_eq!(
            look(u32::MAX - 1, false),
            Some((Some(Origin::Anywhere), None))
        );
        assert_eq!(look(0, true), Some((Some(Origin::Anywhere), None)));
        assert_eq!(look(0, false), Some((None, None)));
    }
}

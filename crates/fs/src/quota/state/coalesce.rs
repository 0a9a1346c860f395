//! Rate limit of events: repeated events are coalesced into one with a count, so that a user who
//! runs into a limit in a loop fills neither the log nor the ring.

use super::events::{Events, QuotaEvent, QuotaEventKind};
use crate::quota::kind::{QuotaId, Resource};
use std::collections::BTreeMap;

/// Length of a window in seconds.
const PERIOD: i64 = 60;
/// Most windows at a time. When more are needed, all are flushed and begin anew.
const WINDOWS: usize = 512;

/// The open windows, by id and resource.
#[derive(Default)]
pub(crate) struct Coalescer(BTreeMap<(QuotaId, Resource), Window>);

/// The events of one id and resource within a window of time.
struct Window {
    /// When the window began, by the wall clock.
    since: i64,
    /// How many events were reported one by one since then, by kind.
    reported: [u32; QuotaEventKind::KINDS],
    /// Coalesced events, at most one of each kind, in the order in which each happened last.
    held: Vec<QuotaEvent>,
}

impl Coalescer {
    /// Reports an event, or holds it back if `singly` of its kind were reported in this window.
    pub fn report(&mut self, event: QuotaEvent, singly: u32, events: &mut Events) {
        let key = (event.who, event.resource);
        if self.0.len() >= WINDOWS && !self.0.contains_key(&key) {
            self.0
                .values_mut()
                .for_each(|window| window.release(events));
            self.0.clear();
        }
        let window = self.0.entry(key).or_insert_with(|| Window::new(event.time));
        if window.is_over(event.time) {
            window.release(events);
            *window = Window::new(event.time);
        }
        let reported = &mut window.reported[event.what.kind()];
        if *reported >= singly {
            window.hold(event);
            return;
        }
        *reported += 1;
        // Earlier events are reported first.
        window.release(events);
        events.push(event);
    }

    /// Reports the events held back in windows that are over.
    pub fn release(&mut self, now: i64, events: &mut Events) {
        self.0.retain(|_, window| {
            let is_over = window.is_over(now);
            if is_over {
                window.release(events);
            }
            !is_over
        });
    }
}

impl Window {
    fn new(since: i64) -> Window {
        Window {
            since,
            reported: [0; QuotaEventKind::KINDS],
            held: Vec::new(),
        }
    }

    /// Whether the window is over, also because the clock was set back.
    fn is_over(&self, now: i64) -> bool {
        !(self.since..self.since.saturating_add(PERIOD)).contains(&now)
    }

    fn hold(&mut self, mut event: QuotaEvent) {
        let kind = event.what.kind();
        if let Some(at) = self.held.iter().position(|held| held.what.kind() == kind) {
            let earlier = self.held.remove(at);
            event.times += earlier.times;
            event.what = event.what.after(earlier.what);
        }
        self.held.push(event);
    }

    fn release(&mut self, events: &mut Events) {
        for event in self.held.drain(..) {
            events.push(event);
        }
    }
}

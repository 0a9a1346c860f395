//! What repeats itself is told of now and then, with how often it was: no log and no list is filled
//! by one who runs into a limit in a loop.

use super::events::{Events, QuotaEvent, QuotaEventKind};
use crate::quota::kind::{QuotaId, Resource};
use std::collections::BTreeMap;

/// Seconds after which a gate forgets.
const PERIOD: i64 = 60;
/// Gates at a time. Where more ids have events within a period, all begin anew.
const GATES: usize = 512;

/// What was told of lately, and what is held back.
#[derive(Default)]
pub(crate) struct Gates(BTreeMap<(QuotaId, Resource), Gate>);

/// Of one id and resource.
struct Gate {
    /// When its period began, by the wall clock.
    since: i64,
    /// What was told singly since, by kind.
    told: [u32; QuotaEventKind::KINDS],
    /// What is held back, one of each kind, in the order in which each happened last.
    held: Vec<QuotaEvent>,
}

impl Gates {
    /// Tells of an event, or holds it back if `singly` of its kind were told in this period.
    pub fn tell(&mut self, event: QuotaEvent, singly: u32, events: &mut Events) {
        let key = (event.who, event.resource);
        if self.0.len() >= GATES && !self.0.contains_key(&key) {
            self.0.values_mut().for_each(|gate| gate.release(events));
            self.0.clear();
        }
        let gate = self.0.entry(key).or_insert_with(|| Gate::new(event.time));
        if gate.is_over(event.time) {
            gate.release(events);
            *gate = Gate::new(event.time);
        }
        let told = &mut gate.told[event.what.kind()];
        if *told >= singly {
            gate.hold(event);
            return;
        }
        *told += 1;
        // What came before is told before.
        gate.release(events);
        events.push(event);
    }

    /// Tells of what was held back in periods that are over.
    pub fn release(&mut self, now: i64, events: &mut Events) {
        self.0.retain(|_, gate| {
            let is_over = gate.is_over(now);
            if is_over {
                gate.release(events);
            }
            !is_over
        });
    }
}

impl Gate {
    fn new(since: i64) -> Gate {
        Gate {
            since,
            told: [0; QuotaEventKind::KINDS],
            held: Vec::new(),
        }
    }

    /// Also if the clock was set back.
    fn is_over(&self, now: i64) -> bool {
        !(self.since..self.since.saturating_add(PERIOD)).contains(&now)
    }

    fn hold(&mut self, mut event: QuotaEvent) {
        let kind = event.what.kind();
        if let Some(at) = self.held.iter().position(|held| held.what.kind() == kind) {
            event.times += self.held.remove(at).times;
        }
        self.held.push(event);
    }

    fn release(&mut self, events: &mut Events) {
        for event in self.held.drain(..) {
            events.push(event);
        }
    }
}

//! The thread that looks at the mount. A mount that does not answer holds nobody else up.

use super::inbox::{Inbox, Input};
use super::reading::{Wanted, read};
use crate::locks;
use hearth_sync::primitive::{Condvar, Mutex};
use std::path::Path;
use std::time::Duration;

/// What the thread shall do.
#[derive(Default)]
pub struct Orders {
    // Protected by its lock; `came` is told of every change.
    orders: Mutex<Order>,
    came: Condvar,
}

#[derive(Default)]
struct Order {
    wanted: Wanted,
    interval: Duration,
    /// Look now.
    is_urgent: bool,
    /// Switch the lock profile to this word.
    switch: Option<&'static str>,
}

impl Orders {
    /// From now on, this each interval.
    pub fn set(&self, wanted: Wanted, interval: Duration, is_urgent: bool) {
        let mut order = self.orders.lock();
        order.wanted = wanted;
        order.interval = interval;
        order.is_urgent |= is_urgent;
        self.came.notify_one();
    }

    /// Switches the lock profile, then looks.
    pub fn switch(&self, word: &'static str) {
        let mut order = self.orders.lock();
        order.switch = Some(word);
        order.is_urgent = true;
        self.came.notify_one();
    }

    /// Waits until it is time: what to read, and what to switch before.
    fn next(&self, is_first: bool) -> (Wanted, Option<&'static str>) {
        let mut order = self.orders.lock();
        while !is_first && !order.is_urgent {
            let interval = order.interval;
            if self.came.wait_for(&mut order, interval) {
                break;
            }
        }
        order.is_urgent = false;
        (order.wanted.clone(), order.switch.take())
    }
}

/// Looks again and again; ends with the first look that fails.
pub fn run(mount: &Path, orders: &Orders, inbox: &Inbox) {
    let mut is_first = true;
    loop {
        let (wanted, switch) = orders.next(is_first);
        if let Some(word) = switch
            && let Err(failure) = locks::switch(mount, word)
        {
            inbox.put(Input::Complaint(failure));
        }
        is_first = false;
        let look = read(mount, &wanted);
        let has_failed = look.is_err();
        inbox.put(Input::Look(Box::new(look)));
        if has_failed {
            return;
        }
    }
}

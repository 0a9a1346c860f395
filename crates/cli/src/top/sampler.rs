//! The thread that looks at the mount. A mount that does not answer holds nobody else up.

use super::inbox::{Inbox, Input};
use super::reading::{Wanted, read};
use crate::locks;
use hearth_sync::primitive::{Condvar, Mutex};
use std::path::Path;
use std::time::{Duration, Instant};

/// What the thread shall do.
#[derive(Default)]
pub struct Orders {
    // Protected by its lock; `came` is told of every change.
    orders: Mutex<Pending>,
    came: Condvar,
}

#[derive(Default)]
struct Pending {
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

    /// Waits until it is time after the look at `last`: what to read, and what to switch before.
    fn next(&self, last: Option<Instant>) -> (Wanted, Option<&'static str>) {
        let mut order = self.orders.lock();
        while let Some(last) = last
            && !order.is_urgent
        {
            // Orders that come meanwhile do not put it off.
            let left = order.interval.saturating_sub(last.elapsed());
            if left.is_zero() {
                break;
            }
            self.came.wait_for(&mut order, left);
        }
        order.is_urgent = false;
        (order.wanted.clone(), order.switch.take())
    }
}

/// Looks again and again; ends with the first look that fails.
pub fn run(mount: &Path, orders: &Orders, inbox: &Inbox) {
    let mut last = None;
    loop {
        let (wanted, switch) = orders.next(last);
        if let Some(word) = switch
            && let Err(failure) = locks::switch(mount, word)
        {
            inbox.put(Input::Complaint(failure));
        }
        last = Some(Instant::now());
        let look = read(mount, &wanted);
        let has_failed = look.is_err();
        inbox.put(Input::Look(Box::new(look)));
        if has_failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::primitive::{Arc, thread};

    #[test]
    fn orders_that_change_nothing_do_not_put_a_look_off() {
        let orders = Arc::new(Orders::default());
        let interval = Duration::from_millis(100);
        orders.set(Wanted::default(), interval, false);
        let keys = Arc::clone(&orders);
        let pressed = thread::spawn(move || {
            for _ in 0..100 {
                thread::sleep(interval / 10);
                keys.set(Wanted::all(&[]), interval, false);
            }
        });
        let begun = Instant::now();
        let (wanted, switch) = orders.next(Some(begun));
        assert!(begun.elapsed() >= interval && !pressed.is_finished());
        assert_eq!((wanted, switch), (Wanted::all(&[]), None));
        pressed.join().unwrap();
    }

    #[test]
    fn an_urgent_order_comes_at_once_and_a_switch_once() {
        let orders = Orders::default();
        orders.set(Wanted::default(), Duration::from_secs(1000), false);
        orders.switch("on");
        assert_eq!(orders.next(Some(Instant::now())).1, Some("on"));
        orders.set(Wanted::default(), Duration::from_secs(1000), true);
        assert_eq!(orders.next(Some(Instant::now())).1, None);
        assert_eq!(orders.next(None).1, None);
    }
}

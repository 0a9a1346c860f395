//! Subscriptions: callbacks for what becomes hot, warm or cold.

use super::handle::Heat;
use super::listeners::{HeatChange, Listeners};
use hearth_sync::primitive::Arc;
use std::fmt;

/// Ends the subscription when it is dropped; a call that is under way may still come.
pub struct Subscription {
    listeners: Arc<Listeners>,
    number: usize,
}

impl Heat<'_> {
    /// Calls `callback` with the files and ranges whose band changed, after each drain and each
    /// step of ageing, with no lock held, on the thread that did it. Records that go (unlink,
    /// truncate, eviction) are not reported.
    ///
    /// ```
    /// use hearth::heat::Band;
    /// use std::sync::mpsc::channel;
    /// let volume = hearth::Volume::builder().hot_track(true).build()?;
    /// let (changes, seen) = channel();
    /// let subscription = volume.heat().subscribe(move |some| {
    ///     some.iter().for_each(|change| drop(changes.send(*change)));
    /// });
    /// let process = volume.process(hearth::Credentials::root());
    /// let fd = process.open("/log", libc::O_CREAT | libc::O_RDWR, 0o644)?;
    /// for _ in 0..100 {
    ///     process.pwrite(fd, b"x", 0)?;
    /// }
    /// volume.heat().age();
    /// let first = seen.try_recv().unwrap();
    /// assert_eq!((first.range, first.from, first.to), (None, Band::Cold, Band::Hot));
    /// # Ok::<(), hearth::Errno>(())
    /// ```
    pub fn subscribe(
        &self,
        callback: impl Fn(&[HeatChange]) + Send + Sync + 'static,
    ) -> Subscription {
        let listeners = &self.sb.heat.listeners;
        Subscription {
            number: listeners.add(Arc::new(callback)),
            listeners: Arc::clone(listeners),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listeners.remove(self.number);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

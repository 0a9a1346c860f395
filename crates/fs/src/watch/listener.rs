//! Listening to changes of names.

use super::event::NameEvents;
use super::paths::Places;
use super::ring::NameRing;
use crate::stats::Event;
use crate::volume::Volume;
use hearth_sync::primitive::Arc;
use std::fmt;

/// A listener; see [`Volume::watch`]. It ends when it is dropped.
pub struct NameWatch {
    ring: Arc<NameRing>,
    /// Number of the last event that was read.
    cursor: u64,
    places: Places,
}

impl Volume {
    /// Listens to names that are made, removed and renamed from now on, by whoever: programs on a
    /// mount, the library. Whoever changes a name never waits for a listener, which loses what it
    /// does not read before [`NAME_EVENTS_KEPT`] more have come.
    ///
    /// ```
    /// let volume = hearth::Volume::memory();
    /// let mut watch = volume.watch();
    /// let process = volume.process(hearth::Credentials::root());
    /// process.mkdir("/etc", 0o755)?;
    /// process.symlink("/proc/mounts", "/etc/mtab")?;
    /// let news = watch.read(&volume);
    /// let last = &news.events[1];
    /// assert_eq!(last.change, hearth::NameChange::Create);
    /// assert_eq!(last.at.path.as_deref(), Some(&b"/etc/mtab"[..]));
    /// # Ok::<(), hearth::Errno>(())
    /// ```
    ///
    /// [`NAME_EVENTS_KEPT`]: crate::NAME_EVENTS_KEPT
    pub fn watch(&self) -> NameWatch {
        let ring = Arc::clone(&self.sb.watched_names);
        NameWatch {
            cursor: ring.listen(),
            ring,
            places: Places::default(),
        }
    }
}

impl NameWatch {
    /// What has happened since the last call. `volume` is the one that is listened to. Looks for
    /// paths, so it may wait for the backend.
    pub fn read(&mut self, volume: &Volume) -> NameEvents {
        let mut news = self.ring.read(&mut self.cursor);
        if news.lost > 0 {
            volume.stats().count_events(Event::NameEventLost, news.lost);
            self.places.forget();
        }
        self.places.complete(&volume.sb, &mut news.events);
        news
    }
}

impl Drop for NameWatch {
    fn drop(&mut self) {
        self.ring.leave();
    }
}

impl fmt::Debug for NameWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameWatch")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

//! Waits that are not for a lock of this crate, recorded in the profile.

use std::marker::PhantomData;
use std::panic::Location;

use super::class::Class;
use crate::profile::{self, Key, Side};

/// A wait for another thread's next step, recorded under class `C` on the side [`Side::Wait`]. It
/// lasts until this is dropped.
#[must_use = "the wait ends when this is dropped"]
pub struct Waiting<C: Class> {
    /// The start of the wait, if the profile was on then.
    since: Option<u64>,
    site: &'static Location<'static>,
    class: PhantomData<fn() -> C>,
}

impl<C: Class> Waiting<C> {
    /// Begins the wait.
    #[cold]
    #[track_caller]
    pub fn begin() -> Waiting<C> {
        Waiting {
            since: profile::is_on().then(profile::now),
            site: Location::caller(),
            class: PhantomData,
        }
    }
}

impl<C: Class> Drop for Waiting<C> {
    fn drop(&mut self) {
        if self.since.is_some() {
            let key = Key {
                class: C::NAME,
                side: Side::Wait,
                site: self.site,
            };
            profile::granted(&key, self.since);
        }
    }
}

/// Records a request for something of class `C` that others may hold for an unbounded time. `wait`
/// makes the request; its second result says whether it had to wait, or is `None` if the request
/// was refused.
#[track_caller]
pub fn request<C: Class, T>(wait: impl FnOnce() -> (T, Option<Waited>)) -> T {
    if !profile::is_on() {
        return wait().0;
    }
    let (site, since) = (Location::caller(), profile::now());
    let (answer, how) = wait();
    let key = Key {
        class: C::NAME,
        side: Side::Write,
        site,
    };
    match how {
        Some(Waited::No) => profile::granted(&key, None),
        Some(Waited::Yes) => profile::granted(&key, Some(since)),
        None => profile::refused(&key),
    }
    answer
}

/// Whether a request that was granted had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It was granted at once.
    No,
    /// It was granted after a wait.
    Yes,
}

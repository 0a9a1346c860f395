//! Locking and unlocking a [`WordLock`] under the profile.
//!
//! [`take_free`] is the fast path. The functions with a call site are the slow path, for locks that
//! are not free or are sampled by the profile: one copy for all classes.

use std::panic::Location;

use crate::primitive::WordLock;
use crate::profile::{self, Key, Side};

/// Takes the lock if it is free and no sample is due; records only the core.
#[inline(always)]
pub(super) fn take_free(word: &WordLock) -> bool {
    if !profile::is_on() {
        return word.take_free();
    }
    profile::try_unsampled(|| {
        let is_free = word.take_free();
        if is_free {
            word.last().set();
        }
        is_free
    })
}

/// Takes the lock, and records it if the profile is on. True if another thread held it.
#[cold]
#[inline(never)]
pub(super) fn lock(word: &WordLock, class: &'static str, site: &'static Location<'static>) -> bool {
    if !profile::is_on() {
        word.lock();
        return true;
    }
    let key = || key(class, site);
    let is_free = word.try_lock();
    let timed = if is_free {
        profile::taken(address(word), key, word.last().update())
    } else {
        let since = profile::now();
        word.lock();
        profile::waited(address(word), &key(), word.last().update(), since)
    };
    if timed {
        word.set_timed();
    }
    !is_free
}

/// Takes the lock if it is free, and records either outcome if the profile is on.
#[cold]
#[inline(never)]
pub(super) fn try_lock(
    word: &WordLock,
    class: &'static str,
    site: &'static Location<'static>,
) -> bool {
    if !profile::is_on() {
        return word.try_lock();
    }
    let key = || key(class, site);
    let locked = word.try_lock();
    if !locked {
        profile::refused(&key());
    } else if profile::taken(address(word), key, word.last().update()) {
        word.set_timed();
    }
    locked
}

/// Releases the lock; the caller holds it.
#[inline]
pub(super) fn unlock(word: &WordLock) {
    word.unlock(|| profile::released(address(word)));
}

fn key(class: &'static str, site: &'static Location<'static>) -> Key {
    let side = Side::Write;
    Key { class, side, site }
}

fn address(word: &WordLock) -> usize {
    std::ptr::from_ref(word).addr()
}

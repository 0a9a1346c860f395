//! Starting, stopping and resetting the profile, and its snapshot over all threads.

use std::collections::BTreeMap;

use super::clock::now;
use super::counts::{Row, Snapshot};
use super::switch::{begin_session, end_at, end_of_hold, is_exact, session};
use super::switch::{is_on, turn_off, turn_on};
use super::thread_profile::recorders;
use super::{Counts, Sampling, Side};
use crate::primitive::Mutex;

/// The start of the session. Its lock is held to start, stop or reset the profile.
static BEGAN: Mutex<u64> = Mutex::new(0);

/// Starts an empty profile. Does nothing if one with this sampling is on. True unless this build
/// has no profile.
pub fn start(draw: Sampling) -> bool {
    let mut began = BEGAN.lock();
    let exact = draw == Sampling::All;
    if !is_on() || is_exact() != exact {
        *began = now();
        turn_on(exact);
    }
    true
}

/// Stops recording; the records stay until the next start or reset.
pub fn stop() {
    let _turning = BEGAN.lock();
    if is_on() {
        turn_off(now());
    }
}

/// Discards the records. A profile that is on starts again.
pub fn reset() {
    let mut began = BEGAN.lock();
    *began = now();
    begin_session();
    if !is_on() {
        end_at(*began);
    }
}

/// The records since the start or the last reset.
pub fn snapshot() -> Snapshot {
    let began = BEGAN.lock();
    let session = session();
    let mut lost = 0;
    let mut sums: BTreeMap<(&str, Side, &str, u32, u32), Counts> = BTreeMap::new();
    for recorder in recorders() {
        let Some((cells, missing)) = recorder.copy(session) else {
            continue;
        };
        lost += missing;
        for (key, counts) in cells {
            let (file, line) = (key.site.file(), key.site.line());
            let row = (key.class, key.side, file, line, key.site.column());
            *sums.entry(row).or_default() += counts;
        }
    }
    let running = is_on();
    let rows = sums
        .into_iter()
        .map(|((class, side, file, line, column), counts)| Row {
            class,
            side,
            file,
            line,
            column,
            counts,
        });
    Snapshot {
        running,
        exact: is_exact(),
        elapsed_ns: if session == 0 {
            0
        } else {
            end_of_hold(now()).saturating_sub(*began)
        },
        lost,
        rows: rows.collect(),
    }
}

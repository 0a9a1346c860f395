//! A tab as a note and a table, for the screen and for text.

use super::frame::Frame;
use super::grid::{Grid, Sorting};
use super::hot::HotList;
use super::tab::{Ranked, Tab};
use super::{hot, operations, tenants, volume, waits};
use std::path::Path;

/// Requests by which the statistics are read: the mount counts them too.
const OWN: usize = 20;

/// What a tab shows.
#[derive(Debug, Default)]
pub struct TabView {
    /// A line above the table.
    pub note: String,
    /// The table, not yet filtered or sorted.
    pub grid: Grid,
}

/// How the rows of a tab are sorted at first.
pub fn sorting(tab: Tab) -> Sorting {
    let column = match tab {
        Tab::Operations | Tab::Tenants | Tab::Heat => 1,
        Tab::Locks => 2,
        // Facts stay in their order.
        Tab::Store => usize::MAX,
    };
    Sorting {
        column,
        reversed: false,
    }
}

/// What `tab` shows of `frame`; of heat, what is `ranked`.
pub fn page(mount: &Path, frame: &Frame, tab: Tab, ranked: Ranked) -> TabView {
    match tab {
        Tab::Operations => TabView {
            note: format!("P50, P99 are bounds; {OWN} requests of each look are this view's own"),
            grid: operations::grid(&frame.operations),
        },
        Tab::Tenants => of_part(&frame.tenants, |tenants| TabView {
            note: match &frame.no_quota {
                Some(why) => format!("no quotas: {why}"),
                None => "WAIT is for a core, HELD by a rate limit".to_owned(),
            },
            grid: tenants::grid(tenants),
        }),
        Tab::Heat => of_part(&frame.heat, |(status, rankings)| {
            let found = rankings.iter().find(|ranking| ranking.ranked == ranked);
            let none = HotList {
                ranked,
                rows: Vec::new(),
            };
            TabView {
                note: format!("{}: {}", ranked.name(), hot::note(mount, status)),
                grid: hot::grid(found.unwrap_or(&none)),
            }
        }),
        Tab::Locks => of_part(&frame.locks, |profile| TabView {
            note: waits::note(mount, profile, frame.volume.file_locks),
            grid: waits::grid(profile),
        }),
        Tab::Store => TabView {
            note: match (&frame.volume.store, frame.volume.labels.get("below")) {
                (Some(_), _) => "a store".to_owned(),
                (None, Some(_)) => "a directory of the host: no store to write to".to_owned(),
                (None, None) => "a volume in memory: no store to write to".to_owned(),
            },
            grid: volume::grid(&frame.volume),
        },
    }
}

fn of_part<T>(part: &super::reading::Part<T>, page: impl FnOnce(&T) -> TabView) -> TabView {
    match part {
        Some(Ok(part)) => page(part),
        Some(Err(why)) => TabView {
            note: why.clone(),
            ..TabView::default()
        },
        None => TabView {
            note: "reading ...".to_owned(),
            ..TabView::default()
        },
    }
}

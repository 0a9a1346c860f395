//! What is asked of mounts, and how it stands.

use super::CHECKOUT;
use crate::activity::Activity;
use crate::cell::{Cell, Standing};
use crate::sessions;
use crate::workload::Workload;

/// Prints how everything stands.
///
/// # Errors
/// Something is not met, or has no figure; a first look decides nothing.
pub fn verdict(cells: &[Cell], is_quick: bool) -> Result<(), String> {
    let of = |standing| {
        let asks = cells.iter().flat_map(asks);
        let lines = asks.filter(|ask| ask.1 == standing).map(|ask| ask.0);
        lines.collect::<Vec<_>>()
    };
    println!("{} requirements are met", of(Standing::Met).len());
    let mut failed = Vec::new();
    for (standing, words) in [
        (Standing::Likely, "met by the median, not by its interval"),
        (
            Standing::Unlikely,
            "not met by the median, undecided by its interval",
        ),
        (Standing::Missed, "missed"),
        (Standing::Unmeasured, "without a figure"),
    ] {
        let lines = of(standing);
        if lines.is_empty() {
            continue;
        }
        println!("{words}:\n  {}", lines.join("\n  "));
        if standing != Standing::Likely {
            failed.push(format!("{} {words}", lines.len()));
        }
    }
    match failed.is_empty() || is_quick {
        true => Ok(()),
        false => Err(format!("of what is asked, {}", failed.join("; "))),
    }
}

/// Target, against which other, at least this share of it (at most, for seconds).
struct Requirement {
    target: &'static str,
    base: &'static str,
    share: f64,
    rows: Rows,
}

enum Rows {
    Metadata,
    Data,
    One(Workload),
    Checkout,
}

const SMALL_WRITE: Workload = Workload::Write(4 << 10);

const REQUIREMENTS: &[Requirement] = &[
    needs("mount-uring-uncached", "fuser", 1.3, Rows::Metadata),
    needs("mount-dev-uncached", "fuser", 1.0, Rows::Metadata),
    needs("mount-uring-uncached", "fuser", 1.0, Rows::Data),
    needs("mount-dev-uncached", "fuser", 1.0, Rows::Data),
    needs("mount-uring", "tmpfs", 0.7, Rows::One(Workload::Stat)),
    needs("mount-dev", "tmpfs", 0.7, Rows::One(Workload::Stat)),
    needs("mount-uring", "tmpfs", 1.0, Rows::One(Workload::Missing)),
    needs("mount-dev", "tmpfs", 1.0, Rows::One(Workload::Missing)),
    needs("mount-uring", "tmpfs", 0.4, Rows::One(SMALL_WRITE)),
    needs("mount-dev", "tmpfs", 0.4, Rows::One(SMALL_WRITE)),
    needs(
        "mount-uring-no-open",
        "tmpfs",
        0.5,
        Rows::One(Workload::OpenClose),
    ),
    needs(
        "mount-dev-no-open",
        "tmpfs",
        0.5,
        Rows::One(Workload::OpenClose),
    ),
    needs("mount-uring", "tmpfs", 4.0, Rows::Checkout),
    // The default where the kernel's FUSE has no io_uring, or has it switched off.
    needs("mount-dev", "tmpfs", 4.0, Rows::Checkout),
    // As `hearth mount` starts its daemon.
    needs("uring-session", "tmpfs", 4.0, Rows::Checkout),
    needs("dev-session", "tmpfs", 4.0, Rows::Checkout),
];

const fn needs(target: &'static str, base: &'static str, share: f64, rows: Rows) -> Requirement {
    Requirement {
        target,
        base,
        share,
        rows,
    }
}

/// What is asked of the targets of a cell, in words, and how that stands.
pub fn asks(cell: &Cell) -> impl Iterator<Item = (String, Standing)> {
    let asked = |need: &'static Requirement| {
        if !need.covers(&cell.workload) || !cell.has(need.target) {
            return None;
        }
        let row = format!("{} x{}: {}", cell.workload, cell.tasks, need.target);
        let (target, base, share) = (need.target, need.base, need.share);
        let Some(ratio) = cell.ratio(target, base) else {
            let text = format!("{row} beside {base}, wanted {share}");
            return Some((text, Standing::Unmeasured));
        };
        let standing = match need.rows {
            Rows::Checkout => Standing::at_most(ratio, share),
            _ => Standing::at_least(ratio, share),
        };
        let [low, median, high] = ratio;
        let text =
            format!("{row} is {median:.2} of {base} ({low:.2} to {high:.2}), wanted {share}");
        Some((text, standing))
    };
    REQUIREMENTS.iter().filter_map(asked)
}

impl Requirement {
    fn covers(&self, workload: &str) -> bool {
        let named = |wanted: &dyn Fn(Workload) -> bool| {
            Workload::ALL
                .into_iter()
                .any(|w| w.name() == workload && wanted(w))
        };
        match self.rows {
            Rows::Metadata => named(&Workload::is_metadata),
            Rows::Data => named(&|w| !w.is_metadata()),
            Rows::One(one) => named(&|w| w == one),
            Rows::Checkout => [CHECKOUT, sessions::APART].contains(&workload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a target and of another one that always comes to 100.
    fn standings(workload: &str, names: [&str; 2], rounds: &[f64]) -> Vec<Standing> {
        let mut cell = Cell::new(workload.into(), 1, names.into_iter());
        for &round in rounds {
            cell.push(0, round);
            cell.push(1, 100.0);
        }
        asks(&cell).map(|ask| ask.1).collect()
    }

    #[test]
    fn a_row_that_is_too_slow_is_missed_and_one_that_may_be_is_open() {
        let of = |rounds| standings("stat", ["mount-uring", "tmpfs"], rounds);
        assert_eq!(of(&[60.0, 61.0, 62.0]), [Standing::Missed]);
        assert_eq!(of(&[60.0, 71.0, 80.0]), [Standing::Likely]);
        assert_eq!(of(&[71.0, 72.0, 73.0]), [Standing::Met]);
    }

    #[test]
    fn a_checkout_may_take_four_times_as_long() {
        let of = |rounds| standings("git checkout", ["mount-dev", "tmpfs"], rounds);
        assert_eq!(of(&[380.0, 385.0, 390.0]), [Standing::Met]);
        assert_eq!(of(&[380.0, 385.0, 420.0]), [Standing::Likely]);
        assert_eq!(of(&[410.0, 415.0, 420.0]), [Standing::Missed]);
    }

    #[test]
    fn what_is_asked_of_one_transport_with_the_defaults_is_asked_of_the_other() {
        for (workload, targets) in [
            ("stat", ["mount-uring", "mount-dev"]),
            ("stat, missing", ["mount-uring", "mount-dev"]),
            ("write 4 KiB", ["mount-uring", "mount-dev"]),
            ("open/close", ["mount-uring-no-open", "mount-dev-no-open"]),
            ("git checkout", ["mount-uring", "mount-dev"]),
        ] {
            for target in targets {
                let asks = standings(workload, [target, "tmpfs"], &[100.0]);
                assert_eq!(asks, [Standing::Met], "{workload}, {target}");
            }
        }
    }

    #[test]
    fn an_ask_without_the_peer_is_said_and_fails_the_run() {
        let mut cell = Cell::new("stat".into(), 1, ["mount-uring-uncached"].into_iter());
        cell.push(0, 100.0);
        let asks: Vec<_> = asks(&cell).collect();
        let [(text, standing)] = &asks[..] else {
            panic!("{asks:?}");
        };
        assert!(text.contains("fuser"), "{text}");
        assert_eq!(*standing, Standing::Unmeasured);
        let said = verdict(std::slice::from_ref(&cell), false).unwrap_err();
        assert!(said.contains("1 without a figure"), "{said}");
        assert_eq!(verdict(&[cell], true), Ok(()));
    }

    #[test]
    fn every_row_without_caches_is_asked_for_on_both_transports() {
        for workload in Workload::ALL {
            for target in ["mount-uring-uncached", "mount-dev-uncached"] {
                let asks = standings(&workload.name(), [target, "fuser"], &[200.0]);
                assert_eq!(asks, [Standing::Met], "{}", workload.name());
            }
        }
    }
}

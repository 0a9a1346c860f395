//! What can be typed after `hearth top`.

use super::tab::Tab;
use crate::heat::units;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

const ABOUT: &str = "\
Keys: Tab or 1-5 another tab, s sort by the next column, r the other way round, / filter by name,
Space freeze, v files, ranges or directories, p lock profile on and off, ? help, q quit.
MOUNT is any path on the mount; without it, the mount of the working directory, or the only one.
NO_COLOR leaves colours out. What top itself reads is counted too: 20 to 50 requests each time.";

/// `hearth top`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct LiveArgs {
    /// Where the volume is mounted
    pub mount: Option<PathBuf>,
    /// Print what happens in one interval, hot files first, and end
    #[arg(long)]
    pub once: bool,
    /// Print that as JSON, one object
    #[arg(long)]
    pub json: bool,
    /// Time between two looks (500ms, 2s, 1m)
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    #[arg(allow_hyphen_values = true, value_parser = interval)]
    pub interval: Duration,
    /// The tab to begin with; with --once, the only one that is printed
    #[arg(short, long, value_enum)]
    pub tab: Option<Tab>,
    /// Click on tabs and columns, and scroll by wheel; the terminal then selects no text
    #[arg(long, conflicts_with_all = ["once", "json"])]
    pub mouse: bool,
}

/// The shortest and the longest interval.
pub const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60 * 60)];

fn interval(text: &str) -> Result<Duration, String> {
    let time = units::time(text)?;
    let [least, most] = INTERVALS;
    match (least..=most).contains(&time) {
        true => Ok(time),
        false => Err("give a time from 100ms to 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_bounds() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("2"), Ok(Duration::from_secs(2)));
        for text in ["50ms", "2h", "1d"] {
            assert!(
                interval(text).is_err_and(|why| why.contains("1h")),
                "{text}"
            );
        }
        assert!(interval("often").is_err());
    }
}

//! What can be typed after `hearth heat`.

use super::units;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// `hearth heat`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct HeatArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: HeatVerb,
}

const ABOUT: &str = "\
Temperatures are 0 (never used) to 100: cold, warm from 25, hot from 60. Sixteen accesses at once
go half of the way to 100; without accesses it halves every hour. Rates decay the same way.
MOUNT is any path on the mount; without it, the mount of the working directory, or the only one.
Reads that the kernel's page cache answers are not seen; mount with '-o heat=exact' to see them.";

/// The verbs of `hearth heat`.
#[derive(Debug, Subcommand)]
pub enum HeatVerb {
    /// Record from now on which files and ranges are used, and how much
    On {
        /// Where the volume is mounted
        mount: Option<PathBuf>,
    },
    /// Record nothing from now on; what is known stays, and cools
    Off {
        /// Where the volume is mounted
        mount: Option<PathBuf>,
    },
    /// Show the hottest, hottest first
    Top(TopArgs),
    /// Show how hot one file is, and where
    Info {
        /// The file
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how much of the data is how hot
    Histogram {
        /// Where the volume is mounted
        mount: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show which share of the accesses a fast tier would have served
    Report {
        /// Where the volume is mounted
        mount: Option<PathBuf>,
        /// Size of the fast tier (200G, 512MiB, 1.5T), again for more
        #[arg(long, value_name = "SIZE", required = true)]
        #[arg(allow_hyphen_values = true, value_parser = units::size)]
        what_if: Vec<u64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the hottest files as a picture, a line each, from their first range to their last
    Map(MapArgs),
    /// Print what is known, as JSON lines
    Export {
        /// Where the volume is mounted
        mount: Option<PathBuf>,
    },
    /// Take what was exported: records of the files that are here by the same path become as it
    /// says, cooled by the time since
    Import {
        /// Where the volume is mounted
        mount: PathBuf,
        /// File of an export, - for standard input
        #[arg(default_value = "-")]
        file: PathBuf,
    },
}

/// `hearth heat top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Where the volume is mounted
    pub mount: Option<PathBuf>,
    /// What to rank
    #[arg(long, value_enum, default_value_t = By::File)]
    pub by: By,
    /// What to rank by; of what is equally hot, what is used more comes first
    #[arg(long, value_enum, default_value_t = Sort::Temp, conflicts_with = "rank")]
    pub sort: Sort,
    /// Rank by reads
    #[arg(long, group = "rank")]
    pub reads: bool,
    /// Rank by writes
    #[arg(long, group = "rank")]
    pub writes: bool,
    /// Rank by bytes
    #[arg(long, group = "rank")]
    pub bytes: bool,
    /// Only what was used within this time (30s, 10m, 2h, 1d)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = units::time)]
    pub since: Option<Duration>,
    /// Most rows [default: 20, 100 as JSON]
    #[arg(short = 'n', long, value_name = "ROWS", allow_hyphen_values = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub count: Option<u32>,
    /// Show it again every two seconds, until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Print JSON: a list of objects, hottest first
    #[arg(long)]
    pub json: bool,
}

impl TopArgs {
    /// The word for the ranking.
    pub fn rank(&self) -> &'static str {
        match (self.reads, self.writes, self.bytes) {
            (true, _, _) => "reads",
            (_, true, _) => "writes",
            (_, _, true) => "bytes",
            _ => self.sort.word(),
        }
    }
}

/// Columns to rank by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Temperature, TEMP
    Temp,
    /// READS and WRITES
    Accesses,
    /// READS
    Reads,
    /// WRITES
    Writes,
    /// BYTES
    Bytes,
}

impl Sort {
    /// As a volume knows it.
    fn word(self) -> &'static str {
        match self {
            Sort::Temp => "temperature",
            Sort::Accesses => "accesses",
            Sort::Reads => "reads",
            Sort::Writes => "writes",
            Sort::Bytes => "bytes",
        }
    }
}

/// What is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Files
    File,
    /// Ranges of 1 MiB
    Range,
    /// Directories, by the files in them
    Dir,
    /// Owners of files
    User,
    /// Groups of files
    Group,
    /// Projects of files
    Project,
}

impl By {
    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            By::File => "file",
            By::Range => "range",
            By::Dir => "dir",
            By::User => "user",
            By::Group => "group",
            By::Project => "project",
        }
    }
}

/// `hearth heat map`.
#[derive(Debug, Args)]
pub struct MapArgs {
    /// Where the volume is mounted
    pub mount: Option<PathBuf>,
    /// Write a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a page with the picture
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON: a list of objects, hottest first, each with the temperatures along its file
    #[arg(long, conflicts_with_all = ["svg", "html"])]
    pub json: bool,
    /// Most files
    #[arg(short = 'n', long, value_name = "FILES", default_value_t = 40)]
    #[arg(allow_hyphen_values = true, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub count: u32,
}

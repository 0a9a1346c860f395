//! What can be typed after `hearth quota`.

use super::who::{KindWord, Who};
use clap::{Args, Subcommand};
use hearth::{LimitUpdate, amount};
use std::path::PathBuf;

/// `hearth quota`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct QuotaArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: QuotaVerb,
}

const ABOUT: &str = "\
WHO is user:NAME, group:NAME, project:NAME (of /etc/projid), each also with a number, or volume.
Sizes are 65536, 64K, 512MiB, 1.5G, 2T (powers of 1,024) or 2GB (of 1,000); counts of inodes are
5000, 50k, 2m (powers of 1,000); 'none' or 0 is no limit. Times are 90s, 30m, 12h, 7d.
Everybody sees their own quota; only root and the owner of the volume set.";

/// The verbs of `hearth quota`.
#[derive(Debug, Subcommand)]
pub enum QuotaVerb {
    /// Set limits of a user, group or project, or of the volume
    Set(SetArgs),
    /// Show use and limits of everybody that is yours to see
    Report(ReportArgs),
    /// Show use and limits of one user, group or project
    Get(GetArgs),
    /// Make a directory tree a project: what is in it, nested projects too, and what is made in it
    /// later
    Project(ProjectArgs),
    /// Set how long use may stay above soft limits
    Grace(GraceArgs),
    /// Set limits for all users, groups or projects without their own
    Default(DefaultArgs),
    /// Enforce limits
    On(OnArgs),
    /// Count use, but enforce no limit
    Off(OffArgs),
    /// Compare the ledger with a walk over the whole volume
    Check(CheckArgs),
    /// Show who crossed limits, and when
    Events(EventsArgs),
}

/// Limits as they are typed.
#[derive(Debug, Args)]
pub struct Limits {
    /// Bytes that are never passed
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_hyphen_values = true)]
    pub hard: Option<LimitUpdate>,
    /// Bytes that may be passed for the grace period
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_hyphen_values = true)]
    pub soft: Option<LimitUpdate>,
    /// Inodes that are never passed
    #[arg(long, value_name = "COUNT", value_parser = count, allow_hyphen_values = true)]
    pub inodes_hard: Option<LimitUpdate>,
    /// Inodes that may be passed for the grace period
    #[arg(long, value_name = "COUNT", value_parser = count, allow_hyphen_values = true)]
    pub inodes_soft: Option<LimitUpdate>,
}

/// `hearth quota set`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct SetArgs {
    /// user:NAME, group:NAME, project:NAME, or volume
    pub who: Who,
    /// Limits
    #[command(flatten)]
    pub limits: Limits,
    /// Drop its own limits and grace periods: those of its kind hold again
    #[arg(long, conflicts_with_all = ["hard", "soft", "inodes_hard", "inodes_soft"])]
    pub clear: bool,
    /// Also while files are open for writing since before there was a limit: what programs have
    /// written to them and does not fit is lost, and their fsync or close says so
    #[arg(long)]
    pub force: bool,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// What to show of a report.
#[derive(Debug, Args)]
pub struct Shown {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Sizes and counts with units instead of KiB
    #[arg(short = 's', long)]
    pub human_readable: bool,
    /// Ids instead of names
    #[arg(short, long)]
    pub numeric: bool,
}

/// `hearth quota report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Only users
    #[arg(short, long)]
    pub user: bool,
    /// Only groups
    #[arg(short, long)]
    pub group: bool,
    /// Only projects
    #[arg(short, long)]
    pub project: bool,
    /// How
    #[command(flatten)]
    pub shown: Shown,
    /// Where the volume is mounted [default: as of the working directory, or the only one]
    pub mount: Option<PathBuf>,
}

/// `hearth quota get`.
#[derive(Debug, Args)]
#[command(override_usage = "hearth quota get [OPTIONS] [WHO] [MOUNT]")]
pub struct GetArgs {
    /// Where the volume is mounted [default: as of the working directory, or the only one]; before
    /// it, user:NAME, group:NAME, project:NAME or volume [default: your user and your group]
    #[arg(value_name = "MOUNT", num_args = 0..=2)]
    pub places: Vec<String>,
    /// How
    #[command(flatten)]
    pub shown: Shown,
}

/// `hearth quota project`.
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// A directory of a mounted volume
    pub directory: PathBuf,
    /// Number, or name of /etc/projid; 0 takes the tree out of its project
    #[arg(value_name = "PROJECT", allow_hyphen_values = true)]
    pub project: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hearth quota grace`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct GraceArgs {
    /// user, group or project for all of a kind, or user:NAME, group:NAME, project:NAME
    #[arg(value_name = "KIND|WHO")]
    pub of: String,
    /// For bytes; 'default' for one id is that of its kind
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub bytes: Option<String>,
    /// For inodes
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub inodes: Option<String>,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// `hearth quota default`.
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct DefaultArgs {
    /// For whom
    pub kind: KindWord,
    /// Limits
    #[command(flatten)]
    pub limits: Limits,
    /// As in `hearth quota set`
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// `hearth quota on`.
#[derive(Debug, Args)]
pub struct OnArgs {
    /// The user, group or project of the limits
    pub kind: KindWord,
    /// As in `hearth quota set`
    #[arg(long)]
    pub force: bool,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// `hearth quota off`.
#[derive(Debug, Args)]
pub struct OffArgs {
    /// The user, group or project of the limits
    pub kind: KindWord,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// `hearth quota check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Over a directory of the host: make the ledger say what is there
    #[arg(long)]
    pub repair: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the volume is mounted [default: as of the working directory, or the only one]
    pub mount: Option<PathBuf>,
}

/// `hearth quota events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only those after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub after: u64,
    /// Go on with what happens, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Print JSON, an event a line
    #[arg(long)]
    pub json: bool,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

fn bytes(text: &str) -> Result<LimitUpdate, String> {
    limit(text, amount::bytes)
}

fn count(text: &str) -> Result<LimitUpdate, String> {
    limit(text, amount::count)
}

/// 0 is no limit, as `setquota(8)` has it.
fn limit(
    text: &str,
    amount: impl Fn(&str) -> Result<u64, amount::AmountError>,
) -> Result<LimitUpdate, String> {
    if text == "none" {
        return Ok(LimitUpdate::Lift);
    }
    match amount(text) {
        Ok(0) => Ok(LimitUpdate::Lift),
        Ok(amount) => Ok(LimitUpdate::To(amount)),
        Err(error) => Err(error.to_string()),
    }
}

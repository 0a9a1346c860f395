//! What can be typed behind `hearth metrics`, and what it starts itself.

use super::listen::Listen;
use std::path::PathBuf;
use std::time::Duration;

/// `hearth metrics`.
#[derive(Debug, clap::Args)]
pub struct MetricsArgs {
    /// What the worker is told as well
    #[command(flatten)]
    pub work: WorkArgs,
    /// Serve GET /metrics here, until interrupted: unix:PATH or 127.0.0.1:PORT, whose PORT may be 0
    /// for a free one; without it, print the metrics once
    #[arg(long, value_name = "WHERE")]
    pub listen: Option<Listen>,
}

/// What is looked at; all that `hearth metrics-worker` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkArgs {
    /// Where volumes are mounted: only these, and one that is not mounted counts as down [default:
    /// all of this machine]
    #[arg(value_name = "MOUNT")]
    pub mounts: Vec<PathBuf>,
    /// How many tenants of a mount have numbers of their own, and how many users, groups and
    /// projects with quotas; the others are one sum
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub tenants: usize,
    /// How long a mount may take to answer before it counts as down (4s, 500ms)
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = crate::locks::length)]
    pub timeout: Duration,
    /// One page is made: the sum of the others begins with their mount
    #[arg(long, hide = true)]
    pub once: bool,
}

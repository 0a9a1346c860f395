//! What can be typed after `hearth sched`.

use crate::quota::id_of;
use clap::{Args, Subcommand};
use hearth::{QuotaKind, TenantId, amount};
use std::path::PathBuf;
use std::str::FromStr;

/// `hearth sched`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = ABOUT)]
pub struct SchedArgs {
    /// What to set; without it, show
    #[command(subcommand)]
    pub verb: Option<SchedVerb>,
    /// Where the volume is mounted [default: as of the working directory, or the only one]
    pub mount: Option<PathBuf>,
    /// Print again every second, until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const ABOUT: &str = "\
TENANT is user:NAME or project:NAME (of /etc/projid), each also with a number. A request counts
for the project of the file or directory that it names, if that has one, else for the user who
asks. On a store weights and limits are kept, elsewhere they hold until the unmount; only root and
the owner of the volume set them.";

/// The verbs of `hearth sched`.
#[derive(Debug, Subcommand)]
pub enum SchedVerb {
    /// Set a tenant's part of cores that are not enough for all: 1 to 10000, without it 100
    Weight(WeightArgs),
    /// Set how much a tenant may do in a second; what comes too early waits
    Limit(LimitArgs),
}

/// `hearth sched weight`.
#[derive(Debug, Args)]
pub struct WeightArgs {
    /// user:NAME or project:NAME
    pub tenant: Tenant,
    /// 1 to 10000
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000), allow_hyphen_values = true)]
    pub weight: u32,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// `hearth sched limit`.
#[derive(Debug, Args)]
pub struct LimitArgs {
    /// user:NAME or project:NAME
    pub tenant: Tenant,
    #[command(flatten)]
    pub ceilings: Ceilings,
    /// Where the volume is mounted
    pub mount: PathBuf,
}

/// What may be limited; at least one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Ceilings {
    /// Operations a second: 1000, 5k; or none
    #[arg(long, value_name = "COUNT", value_parser = count, allow_hyphen_values = true)]
    pub iops: Option<Ceiling>,
    /// Bytes a second that reads and writes ask for: 200M, 1G; or none
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_hyphen_values = true)]
    pub bw: Option<Ceiling>,
}

/// A ceiling as the volume takes it: a number, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling(pub Option<u64>);

/// A tenant as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant(pub TenantId);

impl FromStr for Tenant {
    type Err = String;

    fn from_str(text: &str) -> Result<Tenant, String> {
        let expected = "give user:NAME or project:NAME, each also with a number";
        match text.split_once(':') {
            Some(("user", name)) => id_of(QuotaKind::User, name).map(TenantId::User),
            Some(("project", name)) => match id_of(QuotaKind::Project, name)? {
                0 => Err("project 0 is no project; give a number from 1 on".to_owned()),
                id => Ok(TenantId::Project(id)),
            },
            _ => Err(expected.to_owned()),
        }
        .map(Tenant)
    }
}

fn count(text: &str) -> Result<Ceiling, String> {
    ceiling(text, amount::count)
}

fn bytes(text: &str) -> Result<Ceiling, String> {
    ceiling(text, amount::bytes)
}

fn ceiling(
    text: &str,
    amount: impl Fn(&str) -> Result<u64, amount::AmountError>,
) -> Result<Ceiling, String> {
    if text == "none" {
        return Ok(Ceiling(None));
    }
    match amount(text) {
        Ok(0) => Err("a limit is 1 or more, or none".to_owned()),
        Ok(amount) => Ok(Ceiling(Some(amount))),
        Err(error) => Err(error.to_string()),
    }
}

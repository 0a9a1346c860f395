//! What can be typed behind `hearth run`, and what it starts itself.

use hearth::amount;
use std::ffi::OsString;
use std::path::PathBuf;

/// `hearth run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// What the server is told as well
    #[command(flatten)]
    pub limits: RunLimits,
    /// Print the summary as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// How the directory is served.
#[derive(Debug, clap::Args)]
pub struct RunLimits {
    /// Bytes that the directory may take, what is there included: 512MiB, 1GiB
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    pub limit: Option<u64>,
    /// Inodes that it may have, those that are there included: 5000, 50k
    #[arg(long, value_name = "COUNT", value_parser = amount::count)]
    pub inodes: Option<u64>,
    /// Only look: nothing is refused
    #[arg(long, conflicts_with_all = ["limit", "inodes"])]
    pub observe: bool,
    /// Mount options, separated by commas
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
}

/// `hearth run-server`, which `hearth run` starts.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// What `hearth run` was told
    #[command(flatten)]
    pub limits: RunLimits,
    /// The directory that is served at its own path
    pub directory: PathBuf,
}

/// `hearth run-init`, which `hearth run` starts.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

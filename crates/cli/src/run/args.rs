//! What can be typed behind `hearth run`, and what it starts itself.

use std::ffi::OsString;
use std::path::PathBuf;

/// `hearth run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Print the summary as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Mount options, separated by commas
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// `hearth run-server`, which `hearth run` starts.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// The directory that is served at its own path
    pub directory: PathBuf,
    /// Mount options, separated by commas
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
}

/// `hearth run-init`, which `hearth run` starts.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

//! Shell completions and manual pages, made from the arguments themselves.

use crate::args::Args;
use crate::failure::{Failure, reason};
use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Prints the completions for `shell`.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "hearth", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Writes `hearth.1` and one page for each verb into `directory`.
pub fn man(directory: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let what = format!("{}; give a directory that can be made", reason(&error));
        Failure::at(directory, what)
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Args::command(), directory).map_err(failed)
}

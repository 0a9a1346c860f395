//! Shell completions and manual pages, made from the arguments themselves.

use crate::args::Args;
use crate::failure::Failure;
use crate::{output, wrong_place};
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::ErrorKind;
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
        // Of what is there and cannot be looked at, making it says only that it is there.
        let seen = std::fs::metadata(directory).err();
        let seen = seen.filter(|seen| seen.kind() != ErrorKind::NotFound);
        let error = seen.unwrap_or(error);
        wrong_place::failure(directory, &error, "give a directory that can be made")
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Args::command(), directory).map_err(failed)
}

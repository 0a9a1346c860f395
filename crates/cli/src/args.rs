//! What can be typed.

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A multicore-scalable filesystem in user space.
#[derive(Debug, Parser)]
#[command(
    name = "hearth",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs of `hearth`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Mount a volume
    Mount(MountArgs),
    /// Unmount a volume; its daemon ends
    Umount(UmountArgs),
    /// Show what a mounted volume does
    Stats(StatsArgs),
    /// Say whether this machine can mount, by which transport, and what to do if not
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory that receives them; it is made if it is not there
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the version
    Version {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `hearth mount`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "hearth mount [OPTIONS] [SOURCE] <MOUNTPOINT>")]
pub struct MountArgs {
    /// Where the volume lives (`memory:` if left out, gone after the unmount), and an empty
    /// directory
    #[arg(value_name = "[SOURCE] MOUNTPOINT", num_args = 1..=2, required = true)]
    pub places: Vec<PathBuf>,
    /// Mount options, separated by commas
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
    /// Stay in the foreground
    #[arg(short, long)]
    pub foreground: bool,
    /// Where the daemon in the background writes its messages [default: hearth.log in /var/log for
    /// root, in ~/.local/state for others]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Started by `hearth mount`: report on standard output, then detach
    #[arg(long, hide = true)]
    pub detach: bool,
}

impl MountArgs {
    /// Where the volume lives, as it was typed.
    pub fn source(&self) -> Cow<'_, str> {
        match &*self.places {
            [source, _] => source.to_string_lossy(),
            _ => "memory:".into(),
        }
    }

    /// The directory that shows it.
    pub fn mountpoint(&self) -> &Path {
        self.places.last().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// `hearth umount`.
#[derive(Debug, clap::Args)]
pub struct UmountArgs {
    /// Where the volume is mounted
    pub mountpoint: PathBuf,
    /// Detach the mount now even if it is in use; it ends with its last user
    #[arg(short, long)]
    pub lazy: bool,
}

/// `hearth stats`.
#[derive(Debug, clap::Args)]
pub struct StatsArgs {
    /// Where the volume is mounted
    pub mount: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print what happened in every second, until interrupted
    #[arg(short, long)]
    pub watch: bool,
}

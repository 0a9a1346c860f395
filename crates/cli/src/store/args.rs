//! What can be typed about volumes in a directory.

use std::path::PathBuf;

/// `hearth mkfs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Options (-o), the default first:
  compress=lz4|none|zstd[:LEVEL]   how data is compressed, zstd by level 1 to 19: 3
  encrypt=FILE|env                 encrypt with the passphrase in FILE or in HEARTH_PASSPHRASE
  size=BYTES                       room of the volume (2G, 512MiB): as much as the disk has
An empty volume takes 129 MiB of the disk, whatever its size.")]
pub struct MkfsArgs {
    /// A new or an empty directory, as DIR or store:DIR
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    /// Options of the volume, separated by commas
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
}

/// `hearth info`.
#[derive(Debug, clap::Args)]
pub struct InfoArgs {
    /// Where the volume lives, as DIR or store:DIR, or where a volume is mounted
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    /// encrypt=FILE|env: the passphrase of an encrypted volume, to look into its log
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hearth fsck`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 nothing wrong, 1 put right, 4 wrong and left, 8 could not be checked, 16 usage.
docs/fsck.md lists the codes of findings.")]
pub struct FsckArgs {
    /// Where the volume lives, as DIR or store:DIR; it may be mounted
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    /// Put right what can be; the volume must not be in use
    #[arg(long)]
    pub repair: bool,
    /// Read and verify every block of every file as well
    #[arg(long)]
    pub data: bool,
    /// encrypt=FILE|env: the passphrase of an encrypted volume
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hearth dump`.
#[derive(Debug, clap::Args)]
pub struct DumpArgs {
    /// Where the volume lives, as DIR or store:DIR; it may be mounted
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    /// A new file for the dump, a tar archive; '-' is standard output
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// encrypt=FILE|env: the passphrase of an encrypted volume
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
}

/// `hearth load`.
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// What 'hearth dump' wrote; '-' is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A new or an empty directory: store:DIR becomes a volume, DIR gets plain files
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    /// Options of the new volume as 'hearth mkfs' takes them, separated by commas; its size is that
    /// of the dumped volume without size=
    #[arg(short, long = "options", value_name = "OPTS")]
    pub options: Vec<String>,
}

/// `hearth passphrase`.
#[derive(Debug, clap::Args)]
pub struct PassphraseArgs {
    /// Where the volume lives, as DIR or store:DIR
    #[arg(value_name = "DIR")]
    pub place: PathBuf,
    /// encrypt=FILE|env: the passphrase that opens it now
    #[arg(short, long = "options", value_name = "OPTS", required = true)]
    pub options: Vec<String>,
    /// The file with the new one; 'env' is the variable HEARTH_NEW_PASSPHRASE
    #[arg(long, value_name = "FILE|env")]
    pub new: PathBuf,
}

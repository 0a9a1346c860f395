//! `hearth mkfs`.

use super::{MkfsArgs, place};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable_path;

/// Options of a new volume.
pub const OPTIONS: &[&str] = &["size", "compress", "encrypt"];

/// Makes a volume.
pub fn run(args: &MkfsArgs) -> Result<(), Failure> {
    let options = place::options(&args.options, OPTIONS, "mkfs")?;
    let directory = place::directory(&args.place)?;
    place::make(directory, &options)?;
    output::print_and_go_on(&format!(
        "hearth: store:{} is a volume now; 'hearth mount store:{} MOUNTPOINT' mounts it\n",
        printable_path(directory),
        printable_path(directory)
    ))
}

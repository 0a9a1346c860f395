//! Verbs about volumes in a directory, mounted or not: make, describe, check, copy, and change the
//! passphrase.

mod args;
mod dump;
mod fsck;
mod info;
mod load;
mod mkfs;
mod passphrase;
mod place;
mod progress;

pub use args::{DumpArgs, FsckArgs, InfoArgs, LoadArgs, MkfsArgs, PassphraseArgs};
pub use dump::run as dump;
pub use fsck::{USAGE as FSCK_USAGE, run as fsck};
pub use info::run as info;
pub use load::run as load;
pub use mkfs::run as mkfs;
pub use passphrase::run as passphrase;
pub use place::{amount, refusal};

//! `hearth passphrase`: another passphrase for the same key. Data is not encrypted anew.

use super::PassphraseArgs;
use super::place::{self, refusal};
use crate::failure::Failure;
use crate::output;
use crate::printable::printable_path;
use hearth_store::backend::StoreBackend;
use hearth_store::codec::Passphrase;
use hearth_store::{Error, Kv};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// The variable that `--new env` reads.
const NEW: &str = "HEARTH_NEW_PASSPHRASE";

/// Changes the passphrase of a volume.
pub fn run(args: &PassphraseArgs) -> Result<(), Failure> {
    let options = place::options(&args.options, &["encrypt"], "passphrase")?;
    let directory = place::directory(&args.place)?;
    let info = Kv::info_of(directory).map_err(|error| refusal(directory, &error))?;
    if info.cipher == 0 {
        let what = "is not encrypted; dump it and load it with -o encrypt=FILE";
        return Err(Failure::at(directory, what));
    }
    let old = place::passphrase(&options)?;
    let old = old.ok_or_else(|| Failure::usage("-o encrypt=FILE|env names the passphrase now"))?;
    let new = new(&args.new)?;
    StoreBackend::change_passphrase(directory, &old, &new)
        .map_err(|error| refusal(directory, &error))?;
    output::print_and_go_on(&format!(
        "hearth: store:{}: the new passphrase opens it, the old one does not\n",
        printable_path(directory)
    ))
}

fn new(from: &Path) -> Result<Passphrase, Failure> {
    let failed = |why: String| {
        let from = from.display();
        let line = format!("--new {from}: {why}; give a file with the new passphrase, or env");
        Failure::refused(line)
    };
    let read = if from == Path::new("env") {
        let value = std::env::var_os(NEW).ok_or_else(|| failed(format!("{NEW} is not set")))?;
        Passphrase::new(value.into_vec())
    } else {
        Passphrase::from_file(from)
    };
    read.map_err(|error| match error {
        Error::WrongKey { why } => failed(why.to_owned()),
        Error::Io { errno, .. } => failed(errno.to_string()),
        other => failed(other.to_string()),
    })
}

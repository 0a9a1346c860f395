//! Asking a mount about heat.

use crate::ask::ask;
use crate::control_file;
use crate::failure::Failure;
use crate::wrong_place::unreached;
use serde_json::Value;
use std::path::Path;

/// Asks a question that is answered in JSON.
pub fn ask_json(mount: &Path, question: &str) -> Result<Value, Failure> {
    parsed(mount, &ask(mount, question)?)
}

/// Reads a control file that is JSON.
pub fn read_json(mount: &Path, file: &str) -> Result<Value, Failure> {
    let name = format!("heat/{file}");
    let denied = "the heat of all files is for the owner of the mount and root; ask them";
    let text = control_file::read(mount, &name)
        .map_err(|error| unreached(mount, &name, &error, denied))?;
    parsed(mount, &text)
}

fn parsed(mount: &Path, text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| match text.is_empty() {
        true => Failure::empty(mount),
        false => {
            let what =
                "its daemon speaks of heat in another form; use the 'hearth' that mounted it";
            Failure::at(mount, what)
        }
    })
}

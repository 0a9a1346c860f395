//! Which mount is meant, and asking it.

use crate::ask::ask;
use crate::failure::{Failure, reason};
use crate::mounts;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The top of the Hearth mount that `path` lies on; without a path, of the mount of the working
/// directory, or of the only one there is.
pub fn mount_of(path: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(path) = path else {
        return mount_of_nothing();
    };
    let place = path.canonicalize().map_err(|error| {
        let what = match error.kind() {
            ErrorKind::NotConnected => {
                "its daemon has ended; 'hearth umount' takes the mount away".to_owned()
            }
            _ => reason(&error),
        };
        Failure::at(path, what)
    })?;
    match mounts::holding(&place).map_err(|error| Failure::at(path, reason(&error)))? {
        Some(mounted) if mounted.is_ours() => Ok(mounted.at),
        mounted => {
            let kind = mounted.map_or("another filesystem".to_owned(), |mounted| mounted.kind);
            let what = format!(
                "lies on {kind}, not on a Hearth mount; 'findmnt -t fuse.hearth' lists the mounts"
            );
            Err(Failure::at(path, what))
        }
    }
}

fn mount_of_nothing() -> Result<PathBuf, Failure> {
    if let Ok(mount) = mount_of(Some(Path::new("."))) {
        return Ok(mount);
    }
    let ours = mounts::ours().map_err(|error| Failure::refused(reason(&error)))?;
    match &ours[..] {
        [mount] => Ok(mount.clone()),
        [] => Err(Failure::refused(
            "nothing is mounted; 'hearth mount' mounts a volume",
        )),
        _ => Err(Failure::usage("several volumes are mounted; name a mount")),
    }
}

/// Asks a question that is answered in JSON.
pub fn ask_json(mount: &Path, question: &str) -> Result<Value, Failure> {
    parsed(mount, &ask(mount, question)?)
}

/// Reads a control file that is JSON.
pub fn read_json(mount: &Path, file: &str) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(mount.join(".hearth/heat").join(file));
    let text = text.map_err(|error| {
        let what = match error.kind() {
            ErrorKind::PermissionDenied => {
                "the heat of all files is for the owner of the mount and root".to_owned()
            }
            _ => format!(".hearth/heat/{file}: {}", reason(&error)),
        };
        Failure::at(mount, what)
    })?;
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

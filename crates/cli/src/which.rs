//! Which mount is meant.

use crate::failure::{Failure, reason};
use crate::{mounts, patience, wrong_place};
use std::path::{Path, PathBuf};

/// Mounts that are named in a refusal.
const NAMED: usize = 5;

/// The top of the Hearth mount that `path` lies on; without a path, of the mount of the working
/// directory, or of the only one there is.
pub fn mount_of(path: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(path) = path else {
        return mount_of_nothing();
    };
    patience::watch(path);
    let place = path
        .canonicalize()
        .map_err(|error| wrong_place::unseen(path, &error))?;
    match mounts::holding(&place).map_err(|error| Failure::at(path, reason(&error)))? {
        Some(mounted) if mounted.is_ours() => Ok(mounted.at),
        mounted => Err(wrong_place::no_mount(path, mounted.as_ref())),
    }
}

/// `typed` as it is, else [`mount_of`] nothing.
pub fn typed_or_only(typed: Option<&Path>) -> Result<PathBuf, Failure> {
    match typed {
        Some(mount) => Ok(mount.to_owned()),
        None => mount_of(None),
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
        several => {
            let line = format!(
                "several volumes are mounted; name a mount: {}",
                list(several)
            );
            Err(Failure::usage(line))
        }
    }
}

/// The mounts there are, for who has named none.
pub fn hint() -> String {
    match mounts::ours() {
        Ok(ours) if !ours.is_empty() => format!("mounted are: {}", list(&ours)),
        _ => "nothing is mounted, 'hearth mount' mounts a volume".to_owned(),
    }
}

fn list(mounts: &[PathBuf]) -> String {
    let named = mounts.iter().take(NAMED);
    let named: Vec<String> = named.map(|mount| mount.display().to_string()).collect();
    match mounts.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

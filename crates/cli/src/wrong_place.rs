//! What is wrong with a path where a mount should answer, and what to do: every verb that looks
//! into a mount, or at a directory that may be one, has it from here.

use crate::accounts::Accounts;
use crate::control_file;
use crate::failure::{Failure, reason};
use crate::mounts::{self, Mounted};
use std::io::{Error, ErrorKind};
use std::path::Path;

/// What this program is, as a daemon of the same version writes it into `.hearth/version`.
pub const OURS: &str = concat!("hearth ", env!("CARGO_PKG_VERSION"));

/// For [`unreached`], where the verb has no words of its own.
pub const OWNERS: &str = "only the owner of the mount and root may look there; ask them";

/// Nothing is learnt of `path`, where a mount was expected.
pub fn unseen(path: &Path, error: &Error) -> Failure {
    failure(path, error, "'findmnt -t fuse.hearth' lists the mounts")
}

/// A call on `path` failed: a mount without a daemon and a mount of somebody else are named, and
/// what to do about them; `remedy` is for everything else.
pub fn failure(path: &Path, error: &Error, remedy: &str) -> Failure {
    let what = match error.kind() {
        _ if is_dead(error) => dead(path),
        ErrorKind::PermissionDenied => closed(path),
        ErrorKind::NotFound => format!("does not exist; {remedy}"),
        _ => format!("{}; {remedy}", reason(error)),
    };
    Failure::at(path, what)
}

/// `path` is there, and lies on no Hearth mount.
pub fn no_mount(path: &Path, mounted: Option<&Mounted>) -> Failure {
    let kind = mounted.map_or("another filesystem", |mounted| &mounted.kind);
    let what =
        format!("lies on {kind}, not on a Hearth mount; 'findmnt -t fuse.hearth' lists the mounts");
    Failure::at(path, what)
}

/// The control file `name` of `mount` could not be opened, read or written. `denied` says who may,
/// where the mount lets this caller look and the file does not.
pub fn unreached(mount: &Path, name: &str, error: &Error, denied: &str) -> Failure {
    if is_dead(error) {
        return Failure::at(mount, dead(mount));
    }
    // A link is followed without a question to the mount.
    let seen = mount.metadata().and_then(|_| mount.canonicalize());
    let place = match seen {
        Ok(place) => place,
        Err(error) => return unseen(mount, &error),
    };
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => absent(mount, name, &place),
        ErrorKind::PermissionDenied => Failure::at(mount, denied),
        ErrorKind::UnexpectedEof => Failure::empty(mount),
        ErrorKind::ReadOnlyFilesystem => {
            let what = "is mounted with ro, and this is written to it; mount it with rw";
            Failure::at(mount, what)
        }
        _ => {
            let why = reason(error);
            let what = format!(".hearth/{name}: {why}; the log of its daemon may say more");
            Failure::at(mount, what)
        }
    }
}

/// The version of the daemon of `mount`, if it is another one than this program's.
pub fn other_version(mount: &Path) -> Option<String> {
    version(mount).filter(|version| version != OURS)
}

/// What to do about a daemon of that version.
pub fn newer_needed(version: &str) -> String {
    format!("its daemon is of {version}; mount it again with this one, {OURS}")
}

/// Whether the kernel has lost the daemon that it asked.
pub fn is_dead(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotConnected | ErrorKind::ConnectionAborted
    )
}

fn version(mount: &Path) -> Option<String> {
    let text = control_file::read(mount, "version").ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// There is no control file `name`; `place` is `mount` without links.
fn absent(mount: &Path, name: &str, place: &Path) -> Failure {
    if let Some(version) = version(mount) {
        let needed = newer_needed(&version);
        return Failure::at(mount, format!("there is no .hearth/{name}: {needed}"));
    }
    let mounted = match mounts::holding(place) {
        Ok(mounted) => mounted,
        Err(error) => return Failure::at(Path::new("/proc/self/mountinfo"), reason(&error)),
    };
    match mounted {
        Some(ours) if ours.is_ours() && ours.at != place => {
            let top = ours.at.display();
            let what = format!("not the top of a Hearth mount, which is {top}; give that");
            Failure::at(mount, what)
        }
        Some(ours) if ours.is_ours() && ours.root != Path::new("/") => {
            let what = "shows a part of a volume, where no control files are; give a mount of the \
                        whole, 'findmnt -t fuse.hearth' lists them";
            Failure::at(mount, what)
        }
        Some(ours) if ours.is_ours() => {
            let what = format!(
                "there is no .hearth/{name}: its tree may have a .hearth of its own; rename that \
                 one"
            );
            Failure::at(mount, what)
        }
        other => no_mount(mount, other.as_ref()),
    }
}

/// The mount that holds `path`, of which nothing is asked.
fn holding(path: &Path) -> Option<Mounted> {
    mounts::holding(&mounts::resolved_around(path)).ok()?
}

fn dead(path: &Path) -> String {
    match holding(path) {
        Some(ours) if ours.is_ours() => {
            let top = ours.at.display();
            format!("its daemon has ended; 'hearth umount {top}' takes the mount away")
        }
        Some(other) => {
            let (kind, top) = (other.kind, other.at.display());
            format!("a dead mount of {kind}, not of Hearth; 'umount -l {top}' takes it away")
        }
        None => "its daemon has ended; 'findmnt' lists the mounts".to_owned(),
    }
}

fn closed(path: &Path) -> String {
    let mounted = holding(path).filter(|mounted| mounted.kind.starts_with("fuse"));
    let owner = mounted.and_then(|mounted| mounts::owner(&mounted.at).ok()?);
    match owner {
        Some(owner) => {
            let name = Accounts::Users.name(owner);
            let name = name.unwrap_or_else(|| owner.to_string());
            format!(
                "was mounted by {name} for nobody else; look as {name}, or have it mounted with \
                 allow_other"
            )
        }
        None => "this user may not look there; run it as one who may, or as root".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_mount_is_told_what_it_lies_on() {
        let there = std::env::temp_dir();
        let none = Error::from(ErrorKind::NotFound);
        let said = unreached(&there, "stats", &none, OWNERS).line;
        let wanted = format!("{}: lies on ", there.display());
        assert!(said.starts_with(&wanted), "{said}");
        assert!(said.contains("not on a Hearth mount; 'findmnt"), "{said}");
        let gone = there.join("hearth-no-such-directory");
        let said = unreached(&gone, "stats", &none, OWNERS).line;
        let wanted = format!("{}: does not exist; 'findmnt", gone.display());
        assert!(said.starts_with(&wanted), "{said}");
    }

    #[test]
    fn what_a_caller_may_not_do_is_said_as_the_verb_says_it() {
        let there = std::env::temp_dir();
        let denied = Error::from(ErrorKind::PermissionDenied);
        let said = unreached(&there, "locks", &denied, "ask the owner").line;
        assert_eq!(said, format!("{}: ask the owner", there.display()));
    }
}

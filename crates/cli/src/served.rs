//! Which directories of the host are served, and where.
//!
//! The name of a mount tells little of it: who mounts may choose one, and where a directory has a
//! colon its name has none. So the mounts are asked what they serve. The name stands for what
//! cannot be asked: a mount of another user, one of which only a part shows, or a stopped daemon.

use crate::inquiry::{self, Facts, Inquiry, PATIENCE};
use crate::mounts::{self, Mounted};
use crate::naming;
use hearth::Source;
use rustix::fs::{major, minor};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The label with the [`identity`] of the directory that a mount serves.
pub const LABEL: &str = "below_inode";

/// Mounts that are asked at the same time.
const AT_ONCE: usize = 32;

/// What a directory is known by, whatever path leads to it.
pub fn identity(directory: &Metadata) -> String {
    let (device, inode) = (directory.dev(), directory.ino());
    format!("{}:{}:{inode}", major(device), minor(device))
}

/// Where a directory of the host is served.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn place_of(directory: &Path) -> std::io::Result<Option<PathBuf>> {
    let mounts = mounts::of_hearth()?;
    let (asked, mut unasked) = volumes(&mounts);
    let directory = Directory::of(directory);
    for some in asked.chunks(AT_ONCE) {
        let until = Instant::now() + PATIENCE;
        let begun: Vec<_> = some.iter().map(|one| Inquiry::begin(&one.at)).collect();
        for (mounted, inquiry) in some.iter().zip(begun) {
            let facts = inquiry.ok().and_then(|inquiry| inquiry.wait(until));
            let facts = facts.filter(|facts| is_of(facts, mounted));
            match facts.map(|facts| directory.is_served(&facts)) {
                Some(true) => return Ok(Some(mounted.at.clone())),
                Some(false) => {}
                None => unasked.push(*mounted),
            }
        }
    }
    let named = unasked.into_iter().find(|one| one.source == directory.name);
    Ok(named.map(|mounted| mounted.at.clone()))
}

/// Whether `source` is mounted at this very mount point: `mount -a` does not know it by the name
/// that it has in fstab.
pub fn is_at(source: &Source, mountpoint: &Path) -> bool {
    let mounted = mounts::at(mountpoint).ok().flatten();
    let Some(mounted) = mounted.filter(Mounted::is_ours) else {
        return false;
    };
    let facts = inquiry::ask(&mounted.at).filter(|facts| is_of(facts, &mounted));
    let told = facts.and_then(|facts| match source {
        Source::Host(directory) => Some(Directory::of(directory).is_served(&facts)),
        Source::Store(directory) => {
            let store = mounts::resolved(directory);
            Some(*facts.get("store")? == store.to_string_lossy())
        }
        Source::Memory => Some(facts.get("source")? == "memory:"),
    });
    told.unwrap_or_else(|| mounted.source == naming::of(source))
}

/// The mounts of whole volumes, of each volume one that shows; and those of volumes that have none.
fn volumes(mounts: &[Mounted]) -> (Vec<&Mounted>, Vec<&Mounted>) {
    let mut whole: Vec<&Mounted> = Vec::new();
    for mounted in mounts::whole(mounts) {
        if !whole.iter().any(|one| one.device == mounted.device) {
            whole.push(mounted);
        }
    }
    let is_left = |mounted: &&Mounted| !whole.iter().any(|one| one.device == mounted.device);
    let left = mounts.iter().filter(is_left).collect();
    (whole, left)
}

/// Whether this mount has said it, and tells what it serves.
fn is_of(facts: &Facts, mounted: &Mounted) -> bool {
    let has_answered = facts.get(inquiry::DEVICE) == Some(&inquiry::device(mounted.device));
    has_answered && facts.contains_key("version")
}

/// A directory that may be served.
struct Directory {
    /// Without links.
    path: PathBuf,
    identity: Option<String>,
    /// What a mount of it is called.
    name: PathBuf,
}

impl Directory {
    fn of(directory: &Path) -> Directory {
        Directory {
            path: mounts::resolved(directory),
            identity: std::fs::metadata(directory).ok().as_ref().map(identity),
            name: naming::of_directory(directory),
        }
    }

    /// Whether a mount that says this serves it.
    fn is_served(&self, facts: &Facts) -> bool {
        match (
            facts.get(LABEL).zip(self.identity.as_ref()),
            facts.get("below"),
        ) {
            (Some((served, own)), _) => served == own,
            // A daemon of an earlier version, or a directory that this user may not look at.
            (None, Some(below)) => *below == self.path.to_string_lossy(),
            (None, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(at: &str, minor: u32, root: &str) -> Mounted {
        Mounted {
            at: at.into(),
            device: (0, minor),
            flags: "rw".to_owned(),
            root: root.into(),
            kind: "fuse.hearth".into(),
            source: "/served".into(),
        }
    }

    #[test]
    fn each_volume_is_asked_where_all_of_it_shows_or_not_at_all() {
        let mounts = [
            mount("/part", 1, "/directory"),
            mount("/a", 1, "/"),
            mount("/a-bound", 1, "/"),
            mount("/covered", 2, "/"),
            mount("/covered", 3, "/"),
            mount("/part-alone", 4, "/directory"),
        ];
        let places = |mounts: Vec<&Mounted>| mounts.iter().map(|one| one.at.clone()).collect();
        let (asked, unasked) = volumes(&mounts);
        let (asked, unasked): (Vec<_>, Vec<_>) = (places(asked), places(unasked));
        assert_eq!(asked, ["/a", "/covered"].map(PathBuf::from));
        assert_eq!(unasked, ["/covered", "/part-alone"].map(PathBuf::from));
    }

    #[test]
    fn a_directory_is_known_by_its_inode_and_by_its_path_where_none_is_told() {
        let here = std::env::temp_dir().canonicalize().unwrap();
        let directory = Directory::of(&here);
        let facts = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<Facts>()
        };
        let own = identity(&std::fs::metadata(&here).unwrap());
        let path = here.to_string_lossy();
        for (told, wanted) in [
            (facts(&[(LABEL, &own), ("below", "/elsewhere")]), true),
            (facts(&[(LABEL, "8:1:2"), ("below", &path)]), false),
            (facts(&[("below", &path)]), true),
            (facts(&[("below", "/elsewhere")]), false),
            (facts(&[("source", "memory:")]), false),
        ] {
            assert_eq!(directory.is_served(&told), wanted, "{told:?}");
        }
    }
}

//! Which Hearth mounts there are, and what each says of itself.

use crate::control_file;
use crate::mounts::{self, Mounted};
use rustix::fs::{StatVfs, major, minor, statvfs};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A mounted volume and where it shows, the oldest place first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub device: (u32, u32),
    pub places: Vec<PathBuf>,
}

/// What came of asking.
pub enum Said {
    /// It answered.
    Texts(Box<Texts>),
    /// Its daemon is gone, or answers with an error.
    Nothing,
    /// Not for this caller.
    Denied,
    /// Something else is mounted over it, or it was unmounted meanwhile.
    Hidden,
}

/// The control files, as far as there are such and the caller may read them.
pub struct Texts {
    pub at: PathBuf,
    pub stats: Option<String>,
    pub sched: Option<String>,
    pub quota: Option<String>,
    pub heat: Option<String>,
    pub locks: Option<String>,
    pub room: Option<StatVfs>,
}

/// The volumes that are mounted, all of them or those that show at one of `only`.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn targets(only: &[PathBuf]) -> std::io::Result<Vec<Target>> {
    let mut targets = grouped(mounts::of_hearth()?);
    if !only.is_empty() {
        for target in &mut targets {
            target.places.retain(|place| only.contains(place));
        }
        targets.retain(|target| !target.places.is_empty());
    }
    Ok(targets)
}

/// A volume that is bound to another place is one volume; a part of one has no control files.
fn grouped(mounted: Vec<Mounted>) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for mount in mounts::whole(&mounted) {
        let known = targets
            .iter_mut()
            .find(|target| target.device == mount.device);
        match known {
            Some(target) => target.places.push(mount.at.clone()),
            None => targets.push(Target {
                device: mount.device,
                places: vec![mount.at.clone()],
            }),
        }
    }
    targets
}

/// Asks a mount, at the first place that shows it. Does not return if it does not answer.
pub fn ask(target: &Target) -> Said {
    for place in &target.places {
        match std::fs::metadata(place) {
            Ok(root) if (major(root.dev()), minor(root.dev())) == target.device => {
                return texts(place);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Said::Denied,
            Err(_) => return Said::Nothing,
        }
    }
    Said::Hidden
}

fn texts(place: &Path) -> Said {
    let stats = match control_file::read(place, "stats") {
        Ok(text) => Some(text),
        // A directory of the host may have a `.hearth` of its own.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Said::Denied,
        Err(_) => return Said::Nothing,
    };
    let read = |name: &str| control_file::read(place, name).ok();
    // It costs a walk over records, for nothing where none are kept.
    let has_heat = |text: &String| text.lines().any(|line| line == "hearth_heat_on 1");
    let is_tracked = stats.as_ref().is_some_and(has_heat);
    Said::Texts(Box::new(Texts {
        at: place.to_owned(),
        heat: is_tracked.then(|| read("heat/tenants.json")).flatten(),
        stats,
        sched: read("sched.json"),
        quota: read("quota/report.json"),
        locks: read("locks.json"),
        room: statvfs(place).ok(),
    }))
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
            source: "memory:".into(),
        }
    }

    #[test]
    fn a_volume_counts_once_and_what_is_covered_not_at_all() {
        let list = vec![
            mount("/a", 1, "/"),
            mount("/a-bound", 1, "/"),
            mount("/part", 1, "/directory"),
            mount("/b", 2, "/"),
            mount("/b", 3, "/"),
        ];
        let target = |minor, places: &[&str]| Target {
            device: (0, minor),
            places: places.iter().map(PathBuf::from).collect(),
        };
        assert_eq!(
            grouped(list),
            [target(1, &["/a", "/a-bound"]), target(3, &["/b"])]
        );
    }
}

//! The targets that are compared, by name.

use super::room;
use crate::mounted::Mounted;
use crate::target::{Fresh, Library, Sharing, Subdirectory};
use crate::uring_switch::switched_on;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A target of which every run gets a fresh, empty one.
pub struct Contender {
    /// Its name in tables and rows.
    pub name: String,
    kind: Kind,
}

enum Kind {
    Library(Sharing),
    /// Every run gets a subdirectory; the mount, if it is one of ours, stays up meanwhile.
    Directory {
        place: PathBuf,
        _mount: Option<Mounted>,
    },
}

/// What `--target` takes besides a directory.
pub const NAMES: [&str; 8] = [
    "lib",
    "lib-shared",
    "lib-lowest",
    "mount",
    "mount-uring",
    "mount-dev",
    "tmpfs",
    "ext4",
];

impl Contender {
    /// The target `name`: one of [`NAMES`], or a directory.
    ///
    /// # Errors
    /// One line that says why it cannot be measured, and what to do.
    pub fn new(name: &str) -> Result<Contender, String> {
        let directory = |mount: Mounted| Kind::Directory {
            place: mount.directory().to_owned(),
            _mount: Some(mount),
        };
        let kind = match name {
            "lib" => Kind::Library(Sharing::Processes),
            "lib-shared" => Kind::Library(Sharing::PerCore),
            "lib-lowest" => Kind::Library(Sharing::Lowest),
            "mount" => directory(hearth("transport=auto")?),
            "mount-uring" => directory(hearth("transport=uring")?),
            "mount-dev" => directory(hearth("transport=dev")?),
            "tmpfs" => match Mounted::tmpfs() {
                Ok(mount) => directory(mount),
                Err(what) => Kind::Directory {
                    place: room::memory_directory().ok_or_else(|| {
                        format!("{what}; run as root, or name a directory on tmpfs")
                    })?,
                    _mount: None,
                },
            },
            "ext4" => directory(Mounted::ext4().map_err(|what| {
                format!("{what}; run as root with mkfs.ext4, or name a directory on ext4")
            })?),
            path if Path::new(path).is_dir() => Kind::Directory {
                place: path.into(),
                _mount: None,
            },
            other => {
                return Err(format!(
                    "target '{other}': not a directory, and none of {}",
                    NAMES.join(", ")
                ));
            }
        };
        let contender = Contender {
            name: name.to_owned(),
            kind,
        };
        match contender.directory() {
            Some(place) => room::check(place).map(|()| contender),
            None => Ok(contender),
        }
    }

    /// A fresh one, whose clients are as the name says: processes, unless it is a library whose
    /// threads share one.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn fresh(&self) -> Result<Box<dyn Fresh>, String> {
        Ok(match &self.kind {
            Kind::Library(sharing) => Box::new(Library::new(*sharing)?),
            Kind::Directory { place, .. } => Box::new(Subdirectory::new(place, false)?),
        })
    }

    /// A fresh one whose clients are threads of one process, with the lowest free descriptor.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn fresh_for_threads(&self) -> Result<Box<dyn Fresh>, String> {
        Ok(match &self.kind {
            Kind::Library(_) => Box::new(Library::new(Sharing::Lowest)?),
            Kind::Directory { place, .. } => Box::new(Subdirectory::new(place, true)?),
        })
    }

    /// Whether its clients are as processes, each with descriptors of its own.
    pub fn has_processes(&self) -> bool {
        !matches!(self.kind, Kind::Library(Sharing::PerCore | Sharing::Lowest))
    }

    /// Whether it is the library in process.
    pub fn is_library(&self) -> bool {
        matches!(self.kind, Kind::Library(_))
    }

    /// How many short runs make one: a fresh volume is made at once, a mount is not.
    pub fn turns(&self) -> u32 {
        if self.is_library() { 8 } else { 1 }
    }

    /// The length of one of them: twice as long together, as they are cheap.
    pub fn turn(&self, run: Duration) -> Duration {
        match self.turns() {
            1 => run,
            turns => 2 * run / turns,
        }
    }

    /// Where it is, if other programs can use it.
    pub fn directory(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Library(_) => None,
            Kind::Directory { place, .. } => Some(place),
        }
    }

    /// The daemon that serves it, if it is a mount of ours.
    pub fn daemon(&self) -> Option<u32> {
        match &self.kind {
            Kind::Directory {
                _mount: Some(mount),
                ..
            } => mount.daemon(),
            _ => None,
        }
    }
}

/// A volume in memory that the program `hearth` serves, with these options.
///
/// # Errors
/// It does not come up; one line with what it needs.
pub fn hearth(options: &str) -> Result<Mounted, String> {
    let program = program();
    // `auto` takes what it finds.
    let needs_switch = options.contains("transport=uring");
    let _on = needs_switch.then(switched_on).transpose()?;
    let served = Mounted::served("hearth", &|mountpoint| {
        let mut daemon = Command::new(&program);
        daemon.args(["mount", "-f", "-o", options, "memory:"]);
        daemon.arg(mountpoint);
        daemon
    });
    served.map_err(|what| format!("{what}; it needs /dev/fuse and {}", program.display()))
}

/// The program `hearth`: `HEARTH_BIN`, or the one beside this program.
pub fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().unwrap_or(&own).join("hearth");
    std::env::var_os("HEARTH_BIN").map_or(beside, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_no_directory_is_named_with_what_there_is() {
        let said = Contender::new("/no/such/place").err().unwrap();
        assert!(said.contains("'/no/such/place': not a directory"), "{said}");
        assert!(
            said.contains("lib-shared") && !said.contains('\n'),
            "{said}"
        );
        let said = Contender::new("libb").err().unwrap();
        assert!(said.contains("'libb'"), "{said}");
    }

    #[test]
    fn every_run_gets_an_empty_target() {
        let place = std::env::temp_dir().join(format!("hearth-test-{}-runs", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        for name in ["lib", "lib-lowest", &place.to_string_lossy()] {
            let contender = Contender::new(name).unwrap();
            for _ in 0..2 {
                for fresh in [contender.fresh(), contender.fresh_for_threads()] {
                    let fresh = fresh.unwrap();
                    crate::measure::apart(fresh.target(), &|client| {
                        assert_eq!(client.list(c"/").unwrap(), 0);
                        client.mkdir(c"/left")
                    })
                    .unwrap();
                }
            }
        }
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
        std::fs::remove_dir(&place).unwrap();
    }
}

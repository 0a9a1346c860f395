//! The targets that are compared, by name.

use crate::daemons::{UNCACHED, example, hearth, hearth_in_session, peer};
use crate::mounted::Mounted;
use crate::room;
use crate::target::{Fresh, Library, Sharing, Subdirectory};
use hearth::Volume;
use std::path::{Path, PathBuf};

/// A target of which every run gets a fresh, empty one.
pub struct Contender {
    pub name: String,
    source: Source,
}

/// Where fresh targets come from.
enum Source {
    Library(Sharing),
    /// Every run gets a volume that is opened for it, whose clients are processes.
    Volume(Box<dyn Fn() -> Result<Volume, String>>),
    /// Every run gets a subdirectory; the mount, if it is one of ours, stays up meanwhile.
    Directory {
        place: PathBuf,
        mount: Option<Mounted>,
    },
    /// Every run gets a mount of its own.
    Mount(Box<dyn Fn() -> Result<Mounted, String>>),
}

/// Targets that are in process, or whose mount stays up: what `--target` takes besides a directory.
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

/// Options of a mount that does not tell the daemon of opens; locks are not shared with the
/// library then.
const NO_OPEN: &str = "no_open,no_opendir,no_flush";

impl Contender {
    /// The target `name`: one of [`NAMES`], or a directory. An error says in one line why it cannot
    /// be measured, and what to do.
    pub fn new(name: &str) -> Result<Contender, String> {
        let directory = |mount: Mounted| Source::Directory {
            place: mount.directory().to_owned(),
            mount: Some(mount),
        };
        let source = match name {
            "lib" => Source::Library(Sharing::Processes),
            "lib-shared" => Source::Library(Sharing::PerCore),
            "lib-lowest" => Source::Library(Sharing::Lowest),
            "mount" => directory(hearth("transport=auto")?),
            "mount-uring" => directory(hearth("transport=uring")?),
            "mount-dev" => directory(hearth("transport=dev")?),
            "tmpfs" => match Mounted::tmpfs() {
                Ok(mount) => directory(mount),
                Err(what) => Source::Directory {
                    place: room::memory_directory().ok_or_else(|| {
                        format!("{what}; run as root, or name a directory on tmpfs")
                    })?,
                    mount: None,
                },
            },
            "ext4" => directory(Mounted::ext4().map_err(|what| {
                format!("{what}; run as root with mkfs.ext4, or name a directory on ext4")
            })?),
            path if Path::new(path).is_dir() => Source::Directory {
                place: path.into(),
                mount: None,
            },
            other => {
                let names = NAMES.join(", ");
                return Err(format!(
                    "target '{other}': not a directory, and none of {names}"
                ));
            }
        };
        let contender = Contender {
            name: name.to_owned(),
            source,
        };
        match contender.directory() {
            Some(place) => room::check(place).map(|()| contender),
            None => Ok(contender),
        }
    }

    /// The targets of these names; says which cannot be had. The first `needed` must be there.
    pub fn all(names: &[&str], needed: usize) -> Result<Vec<Contender>, String> {
        let mut all = Vec::new();
        for (n, name) in names.iter().enumerate() {
            match Contender::new(name) {
                Ok(contender) => all.push(contender),
                Err(what) if n < needed => return Err(what),
                Err(what) => println!("without {name}: {what}"),
            }
        }
        Ok(all)
    }

    /// A volume in process that is opened anew for every run.
    pub fn volume(name: &str, open: impl Fn() -> Result<Volume, String> + 'static) -> Contender {
        Contender {
            name: name.to_owned(),
            source: Source::Volume(Box::new(open)),
        }
    }

    /// A mount that is made anew for every run.
    pub fn mount(name: &str, make: impl Fn() -> Result<Mounted, String> + 'static) -> Contender {
        Contender {
            name: name.to_owned(),
            source: Source::Mount(Box::new(make)),
        }
    }

    /// Both transports with nothing cached by the kernel, and the peer if it was built.
    pub fn uncached_mounts() -> Vec<Contender> {
        let mut all = vec![
            daemon(
                "mount-uring-uncached",
                format!("transport=uring,{UNCACHED}"),
            ),
            daemon("mount-dev-uncached", format!("transport=dev,{UNCACHED}")),
        ];
        all.extend(peer_of("fuser", UNCACHED));
        all
    }

    /// Both transports by default and without opens, tmpfs, ext4, and the peer if it was built.
    pub fn default_mounts() -> Vec<Contender> {
        let mut all = vec![
            daemon("mount-uring", "transport=uring".into()),
            daemon("mount-dev", "transport=dev".into()),
            daemon("mount-uring-no-open", format!("transport=uring,{NO_OPEN}")),
            daemon("mount-dev-no-open", format!("transport=dev,{NO_OPEN}")),
            Contender::mount("tmpfs", Mounted::tmpfs),
            Contender::mount("ext4", Mounted::ext4),
        ];
        all.extend(peer_of("fuser-defaults", ""));
        all
    }

    /// Daemons in sessions of their own: both transports, by default and without the policy that
    /// leaves the client where it is; and tmpfs.
    pub fn session_mounts() -> Vec<Contender> {
        let mut all = Vec::new();
        for transport in ["uring", "dev"] {
            for (end, more) in [("", ""), ("-other", ",sched_policy=other")] {
                let options = format!("transport={transport}{more}");
                let make = move || hearth_in_session(&options);
                all.push(Contender::mount(&format!("{transport}-session{end}"), make));
            }
        }
        all.push(Contender::mount("tmpfs", Mounted::tmpfs));
        all
    }

    /// A fresh one, whose clients are as the name says: processes, unless it is a library whose
    /// threads share one.
    pub fn fresh(&self) -> Result<Box<dyn Fresh>, String> {
        let sharing = match &self.source {
            Source::Library(sharing) => *sharing,
            _ => Sharing::Processes,
        };
        self.fresh_as(sharing)
    }

    /// A fresh one whose clients are threads of one process, with the lowest free descriptor.
    pub fn fresh_for_threads(&self) -> Result<Box<dyn Fresh>, String> {
        self.fresh_as(Sharing::Lowest)
    }

    fn fresh_as(&self, sharing: Sharing) -> Result<Box<dyn Fresh>, String> {
        Ok(match &self.source {
            Source::Library(_) => Box::new(Library::new(sharing)?),
            Source::Volume(open) => Box::new(Library::of(open()?, sharing)?),
            Source::Directory { place, .. } => {
                Box::new(Subdirectory::new(place, sharing != Sharing::Processes)?)
            }
            Source::Mount(make) => Box::new(make()?),
        })
    }

    /// A fresh mount, where each run has one of its own.
    pub fn fresh_mount(&self) -> Result<Mounted, String> {
        match &self.source {
            Source::Mount(make) => make(),
            _ => Err("it has no mounts of its own".to_owned()),
        }
    }

    /// Whether its clients are as processes, each with descriptors of its own.
    pub fn has_processes(&self) -> bool {
        !matches!(
            self.source,
            Source::Library(Sharing::PerCore | Sharing::Lowest)
        )
    }

    /// Whether it is the library in process.
    pub fn is_library(&self) -> bool {
        matches!(self.source, Source::Library(_) | Source::Volume(_))
    }

    /// Where it is, if other programs can use it.
    pub fn directory(&self) -> Option<&Path> {
        match &self.source {
            Source::Directory { place, .. } => Some(place),
            _ => None,
        }
    }

    /// The daemon that serves it, if it is a mount of ours that stays up.
    pub fn daemon(&self) -> Option<u32> {
        match &self.source {
            Source::Directory { mount, .. } => mount.as_ref().and_then(Mounted::daemon),
            _ => None,
        }
    }
}

fn daemon(name: &str, options: String) -> Contender {
    Contender::mount(name, move || hearth(&options))
}

fn peer_of(name: &str, options: &'static str) -> Option<Contender> {
    let program = example("fuser_peer")?;
    Some(Contender::mount(name, move || peer(&program, options)))
}

/// The names of all.
pub fn names(contenders: &[Contender]) -> Vec<String> {
    contenders.iter().map(|one| one.name.clone()).collect()
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

//! Where what must outlive a mount lies: `DIR/KEY/{heat,quota}`, beside the served directory and
//! never in it. `docs/design/host.md` has the rules.

use crate::attributes;
use crate::error::OpenError;
use crate::fnv::fnv;
use crate::identity::Identity;
use crate::sys;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::fstatvfs;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The state directory of one served directory. It is made by the first file.
#[derive(Clone, Debug)]
pub struct StateDir {
    /// Where those of all served directories are.
    base: PathBuf,
    path: PathBuf,
    source: PathBuf,
    /// Which filesystem the directory is on, as it is written.
    filesystem: String,
}

impl StateDir {
    /// That of `source`, which is open as `root`: below `base`, or below the usual directory.
    ///
    /// # Errors
    /// There is no usual one for this user, or it lies in the served directory.
    pub fn of(
        source: &Path,
        root: BorrowedFd<'_>,
        base: Option<&Path>,
    ) -> Result<StateDir, OpenError> {
        let usual = || usual(std::env::var_os);
        let base = base.map(Path::to_path_buf).or_else(usual);
        let Some(base) = base else {
            return Err(OpenError::NoState);
        };
        let stat = attributes::stat(root).map_err(|errno| OpenError::Io {
            path: source.to_owned(),
            error: errno.into(),
        })?;
        let id = Identity::of(root, &stat);
        if lies_in(&base, &id) {
            return Err(OpenError::StateInside { path: base });
        }
        let mut who = filesystem(root, &id);
        let filesystem = who.iter().map(|byte| format!("{byte:02x}")).collect();
        id.put(&mut who);
        Ok(StateDir {
            path: base.join(format!("{:016x}", fnv(&who))),
            base,
            source: source.to_owned(),
            filesystem,
        })
    }

    /// Makes the directory, if it is not there, and writes down that its source is served. Returns
    /// whether the source was a directory of another filesystem when it was served last: that one
    /// may be meant, and not be mounted.
    ///
    /// # Errors
    /// It cannot be written to.
    pub fn prepare(&self) -> Result<bool, OpenError> {
        let last = self.served_last();
        let prepared = self
            .make()
            .and_then(|()| self.replace("source", &self.about()));
        prepared.map_err(|error| OpenError::State {
            path: self.base.clone(),
            error,
        })?;
        Ok(last.is_some_and(|last| last != self.filesystem))
    }

    /// What is written of the source: its path, for people too, and its filesystem.
    fn about(&self) -> Vec<u8> {
        let path = self.source.as_os_str().as_bytes();
        [path, b"\nfilesystem ", self.filesystem.as_bytes(), b"\n"].concat()
    }

    /// The filesystem of the directory of this name that was served last, if it is known.
    fn served_last(&self) -> Option<String> {
        let states = fs::read_dir(&self.base).ok()?.filter_map(Result::ok);
        let served = states.filter_map(|state| {
            let file = state.path().join("source");
            let about = fs::read(&file).ok()?;
            let rest = about.strip_prefix(self.source.as_os_str().as_bytes())?;
            let filesystem = str::from_utf8(rest).ok()?.strip_prefix("\nfilesystem ")?;
            let time = fs::metadata(&file).and_then(|file| file.modified()).ok()?;
            Some((time, filesystem.trim_end().to_owned()))
        });
        served.max().map(|(_, filesystem)| filesystem)
    }

    /// Whether this user may read it, or make it. Of another user's nothing is said.
    pub fn is_readable(&self) -> bool {
        let error = fs::metadata(&self.path).err().map(|error| error.kind());
        error != Some(io::ErrorKind::PermissionDenied)
    }

    /// The contents of a file; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Replaces a file: the old one or the new one is there at any time, also after a crash.
    ///
    /// # Errors
    /// The old one is there still.
    pub fn replace(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.make()?;
        let new = self.path.join(format!("{name}.new"));
        let mut open = OpenOptions::new();
        open.create(true).truncate(true).write(true).mode(0o600);
        let mut file = open.open(&new)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(name))?;
        File::open(&self.path)?.sync_all()
    }

    /// Puts a file aside that cannot be used.
    pub fn put_aside(&self, name: &str) {
        // One that cannot be moved is replaced by the next.
        let _ = fs::rename(self.path.join(name), self.path.join(format!("{name}.bad")));
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory. What users do is for their eyes.
    fn make(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        make_durably(&self.path)?;
        fs::write(self.path.join("source"), self.about())
    }
}

/// Makes a directory for its owner, and what lacks above it: names that a power cut leaves there.
///
/// # Errors
/// Those of the filesystem.
pub fn make_durably(path: &Path) -> io::Result<()> {
    let lacking: Vec<_> = path
        .ancestors()
        .take_while(|above| !above.exists())
        .collect();
    let mut make = DirBuilder::new();
    make.recursive(true).mode(0o700).create(path)?;
    for parent in lacking.iter().filter_map(|made| made.parent()) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Where state lies if nothing is said: where systemd says, else for root in one place, whoever
/// became root how. Relative paths are to be ignored, say both specifications.
fn usual(variable: impl Fn(&'static str) -> Option<OsString>) -> Option<PathBuf> {
    let directory = |name, rest: &str| {
        let value = variable(name)?;
        // Of several directories of a unit the first is ours.
        let first = std::env::split_paths(&value).next()?;
        first.is_absolute().then(|| first.join(rest))
    };
    let of_user = || {
        let state = directory("XDG_STATE_HOME", "hearth");
        state.or_else(|| directory("HOME", ".local/state/hearth"))
    };
    directory("STATE_DIRECTORY", "").or_else(|| match rustix::process::geteuid().is_root() {
        true => Some("/var/lib/hearth".into()),
        false => of_user(),
    })
}

/// Which filesystem it is, on whatever device it is found next time.
fn filesystem(root: BorrowedFd<'_>, id: &Identity) -> Vec<u8> {
    if let Some(uuid) = sys::filesystem_uuid(root) {
        return uuid;
    }
    let number = fstatvfs(root).map_or(id.dev, |stat| stat.f_fsid);
    number.to_le_bytes().to_vec()
}

/// Whether a path, or what is there of it, lies in a directory. Not by name: it may have several,
/// and a link may lead into it.
fn lies_in(path: &Path, directory: &Identity) -> bool {
    let real = path
        .ancestors()
        .find_map(|above| fs::canonicalize(above).ok());
    let real = real.unwrap_or_default();
    path.ancestors().chain(real.ancestors()).any(|above| {
        let Ok(file) = File::open(above) else {
            return false;
        };
        let stat = attributes::stat(file.as_fd());
        stat.is_ok_and(|stat| Identity::of(file.as_fd(), &stat).is_same_inode(directory))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_place_is_that_of_the_user() {
        let usual_of = |unit: Option<&'static str>, xdg, home| {
            usual(move |name| {
                let value = match name {
                    "STATE_DIRECTORY" => unit,
                    "XDG_STATE_HOME" => xdg,
                    _ => home,
                };
                value.map(Into::into)
            })
        };
        let of_unit = usual_of(Some("/u:/v"), Some("/x"), Some("/h"));
        assert_eq!(of_unit, Some("/u".into()));
        let usual = |xdg: Option<&'static str>, home: Option<&'static str>| {
            assert_eq!(
                usual_of(Some("relative"), xdg, home),
                usual_of(None, xdg, home)
            );
            usual_of(None, xdg, home)
        };
        if rustix::process::geteuid().is_root() {
            let expected = Some("/var/lib/hearth".into());
            assert_eq!(usual(Some("/x"), Some("/h")), expected);
            return;
        }
        assert_eq!(usual(Some("/x"), Some("/h")), Some("/x/hearth".into()));
        let of_home = Some("/h/.local/state/hearth".into());
        assert_eq!(usual(Some("relative"), Some("/h")), of_home);
        assert_eq!(usual(None, None), None);
    }

    #[test]
    fn a_directory_keeps_its_state_under_another_name_and_another_one_has_its_own() {
        let temporary = std::env::temp_dir().join(format!("hearth-state-{}", std::process::id()));
        let at = |name: &str| temporary.join(name);
        for name in ["one", "two", "base"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let of = |name: &str| {
            let root = File::open(at(name)).unwrap();
            StateDir::of(&at(name), root.as_fd(), Some(&at("base"))).unwrap()
        };
        let one = of("one");
        let mut elsewhere = of("one");
        elsewhere.filesystem.push('0');
        elsewhere.path = at("base/elsewhere");
        let is_elsewhere = [&one, &one, &elsewhere, &one].map(|state| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            state.prepare().unwrap()
        });
        assert_eq!(is_elsewhere, [false, false, true, true]);
        one.replace("heat", b"warm").unwrap();
        assert_ne!(of("two").path(), one.path());
        assert_eq!(of("two").read("heat").unwrap(), None);
        fs::rename(at("one"), at("renamed")).unwrap();
        assert_eq!(of("renamed").read("heat").unwrap().unwrap(), b"warm");
        let root = File::open(&temporary).unwrap();
        let inside = StateDir::of(&temporary, root.as_fd(), Some(&at("base/deeper/still")));
        assert!(matches!(inside, Err(OpenError::StateInside { .. })));
        std::os::unix::fs::symlink(at("renamed/deeper"), at("link")).unwrap();
        fs::create_dir_all(at("renamed/deeper")).unwrap();
        let root = File::open(at("renamed")).unwrap();
        let inside = StateDir::of(&at("renamed"), root.as_fd(), Some(&at("link/still")));
        assert!(matches!(inside, Err(OpenError::StateInside { .. })));
        fs::remove_dir_all(&temporary).unwrap();
    }
}

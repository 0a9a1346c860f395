//! Where metrics are served: a unix socket, or a port of the loopback.

use crate::failure::{Failure, reason};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::process::umask;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// How long one read or write of a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a socket: its owner and its group may connect.
const OTHERS: Mode = Mode::from_raw_mode(0o117);

/// A place to listen, as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// `unix:PATH`
    Unix(PathBuf),
    /// `127.0.0.1:PORT`
    Tcp(SocketAddr),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("give the path of the socket, unix:/run/hearth/metrics.sock".to_owned()),
                _ => Ok(Listen::Unix(path.into())),
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Listen::Tcp(address)),
            Ok(_) => Err(
                "other machines would reach it, and nobody is asked for a password; listen on \
                 127.0.0.1 and put a proxy before it"
                    .to_owned(),
            ),
            Err(_) => Err("give unix:PATH or 127.0.0.1:PORT".to_owned()),
        }
    }
}

/// A place where connections arrive.
pub enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// Names the place and says what to do.
    pub fn bind(place: &Listen) -> Result<Listener, Failure> {
        match place {
            Listen::Unix(path) => unix(path),
            Listen::Tcp(address) => tcp(*address),
        }
    }

    /// Where, for people and for `curl`.
    pub fn shown(&self) -> String {
        match self {
            Listener::Unix(_, file) => format!("unix:{}", file.path.display()),
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("http://{address}/metrics"),
                Err(error) => reason(&error),
            },
        }
    }

    /// The next connection, with a limit on every read and write.
    ///
    /// # Errors
    /// What the kernel answers; the next one may come all the same.
    pub fn accept(&self) -> std::io::Result<File> {
        let some = Some(PATIENCE);
        let connection: OwnedFd = match self {
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_read_timeout(some)?;
                stream.set_write_timeout(some)?;
                stream.into()
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_read_timeout(some)?;
                stream.set_write_timeout(some)?;
                stream.into()
            }
        };
        Ok(connection.into())
    }
}

/// The file of a socket.
#[derive(Clone)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode, by which a successor's file is told from ours.
    identity: (u64, u64),
}

impl SocketFile {
    /// Removes it, unless another server has taken its place.
    pub fn remove(&self) {
        let now = std::fs::symlink_metadata(&self.path);
        if now.is_ok_and(|now| (now.dev(), now.ino()) == self.identity) {
            // Whoever comes next takes over what is left.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn tcp(address: SocketAddr) -> Result<Listener, Failure> {
    let refused = |error: Error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program listens there, 'ss -ltnp' shows which; give another port, or 0 \
                 for a free one"
                    .to_owned()
            }
            ErrorKind::PermissionDenied => "ports below 1024 need root; give another".to_owned(),
            _ => format!("{}; give 127.0.0.1:PORT", reason(&error)),
        };
        Failure::refused(format!("{address}: {remedy}"))
    };
    TcpListener::bind(address)
        .map(Listener::Tcp)
        .map_err(refused)
}

fn unix(path: &Path) -> Result<Listener, Failure> {
    let failed = |error: &Error| match error.kind() {
        ErrorKind::InvalidInput => Failure::at(
            path,
            "too long for a socket; give a path of at most 107 bytes",
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            let what = "give a path in a directory that you may write to";
            Failure::at(path, format!("{}; {what}", reason(error)))
        }
        _ => Failure::at(path, format!("{}; give another path", reason(error))),
    };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let lock = File::open(directory).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let what = format!("no directory {0}; mkdir -p {0}", directory.display());
            Failure::at(path, what)
        }
        _ => failed(&error),
    })?;
    // Of two servers that find the same file left behind, the second finds the first alive. A
    // filesystem without such locks has no lock to wait for.
    let _ = flock(&lock, FlockOperation::LockExclusive);
    free(path)?;
    // Before there are other threads: nobody else makes files meanwhile.
    let before = umask(OTHERS);
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound.map_err(|error| failed(&error))?;
    let made = std::fs::symlink_metadata(path).map_err(|error| failed(&error))?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: (made.dev(), made.ino()),
    };
    Ok(Listener::Unix(listener, file))
}

/// Removes a socket that a killed server left behind.
fn free(path: &Path) -> Result<(), Failure> {
    let Ok(there) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return Err(Failure::at(
            path,
            "is there and is no socket; give a path of its own",
        ));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            let failed = |error: Error| {
                let what = format!("left behind, and stays: {}; remove it", reason(&error));
                Failure::at(path, what)
            };
            std::fs::remove_file(path).map_err(failed)
        }
        _ => Err(Failure::at(
            path,
            "another program listens there, 'ss -lxp' shows which; end it, or give another path",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_understood() {
        let tcp = |text: &str| Ok(Listen::Tcp(text.parse().unwrap()));
        assert_eq!(
            "unix:/run/h.sock".parse(),
            Ok(Listen::Unix("/run/h.sock".into()))
        );
        assert_eq!("127.0.0.1:0".parse(), tcp("127.0.0.1:0"));
        assert_eq!("[::1]:9749".parse(), tcp("[::1]:9749"));
    }

    #[test]
    fn a_place_that_cannot_be_is_refused_with_the_remedy() {
        for (typed, remedy) in [
            ("unix:", "unix:/run/hearth/metrics.sock"),
            ("9749", "127.0.0.1:PORT"),
            (":9749", "127.0.0.1:PORT"),
            ("127.0.0.1:65536", "127.0.0.1:PORT"),
            ("localhost", "127.0.0.1:PORT"),
            ("0.0.0.0:9749", "a proxy before it"),
            ("[::]:9749", "a proxy before it"),
        ] {
            let said = typed.parse::<Listen>().unwrap_err();
            assert!(said.contains(remedy), "{typed}: {said}");
        }
    }
}

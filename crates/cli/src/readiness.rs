//! Telling the service manager that the mount works: the protocol of sd_notify(3).

use crate::failure::reason;
use crate::output;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const SOCKET: &str = "NOTIFY_SOCKET";

/// Says so on the socket that the manager named, if it did. A manager that does not hear it ends
/// the daemon, so the reason is in its log.
pub fn tell() {
    let Some(name) = std::env::var_os(SOCKET) else {
        return;
    };
    if let Err(error) = send(&name, b"READY=1") {
        output::say(format_args!(
            "{SOCKET}={}: {}; the service manager is not told",
            name.display(),
            reason(&error)
        ));
    }
}

/// A name that begins with `@` is in the abstract namespace, any other is a path.
fn send(name: &OsString, state: &[u8]) -> std::io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state, &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_either_kind_is_told() {
        let name = format!("hearth-readiness-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let at_path = UnixDatagram::bind(&path).expect("a socket");
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let without_path = UnixDatagram::bind_addr(&address).expect("a socket");
        for (socket, name) in [
            (at_path, path.clone().into_os_string()),
            (without_path, format!("@{name}").into()),
        ] {
            send(&name, b"READY=1").expect("sent");
            let mut heard = [0; 16];
            let length = socket.recv(&mut heard).expect("heard");
            assert_eq!(&heard[..length], b"READY=1");
            drop(socket);
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(send(&path.into_os_string(), b"READY=1").is_err());
    }
}

//! `hearth umount`.

use crate::args::UmountArgs;
use crate::failure::Failure;
use crate::mounts;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::path::Path;
use std::process::Command;

/// Unmounts a volume.
pub fn run(args: &UmountArgs) -> Result<(), Failure> {
    let place = mounts::resolved(&args.mountpoint);
    let failed = |what: &str| Failure::at(&args.mountpoint, what);
    match mounts::at(&place) {
        Ok(Some(mounted)) if mounted.is_ours() => {}
        Ok(Some(mounted)) => {
            return Err(failed(&format!(
                "is a mount of {}, not of Hearth; use 'umount {}'",
                mounted.kind,
                place.display()
            )));
        }
        Ok(None) => {
            return Err(failed(
                "nothing is mounted here; 'findmnt -t fuse.hearth' lists the volumes",
            ));
        }
        Err(error) => return Err(Failure::at(Path::new("/proc/self/mountinfo"), error)),
    }
    detach(&place, args.lazy).map_err(|what| failed(&what))
}

/// Takes the topmost mount off `place`: with the system call for root, with `fusermount3` for
/// others. The error says what to do.
pub fn detach(place: &Path, lazy: bool) -> Result<(), String> {
    let flags = if lazy {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match unmount(place, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(place)),
        Err(Errno::PERM) => by_fusermount(place, lazy),
        Err(error) => Err(format!("cannot be unmounted: {error}")),
    }
}

fn by_fusermount(place: &Path, lazy: bool) -> Result<(), String> {
    let mut command = Command::new("fusermount3");
    command
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(place);
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("busy") {
                return Err(busy(place));
            }
            let said = said.lines().next().unwrap_or("fusermount3 failed");
            Err(format!(
                "{said}; unmount it as root or as the user who mounted it"
            ))
        }
        Err(_) => Err("only root unmounts without fusermount3; apt-get install fuse3".to_owned()),
    }
}

fn busy(place: &Path) -> String {
    let place = place.display();
    format!("is in use; 'fuser -vm {place}' shows by whom, --lazy detaches it anyway")
}

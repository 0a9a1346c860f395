//! One volume, used by this program as a library and by other programs through a mount at the same
//! time.
//!
//! `cargo run --example embed_and_mount [MOUNTPOINT]`; without an argument it mounts in a temporary
//! directory.
//!
//! The rule to keep: this program uses the volume through `hearth::Process` only. If it held a file
//! of its own mount open by a system call, the kernel would wait for this program to answer while
//! it exits. Order of the ends: files and processes of the library, then the session (which
//! unmounts), then the volume.

use hearth::{Credentials, Volume};
use hearth_fuse::{MountOptions, Session};
use std::path::{Path, PathBuf};
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let (mountpoint, own) = match std::env::args().nth(1) {
        Some(path) => (PathBuf::from(path), false),
        None => (
            std::env::temp_dir().join(format!("hearth-{}", std::process::id())),
            true,
        ),
    };
    if own {
        std::fs::create_dir(&mountpoint)?;
    }
    let result = run(&mountpoint);
    if own {
        std::fs::remove_dir(&mountpoint)?;
    }
    result
}

fn run(mountpoint: &Path) -> Result<(), Failure> {
    let volume = Volume::memory();
    let process = volume.process(Credentials::root());
    write(&process, "/hello", b"written through the library\n")?;

    let session = Session::start(volume.clone(), mountpoint, MountOptions::default())?;
    println!(
        "mounted at {} over {}",
        mountpoint.display(),
        session.transport()
    );

    let seen = Command::new("cat").arg(mountpoint.join("hello")).output()?;
    print!(
        "another program reads: {}",
        String::from_utf8_lossy(&seen.stdout)
    );
    assert_eq!(seen.stdout, b"written through the library\n");

    write(&process, "/hello", b"changed behind the kernel\n")?;
    let seen = Command::new("cat").arg(mountpoint.join("hello")).output()?;
    print!(
        "after a change it reads: {}",
        String::from_utf8_lossy(&seen.stdout)
    );
    assert_eq!(seen.stdout, b"changed behind the kernel\n");

    let script = "printf 'written through the mount' > reply && sync reply";
    let status = Command::new("sh")
        .args(["-c", script])
        .current_dir(mountpoint)
        .status()?;
    assert!(status.success());
    let fd = process.open("/reply", libc::O_RDONLY, 0)?;
    let mut reply = [0; 64];
    let len = process.read(fd, &mut reply)?;
    process.close(fd)?;
    println!(
        "this program reads: {}",
        String::from_utf8_lossy(&reply[..len])
    );
    assert_eq!(&reply[..len], b"written through the mount");

    session.unmount()?;
    println!("unmounted");
    Ok(())
}

fn write(process: &hearth::Process, path: &str, text: &[u8]) -> Result<(), hearth::Errno> {
    let fd = process.open(path, libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY, 0o644)?;
    process.write(fd, text)?;
    process.close(fd)
}

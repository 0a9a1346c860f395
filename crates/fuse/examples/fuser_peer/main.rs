//! The same filesystem behind another FUSE implementation: second opinion of the tests, peer of the
//! benchmarks.
//!
//! `fuser_peer MOUNTPOINT [-o OPTIONS]` with the options of a Hearth mount as far as they apply
//! (timeouts, writeback, readdirplus). Prints `ready fuser` when the mount answers; ends when it is
//! unmounted or the standard input ends. One thread per CPU with a cloned descriptor each, which is
//! the fastest that fuser has.

mod convert;
mod filesystem;
mod peer;

use fuser::{Config, MountOption, SessionACL};
use hearth::Volume;
use hearth_fuse::MountOptions;
use peer::Peer;
use std::io::Read;

type Failure = Box<dyn std::error::Error>;

fn main() {
    if let Err(error) = run() {
        eprintln!("fuser_peer: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "-o").collect();
    let mountpoint = given
        .first()
        .ok_or("usage: fuser_peer MOUNTPOINT [-o OPTIONS]")?;
    let options = MountOptions::parse(&given[1..])?;
    let volume = options.volume(Volume::builder()).build()?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("peer".to_owned()),
        MountOption::Subtype("hearth-peer".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::Dev,
        MountOption::Suid,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(std::thread::available_parallelism()?.get());
    config.clone_fd = true;
    let peer = Peer::new(volume.vfs(), options);
    let session = fuser::spawn_mount(peer, mountpoint, &config)?;
    println!("ready fuser");
    // Whoever started this program closes its end when it is done with the mount.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    session.umount_and_join()?;
    Ok(())
}

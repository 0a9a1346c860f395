//! The least that a FUSE server can do: what a program takes on it is the kernel's, and the price
//! of the protocol. The benchmark `requests` measures beside it.
//!
//! `floor MOUNTPOINT BYTES`: one directory of files without contents, with room for so many bytes.
//! Every request is answered at once from a table in memory; what is written is dropped, and reads
//! get zeros. Prints `ready floor` when the mount works; ends when the standard input does. One
//! thread per CPU with a cloned descriptor each.

mod flat;

use flat::Flat;
use fuser::{Config, MountOption, SessionACL};
use std::io::Read;

type Failure = Box<dyn std::error::Error>;

fn main() {
    if let Err(error) = run() {
        eprintln!("floor: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [mountpoint, bytes] = &given[..] else {
        return Err("usage: floor MOUNTPOINT BYTES".into());
    };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("floor".to_owned()),
        // Rights are checked, as on any other filesystem: the kernel asks for modes to do it.
        MountOption::DefaultPermissions,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(std::thread::available_parallelism()?.get());
    config.clone_fd = true;
    let session = fuser::spawn_mount(Flat::new(bytes.parse()?), mountpoint, &config)?;
    println!("ready floor");
    // The program that started this one closes its end when it is done with the mount.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // Whoever has taken the mount away has ended the session as well.
    let _ = session.umount_and_join();
    Ok(())
}

//! Serves a volume in memory on a mount point until it is unmounted: the daemon of this crate's tests.
//!
//! `serve MOUNTPOINT [-o OPTIONS]`. Prints `ready TRANSPORT` when the mount answers. Lines on the standard input change
//! the volume through the library, as a program would that embeds and mounts it; see `command`.

use hearth::{Credentials, Process, Volume};
use hearth_fuse::{MountOptions, Session};
use std::io::BufRead;
use std::path::Path;

type Failure = Box<dyn std::error::Error>;

fn main() {
    if let Err(error) = run() {
        eprintln!("serve: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let mountpoint = args.next().ok_or("usage: serve MOUNTPOINT [-o OPTIONS]")?;
    let given: Vec<String> = args.filter(|arg| arg != "-o").collect();
    let options = MountOptions::parse(&given)?;
    let volume = options.volume(Volume::builder()).build()?;
    let process = volume.process(Credentials::root());
    let session = Session::start(volume.clone(), Path::new(&mountpoint), options)?;
    println!("ready {}", session.transport());
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            match command(&process, &words) {
                Ok(answer) => println!("ok {answer}"),
                Err(error) => println!("error {error}"),
            }
        }
    });
    session.wait();
    volume.sync()?;
    Ok(())
}

/// `write PATH TEXT`, `read PATH`, `create PATH`, `unlink PATH`, `rename FROM TO`, `chmod PATH OCTAL`.
fn command(process: &Process, words: &[&str]) -> Result<String, Failure> {
    let path = words.get(1).copied().unwrap_or("/");
    let argument = words.get(2).copied().unwrap_or_default();
    match words[0] {
        "write" => {
            let fd = process.open(path, libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY, 0o644)?;
            process.write(fd, argument.as_bytes())?;
            process.close(fd)?;
        }
        "read" => {
            let fd = process.open(path, libc::O_RDONLY, 0)?;
            let mut buffer = vec![0; 65_536];
            let size = process.read(fd, &mut buffer)?;
            process.close(fd)?;
            return Ok(String::from_utf8_lossy(&buffer[..size]).into_owned());
        }
        "create" => {
            let fd = process.open(path, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY, 0o644)?;
            process.close(fd)?;
        }
        "unlink" => process.unlink(path)?,
        "rename" => process.rename(path, argument)?,
        "chmod" => process.chmod(path, u32::from_str_radix(argument, 8)? as u16)?,
        other => return Err(format!("no such command: {other}").into()),
    }
    Ok(String::new())
}

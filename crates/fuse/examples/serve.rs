//! Serves a volume in memory until it is unmounted or the standard input ends: the daemon of this
//! crate's tests.
//!
//! `serve MOUNTPOINT [-o OPTIONS]`. Prints `ready TRANSPORT` when the mount answers. Lines on the
//! standard input change the volume through the library, as a program does that embeds and mounts
//! it; see `command`.

use hearth::{Clock, Credentials, Process, SystemClock, Time, Volume};
use hearth_fuse::{MountOptions, Session};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Failure = Box<dyn std::error::Error>;

fn main() {
    if let Err(error) = run() {
        eprintln!("serve: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "-o").collect();
    if given.is_empty() {
        return Err("usage: serve MOUNTPOINT [-o OPTIONS]".into());
    }
    let options = MountOptions::parse(&given[1..])?;
    let volume = options.volume(Volume::builder()).clock(Fragile).build()?;
    let process = volume.process(Credentials::root());
    let session = Arc::new(Session::start(volume, Path::new(&given[0]), options)?);
    println!("ready {}", session.transport());
    let control = Arc::clone(&session);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            match command(&process, &words) {
                Ok(answer) => println!("ok {answer}"),
                Err(error) => println!("error {error}"),
            }
        }
        if let Err(error) = control.unmount() {
            eprintln!("serve: {error}");
            std::process::exit(1);
        }
    });
    session.wait();
    Ok(())
}

/// `write PATH TEXT`, `read PATH`, `create PATH`, `unlink PATH`, `rename FROM TO`, `chmod PATH
/// OCTAL`; `break` and `repair` the clock, which panics meanwhile.
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
        "chmod" => process.chmod(path, u16::from_str_radix(argument, 8)?)?,
        "break" => BROKEN.store(true, Ordering::SeqCst),
        "repair" => BROKEN.store(false, Ordering::SeqCst),
        other => return Err(format!("no such command: {other}").into()),
    }
    Ok(String::new())
}

/// The system's clock, until it is broken.
struct Fragile;

static BROKEN: AtomicBool = AtomicBool::new(false);

impl Clock for Fragile {
    fn now(&self) -> Time {
        assert!(!BROKEN.load(Ordering::SeqCst), "the clock fell down");
        SystemClock.now()
    }
}

//! Serves a volume in memory until it is unmounted or the standard input ends: the daemon of this
//! crate's tests.
//!
//! `serve MOUNTPOINT [-o OPTIONS] [--slow] [--no-workers] [--small]`. With `--slow` the volume has
//! a backend that objects can be evicted to, and that takes its time; with `--no-workers` it has no
//! threads of its own; with `--small` it is built with room for 1 MiB, which the mount is not told.
//! Prints `ready TRANSPORT` when the mount works. Lines on the standard input change the volume
//! through the library, as a program does that embeds and mounts it; see `command`.

use hearth::backend::TestBackend;
use hearth::{Clock, Credentials, Errno, Process, SystemClock, Time, Volume};
use hearth_fuse::{MountOptions, Session};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;
/// What commands need besides a process.
type Rest = (Volume, Option<Arc<TestBackend>>);

fn main() {
    if let Err(error) = run() {
        eprintln!("serve: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let mut given: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "-o").collect();
    let mut flag = |name: &str| {
        let at = given.iter().position(|arg| arg == name);
        at.map(|at| given.remove(at)).is_some()
    };
    let backend = flag("--slow").then(|| Arc::new(TestBackend::new()));
    let no_workers = flag("--no-workers");
    let small = flag("--small");
    if given.is_empty() {
        return Err("usage: serve MOUNTPOINT [-o OPTIONS]".into());
    }
    let options = MountOptions::parse(&given[1..])?;
    let mut builder = options.volume(Volume::builder()).clock(Fragile);
    if let Some(backend) = &backend {
        builder = builder.backend(Arc::clone(backend));
    }
    if no_workers {
        builder = builder.workers(0);
    }
    if small {
        builder = builder.size(1 << 20);
    }
    let volume = builder.build()?;
    let rest = (volume.clone(), backend);
    let process = volume.process(Credentials::root());
    let session = Arc::new(Session::start(volume, Path::new(&given[0]), options)?);
    println!("ready {}", session.transport());
    let control = Arc::clone(&session);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            match command(&process, &rest, &words) {
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

/// `write PATH TEXT`, `append PATH TEXT`, `read PATH`, `create PATH`, `unlink PATH`, `rename FROM
/// TO`, `exchange ONE OTHER`, `link FROM TO`, `symlink TARGET PATH`, `mkdir PATH`, `rmdir PATH`,
/// `truncate PATH SIZE`, `chmod PATH OCTAL`, `chown PATH UID`, `acl PATH HEX` (the ACL as its
/// attribute), `lock PATH` (prints a descriptor, or `refused`) and `unlock DESCRIPTOR`; `evict`
/// everything, `delay MS`, `fail CALL` and `crash CALL` of the backend; `background` work, once;
/// `break` and `repair` the clock, which panics meanwhile.
fn command(process: &Process, rest: &Rest, words: &[&str]) -> Result<String, Failure> {
    let path = words.get(1).copied().unwrap_or("/");
    let argument = words.get(2).copied().unwrap_or_default();
    match words[0] {
        "write" => {
            let fd = process.open(path, libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY, 0o644)?;
            process.write(fd, argument.as_bytes())?;
            process.close(fd)?;
        }
        "append" => {
            let fd = process.open(path, libc::O_APPEND | libc::O_WRONLY, 0)?;
            process.write(fd, argument.as_bytes())?;
            process.close(fd)?;
        }
        "mtime" => {
            let hearth::Time { sec, nsec } = process.stat(path)?.mtime;
            return Ok(format!("{sec}.{nsec:09}"));
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
        "lock" => {
            let fd = process.open(path, libc::O_RDWR, 0)?;
            match process.flock(fd, libc::LOCK_EX | libc::LOCK_NB) {
                Ok(()) => return Ok(fd.to_string()),
                Err(Errno::EAGAIN) => process.close(fd)?,
                Err(errno) => return Err(errno.into()),
            }
            return Ok("refused".to_owned());
        }
        "unlock" => process.close(path.parse()?)?,
        "exchange" => {
            let here = hearth::AT_FDCWD;
            process.renameat2(here, path, here, argument, libc::RENAME_EXCHANGE)?;
        }
        "link" => process.link(path, argument)?,
        "symlink" => process.symlink(path, argument)?,
        "mkdir" => process.mkdir(path, 0o755)?,
        "rmdir" => process.rmdir(path)?,
        "truncate" => process.truncate(path, argument.parse()?)?,
        "chown" => process.chown(path, Some(argument.parse()?), None)?,
        "acl" => {
            let digits = argument.as_bytes().chunks(2);
            let byte = |two: &[u8]| Ok(u8::from_str_radix(std::str::from_utf8(two)?, 16)?);
            let value: Result<Vec<u8>, Failure> = digits.map(byte).collect();
            process.setxattr(path, b"system.posix_acl_access", &value?, 0)?;
        }
        "chmod" => process.chmod(path, u16::from_str_radix(argument, 8)?)?,
        "evict" => {
            rest.0.sync()?;
            return Ok(rest.0.reclaim(u64::MAX / 2).to_string());
        }
        "delay" => {
            let backend = rest.1.as_ref().ok_or("no --slow backend")?;
            backend.set_delay(Duration::from_millis(path.parse()?));
        }
        "fail" => {
            let backend = rest.1.as_ref().ok_or("no --slow backend")?;
            let failing = path.to_owned();
            backend.set_fault(Some(Box::new(move |call| {
                names(&failing, call).then_some(Errno::EIO)
            })));
        }
        "crash" => {
            let backend = rest.1.as_ref().ok_or("no --slow backend")?;
            let crashing = path.to_owned();
            backend.set_fault(Some(Box::new(move |call| {
                assert!(!names(&crashing, call), "the backend fell down");
                None
            })));
        }
        "background" => rest.0.run_background_once(),
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

/// Whether `call` is one of those with commas between them.
fn names(calls: &str, call: &str) -> bool {
    calls.split(',').any(|one| one == call)
}

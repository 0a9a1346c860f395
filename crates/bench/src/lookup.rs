//! What a `stat` of a random file costs as its directory grows, here and in the kernel's tmpfs.
//!
//! Those among few files find everything in the caches of a core, those among a million find
//! nothing there: what grows is the price of memory, not the number of steps.

use crate::cpu_time::of_thread;
use crate::mounted::Mounted;
use crate::patience::beat;
use crate::row::median;
use hearth::{AT_FDCWD, Credentials, Volume};
use std::os::fd::{AsRawFd, OwnedFd};

/// Lookups in one round.
const LOOKUPS: usize = 200_000;
/// Rounds of each target; they alternate.
const ROUNDS: usize = 7;

/// Nanoseconds of a processor for a `stat` of a random one among `files` files in a directory.
pub struct Price {
    /// Through the library.
    pub library: f64,
    /// By a system call on the kernel's tmpfs.
    pub tmpfs: f64,
}

/// A name with the NUL that a system call wants behind it.
type Name = [u8; 8];

/// Measures both among `files` files.
///
/// # Errors
/// A target refuses.
pub fn price(files: usize) -> Result<Price, String> {
    let process = Volume::memory().process(Credentials::root());
    let mounted = Mounted::tmpfs()?;
    let directory = Directory::open(&mounted)?;
    for file in 0..files {
        let name = name_of(file);
        process
            .mknod(text(&name), libc::S_IFREG | 0o644, 0)
            .map_err(|errno| errno.to_string())?;
        directory.make(&name)?;
        if file % 10_000 == 0 {
            beat();
        }
    }
    // The names are made before, in an order that no prefetcher guesses.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let names: Vec<Name> = (0..LOOKUPS)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            name_of((state >> 33) as usize % files)
        })
        .collect();
    let (mut library, mut tmpfs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        library.push(time(&names, |name| {
            let found = process.statat(AT_FDCWD, text(name), 0);
            found.map(drop).map_err(|errno| errno.to_string())
        })?);
        tmpfs.push(time(&names, |name| directory.stat(name))?);
        beat();
    }
    Ok(Price {
        library: median(&mut library).0,
        tmpfs: median(&mut tmpfs).0,
    })
}

fn time(names: &[Name], stat: impl Fn(&Name) -> Result<(), String>) -> Result<f64, String> {
    let start = of_thread();
    names.iter().try_for_each(stat)?;
    // Processor time: others use the machine as well.
    Ok((of_thread() - start).as_nanos() as f64 / names.len() as f64)
}

fn name_of(file: usize) -> Name {
    let mut name = [0; 8];
    for (place, digit) in name.iter_mut().zip(file.to_string().bytes()) {
        *place = digit;
    }
    name
}

fn text(name: &Name) -> &[u8] {
    let len = name.iter().position(|&byte| byte == 0);
    &name[..len.unwrap_or(name.len())]
}

/// A directory of the host.
struct Directory(OwnedFd);

impl Directory {
    fn open(mounted: &Mounted) -> Result<Directory, String> {
        let path = mounted.directory();
        let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Directory(file.into()))
    }

    fn make(&self, name: &Name) -> Result<(), String> {
        let mode = libc::S_IFREG | 0o644;
        // SAFETY: the name ends with NUL, and the descriptor is open.
        let made = unsafe { libc::mknodat(self.0.as_raw_fd(), name.as_ptr().cast(), mode, 0) };
        checked("mknodat", made)
    }

    fn stat(&self, name: &Name) -> Result<(), String> {
        let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the name ends with NUL, the descriptor is open, and there is room for the answer.
        let done = unsafe {
            libc::fstatat(
                self.0.as_raw_fd(),
                name.as_ptr().cast(),
                stat.as_mut_ptr(),
                0,
            )
        };
        checked("fstatat", done)
    }
}

fn checked(call: &str, answer: i32) -> Result<(), String> {
    if answer == 0 {
        Ok(())
    } else {
        Err(format!("{call}: {}", std::io::Error::last_os_error()))
    }
}

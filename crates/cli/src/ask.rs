//! Asking a mounted volume: one question, one answer, over `.hearth/ask`.

use crate::control_file;
use crate::failure::{Failure, reason};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Longest question in bytes: what a kernel passes on in one piece.
pub const LONGEST: usize = 4096;

/// What to say of a directory that should be the top of a Hearth mount and is not.
pub const NO_MOUNT: &str =
    "not the top of a Hearth mount; 'findmnt -t fuse.hearth' lists the mounts";

/// Asks the volume mounted at `mount` and answers its text.
///
/// # Errors
/// The volume's own reason where it has one, which names the input and the remedy.
pub fn ask(mount: &Path, question: &str) -> Result<String, Failure> {
    let mut file = open(mount)?;
    if question.len() > LONGEST {
        return Err(Failure::at(mount, "too much in one question; ask in parts"));
    }
    match file.write(question.as_bytes()) {
        Ok(len) => answer(&file, len as u64).map_err(|error| Failure::at(mount, reason(&error))),
        Err(error) => Err(refusal(&file, mount, &error)),
    }
}

/// Why the first write to a control file failed: it leaves the reason where the answer would be.
pub fn refusal(file: &File, mount: &Path, error: &std::io::Error) -> Failure {
    match answer(file, 0) {
        Ok(said) if !said.is_empty() && error.kind() != ErrorKind::NotConnected => {
            Failure::refused(said.trim_end())
        }
        _ => Failure::at(mount, reason(error)),
    }
}

fn open(mount: &Path) -> Result<File, Failure> {
    control_file::open_to_ask(mount, "ask").map_err(|error| {
        let what = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => NO_MOUNT.to_owned(),
            _ => reason(&error),
        };
        Failure::at(mount, what)
    })
}

fn answer(file: &File, begin: u64) -> std::io::Result<String> {
    let mut text = Vec::new();
    let mut piece = vec![0; 128 << 10];
    loop {
        let got = file.read_at(&mut piece, begin + text.len() as u64)?;
        if got == 0 {
            break;
        }
        text.extend_from_slice(&piece[..got]);
    }
    String::from_utf8(text).map_err(|_| std::io::Error::from(ErrorKind::InvalidData))
}

//! Asking a mounted volume: one question, one answer, over `.hearth/ask`.

use crate::control_file;
use crate::failure::Failure;
use crate::wrong_place::{OURS, OWNERS, other_version, unreached};
use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Longest question in bytes: what a kernel passes on in one piece.
pub const LONGEST: usize = 4096;

/// Asks the volume mounted at `mount` and answers its text.
///
/// # Errors
/// The volume's own reason where it has one, which names the input and the remedy.
pub fn ask(mount: &Path, question: &str) -> Result<String, Failure> {
    let mut file = match control_file::open_to_ask(mount, "ask") {
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
            return of_file(mount, question, &error);
        }
        opened => opened.map_err(|error| unreached(mount, "ask", &error, OWNERS))?,
    };
    if question.len() > LONGEST {
        return Err(Failure::at(mount, "too much in one question; ask in parts"));
    }
    match file.write(question.as_bytes()) {
        Ok(len) => {
            answer(&file, len as u64).map_err(|error| unreached(mount, "ask", &error, OWNERS))
        }
        Err(error) => Err(refusal(&file, mount, "ask", &error)),
    }
}

/// Why the first write to a control file failed: it leaves the reason where the answer would be.
/// What a daemon of another version does not understand may be newer than it.
pub fn refusal(file: &File, mount: &Path, name: &str, error: &std::io::Error) -> Failure {
    let said = match answer(file, 0) {
        Ok(said) if !said.is_empty() && error.kind() != ErrorKind::NotConnected => said,
        _ => return unreached(mount, name, error, OWNERS),
    };
    let said = said.trim_end();
    let is_misunderstood = error.kind() == ErrorKind::InvalidInput;
    match is_misunderstood.then(|| other_version(mount)).flatten() {
        Some(version) => {
            let what = format!(
                "{said}; its daemon is of {version}: if that is too old for it, mount it again \
                 with this one, {OURS}"
            );
            Failure::at(mount, what)
        }
        None => Failure::refused(said),
    }
}

/// The answer on a mount with ro, where no question can be written: the file that holds what it
/// asks for or more, if there is one. These are of the owner of the volume.
fn of_file(mount: &Path, question: &str, error: &Error) -> Result<String, Failure> {
    let words: Vec<&str> = question.split(' ').collect();
    let name = match words[..] {
        ["quota", "report"] | ["quota", "get", ..] => "quota/report.json",
        ["heat", "top", "file", "accesses" | "temperature", _, "-"] => "heat/top.json",
        ["heat", "top", "range", "accesses" | "temperature", _, "-"] => "heat/ranges.json",
        ["heat", "what-if"] => "heat/what-if.json",
        _ => return Err(unreached(mount, "ask", error, OWNERS)),
    };
    let denied =
        "is mounted with ro, where only root and the owner of the mount see this; ask them";
    let text = control_file::read(mount, name);
    let text = text.map_err(|error| unreached(mount, name, &error, denied))?;
    match text.is_empty() {
        true => Err(Failure::empty(mount)),
        false => Ok(text),
    }
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

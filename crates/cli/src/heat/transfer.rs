//! `hearth heat export` and `hearth heat import`.

use crate::ask::ask;
use crate::control_file;
use crate::failure::{Failure, reason};
use crate::output;
use crate::which::mount_of;
use crate::wrong_place::unreached;
use hearth_control::bad_lines;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Files of one question: each question walks the volume once for their paths.
const FILES: usize = 100_000;
/// Bad lines that are shown.
const SHOWN: usize = 10;
/// Bytes of lines that are sent at once; a mount takes four times as many.
const PART: usize = 64 << 20;
/// Bytes of a line: the longest path takes less than half of them.
const LINE: usize = 64 << 10;
/// Bytes that are held to be checked before the first is sent.
const MOST: usize = 1 << 30;

/// Prints what is known.
pub fn export(mount: Option<&Path>) -> Result<(), Failure> {
    let mount = mount_of(mount)?;
    let mut after = "0".to_owned();
    while after != "-" {
        let answer = ask(&mount, &format!("heat export {after} {FILES}"))?;
        let answer = answer.trim_end();
        let (lines, next) = answer.rsplit_once('\n').unwrap_or(("", answer));
        if !lines.is_empty() {
            output::print(&format!("{lines}\n"))?;
        }
        after = next.to_owned();
    }
    Ok(())
}

/// Takes the lines of `file`, all or none: they are checked before the first is sent.
pub fn import(mount: &Path, file: &Path) -> Result<(), Failure> {
    let mount = mount_of(Some(mount))?;
    let text = read(file)?;
    let file = if file == Path::new("-") {
        Path::new("standard input")
    } else {
        file
    };
    let bad = bad_lines(&text);
    if !bad.is_empty() {
        let all = bad.len();
        let lines: Vec<String> = bad
            .iter()
            .take(SHOWN)
            .map(|bad| format!("line {}: {}", bad.line, bad.reason))
            .collect();
        let more = match all > SHOWN {
            true => format!("; and {} more lines", all - SHOWN),
            false => String::new(),
        };
        let what = format!("nothing was imported: {}{more}", lines.join("; "));
        return Err(Failure::at(file, what));
    }
    let (mut records, mut absent) = (0, 0);
    for part in parts(&text, PART) {
        let said = send(&mount, part).map_err(|failure| match records {
            0 => failure,
            _ => Failure::refused(format!(
                "{records} records were imported, and then: {}",
                failure.line
            )),
        })?;
        let done: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        records += done["records"].as_u64().unwrap_or(0);
        absent += done["absent"].as_u64().unwrap_or(0);
    }
    let absent = match absent {
        0 => String::new(),
        _ => format!(", {absent} of what is not here"),
    };
    output::print_and_go_on(&format!("{records} records imported{absent}\n"))
}

/// Whole lines of `most` bytes at most together, unless one is longer. An empty text is one part.
fn parts(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let bytes = text.as_bytes();
        let newline = |from: &[u8]| from.iter().position(|&byte| byte == b'\n');
        let end = match bytes.len() <= most {
            true => None,
            false => match bytes[..most].iter().rposition(|&byte| byte == b'\n') {
                Some(last) => Some(last + 1),
                None => newline(&bytes[most..]).map(|next| most + next + 1),
            },
        };
        let end = end.filter(|end| *end < bytes.len());
        rest = end.map(|end| &text[end..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::at(file, reason(&error));
    let bytes = match file == Path::new("-") {
        true => bounded(&mut std::io::stdin().lock()),
        false => bounded(&mut File::open(file).map_err(failed)?),
    };
    let bytes = bytes.map_err(failed)?;
    let bytes = bytes.map_err(|why| Failure::at(file, format!("nothing was imported: {why}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let what = format!("nothing was imported: line {line}: not UTF-8");
        Failure::at(file, what)
    })
}

/// All of an input, or why it is too long to be lines of heat: one that never ends is not read for
/// ever.
fn bounded(input: &mut impl Read) -> std::io::Result<Result<Vec<u8>, String>> {
    let (mut bytes, mut line, mut begin) = (Vec::new(), 1_u64, 0);
    let mut piece = vec![0; LINE];
    let too_long = |line| Ok(Err(format!("line {line}: longer than {} KiB", LINE >> 10)));
    loop {
        let got = match input.read(&mut piece) {
            Ok(0) => return Ok(Ok(bytes)),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            got => got?,
        };
        let ends = piece[..got].iter().enumerate();
        for (at, _) in ends.filter(|(_, byte)| **byte == b'\n') {
            let end = bytes.len() + at;
            if end - begin > LINE {
                return too_long(line);
            }
            (line, begin) = (line + 1, end + 1);
        }
        bytes.extend_from_slice(&piece[..got]);
        if bytes.len() - begin > LINE {
            return too_long(line);
        }
        if bytes.len() > MOST {
            let most = MOST >> 30;
            return Ok(Err(format!(
                "it has more than {most} GiB; import its lines in parts"
            )));
        }
    }
}

/// Writes the lines and their end to the control file. Returns its reply.
fn send(mount: &Path, text: &str) -> Result<String, Failure> {
    let (name, denied) = (
        "heat/import",
        "only the owner of the mount and root may import heat; ask them",
    );
    let opened = control_file::open_to_ask(mount, name);
    let mut control = opened.map_err(|error| unreached(mount, name, &error, denied))?;
    let newline = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let lines = format!("{text}{newline}end\n");
    let mut sent = 0;
    while sent < lines.len() {
        match control.write(&lines.as_bytes()[sent..]) {
            Ok(len) => sent += len,
            Err(error) => {
                // What a refused write would have been answered with stands where it was to go.
                let said = read_on(&control, sent as u64).unwrap_or_default();
                return Err(match said.trim_end() {
                    "" => unreached(mount, name, &error, denied),
                    said => Failure::at(mount, said),
                });
            }
        }
    }
    read_on(&control, sent as u64).map_err(|error| unreached(mount, name, &error, denied))
}

fn read_on(control: &File, from: u64) -> std::io::Result<String> {
    let mut piece = vec![0; 64 << 10];
    let len = control.read_at(&mut piece, from)?;
    Ok(String::from_utf8_lossy(&piece[..len]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, all of it was read, until there was no memory.
    #[test]
    fn an_input_without_an_end_is_refused() {
        let why = bounded(&mut std::io::repeat(0)).unwrap().unwrap_err();
        assert_eq!(why, "line 1: longer than 64 KiB");
        let mut late = b"one\ntwo\n".chain(std::io::repeat(b'x'));
        let why = bounded(&mut late).unwrap().unwrap_err();
        assert_eq!(why, "line 3: longer than 64 KiB");
        // Also one that ends: it passed with up to twice as many bytes.
        let longer = [vec![b'x'; LINE + 1], b"\nlast".to_vec()].concat();
        let why = bounded(&mut &*longer).unwrap().unwrap_err();
        assert_eq!(why, "line 1: longer than 64 KiB");
        let whole = [vec![b'x'; LINE], b"\nlast".to_vec()].concat();
        assert_eq!(bounded(&mut &*whole).unwrap().unwrap(), whole);
    }

    #[test]
    fn parts_are_whole_lines_and_together_the_text() {
        let text = "one\ntwo\n\na longer line\nfünf\nlast";
        for most in 1..text.len() + 2 {
            let all: Vec<&str> = parts(text, most).collect();
            assert_eq!(all.concat(), text, "{most}");
            let (last, before) = all.split_last().unwrap();
            assert!(!last.is_empty(), "{most}");
            for part in before {
                assert!(part.ends_with('\n'), "{most}: {part:?}");
                let lines = part.matches('\n').count();
                assert!(part.len() <= most || lines == 1, "{most}: {part:?}");
            }
        }
        assert_eq!(parts("", 8).collect::<Vec<_>>(), [""]);
    }
}

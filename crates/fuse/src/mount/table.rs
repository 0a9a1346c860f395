//! `/proc/self/mountinfo`: what is mounted where, found without asking the mount itself.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Minor device number: the number of a FUSE connection.
    pub minor: u32,
    pub path: PathBuf,
    pub fs_type: String,
}

/// What is mounted exactly at `path`, the topmost if several are.
pub(super) fn find(path: &Path) -> Option<Entry> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    table
        .split(|&byte| byte == b'\n')
        .filter_map(parse)
        .rfind(|entry| entry.path == path)
}

/// `path` made absolute, without symbolic links and dots. A mount at its end that is dead, or lets
/// only its owner look, cannot be asked for anything: then only the way to it is resolved.
pub fn resolved(path: &Path) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (
        absolute.parent().map(Path::canonicalize),
        absolute.file_name(),
    ) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

/// `36 35 0:45 / /mnt rw,noatime shared:1 - fuse.hearth memory: rw,...`
fn parse(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let path = fields.nth(1)?;
    let fs_type = fields.skip_while(|&field| field != b"-").nth(1)?;
    Some(Entry {
        minor: device.split_once(':')?.1.parse().ok()?,
        path: PathBuf::from(OsString::from_vec(unescape(path))),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
    })
}

/// Space, tab, newline and backslash are written as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_connection_place_and_type() {
        let line =
            b"36 35 0:45 / /mnt/a\\040b\\134c rw,noatime shared:1 master:2 - fuse.hearth x rw";
        let entry = parse(line).unwrap();
        assert_eq!((entry.minor, entry.fs_type.as_str()), (45, "fuse.hearth"));
        assert_eq!(entry.path, Path::new("/mnt/a b\\c"));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 3"), None);
    }
}

//! What is mounted, as the kernel lists it.

pub use hearth_fuse::resolved;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Type under which the kernel lists our mounts.
const OUR_TYPE: &str = "fuse.hearth";

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Mount point.
    pub at: PathBuf,
    /// Number of the filesystem, major and minor: what `stat` says of its files.
    pub device: (u32, u32),
    /// What of the filesystem shows there: `/`, or the directory that was bound.
    pub root: PathBuf,
    /// Flags of the mount, not of the filesystem: `rw,nosuid,relatime`.
    pub flags: String,
    /// Type, `fuse.hearth` or `ext4`.
    pub kind: String,
    /// What is mounted, as whoever mounted it calls it.
    pub source: PathBuf,
}

impl Mounted {
    /// Whether it is a Hearth volume.
    pub fn is_ours(&self) -> bool {
        self.kind == OUR_TYPE
    }
}

/// The topmost mount exactly at `at`.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn at(at: &Path) -> std::io::Result<Option<Mounted>> {
    on(&resolved(at))
}

/// The topmost mount at `place`, which is absolute and has no symbolic links in it. Of the place
/// itself nothing is asked.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn on(place: &Path) -> std::io::Result<Option<Mounted>> {
    let list = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&list)
        .into_iter()
        .rfind(|mounted| mounted.at == place))
}

/// The user who has mounted what is at `at`, a path without links.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn owner(at: &Path) -> std::io::Result<Option<u32>> {
    let options = filesystem_options(at)?;
    let id = options
        .split(',')
        .find_map(|word| word.strip_prefix("user_id="));
    Ok(id.and_then(|id| id.parse().ok()))
}

/// The options of the filesystem, not of the mount, at `at`, a path without links:
/// `rw,user_id=0,allow_other`. Empty if nothing is mounted there.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn filesystem_options(at: &Path) -> std::io::Result<String> {
    Ok(options_in(&std::fs::read("/proc/self/mountinfo")?, at))
}

/// [`filesystem_options`] by a list, in which names of others may be any bytes.
fn options_in(list: &[u8], at: &Path) -> String {
    let is_there = |line: &&[u8]| parse(line).first().is_some_and(|one| one.at == at);
    let line = list.split(|byte| *byte == b'\n').rfind(is_there);
    // Of the filesystem: a name may have what looks like an option in it.
    let options = line.and_then(|line| line.rsplit(|byte| *byte == b' ').next());
    String::from_utf8_lossy(options.unwrap_or_default()).into_owned()
}

/// The mount that `place` lies on, which is absolute and has no symbolic links in it.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn holding(place: &Path) -> std::io::Result<Option<Mounted>> {
    let mut mounts = parse(&std::fs::read("/proc/self/mountinfo")?);
    mounts.retain(|mounted| place.starts_with(&mounted.at));
    // The last of the deepest lies on top of the others.
    Ok(mounts
        .into_iter()
        .max_by_key(|mounted| mounted.at.components().count()))
}

/// Mounts of Hearth volumes.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn of_hearth() -> std::io::Result<Vec<Mounted>> {
    let mut mounts = parse(&std::fs::read("/proc/self/mountinfo")?);
    mounts.retain(Mounted::is_ours);
    Ok(mounts)
}

/// Those of `mounts` through which all of a volume shows: none of a part of one, and of what is
/// mounted at one place only the last.
pub fn whole(mounts: &[Mounted]) -> impl Iterator<Item = &Mounted> {
    mounts.iter().enumerate().filter_map(|(number, mounted)| {
        let is_covered = mounts[number + 1..]
            .iter()
            .any(|later| later.at == mounted.at);
        (!is_covered && mounted.root == Path::new("/")).then_some(mounted)
    })
}

/// Mount points of Hearth volumes.
///
/// # Errors
/// What reading `/proc/self/mountinfo` answers.
pub fn ours() -> std::io::Result<Vec<PathBuf>> {
    Ok(of_hearth()?.into_iter().map(|mounted| mounted.at).collect())
}

/// Where the filesystem `device` is mounted: places, and other mount namespaces, each by its first
/// process; a few of both. What this user may not look into is left out.
pub fn places(device: (u32, u32)) -> Vec<String> {
    const NAMED: usize = 3;
    let of = |list: &[u8]| {
        let mut mounts = parse(list);
        mounts.retain(|mounted| mounted.device == device);
        mounts
    };
    let own = of(&std::fs::read("/proc/self/mountinfo").unwrap_or_default());
    let own = own.iter().take(NAMED);
    let mut found: Vec<_> = own
        .map(|mounted| format!("on {}", mounted.at.display()))
        .collect();
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let here = namespace("self");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let mut pids: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    let mut looked = Vec::new();
    for pid in pids {
        if found.len() >= NAMED {
            break;
        }
        let Some(other) = namespace(&pid.to_string()) else {
            continue;
        };
        if here.as_ref() == Some(&other) || looked.contains(&other) {
            continue;
        }
        looked.push(other);
        let list = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        if !of(&list).is_empty() {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let name = name.trim_end();
            found.push(format!("in the mount namespace of process {pid} ({name})"));
        }
    }
    found
}

/// `place` without links on the way to it; of itself nothing is asked.
pub fn resolved_around(place: &Path) -> PathBuf {
    let absolute = std::path::absolute(place).unwrap_or_else(|_| place.to_owned());
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => absolute,
    }
}

fn parse(list: &[u8]) -> Vec<Mounted> {
    list.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ');
            let device = std::str::from_utf8(words.nth(2)?).ok()?.split_once(':')?;
            let device = (device.0.parse().ok()?, device.1.parse().ok()?);
            let root = unescaped(words.next()?);
            let at = unescaped(words.next()?);
            let flags = String::from_utf8_lossy(words.next()?).into_owned();
            words.find(|word| *word == b"-")?;
            let kind = String::from_utf8_lossy(words.next()?).into_owned();
            let source = unescaped(words.next().unwrap_or_default());
            Some(Mounted {
                at,
                device,
                root,
                flags,
                kind,
                source,
            })
        })
        .collect()
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut at = 0;
    while at < word.len() {
        let digits = (word[at] == b'\\')
            .then(|| word.get(at + 1..at + 4))
            .flatten();
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(word[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_spaces_and_optional_fields_are_read() {
        let list = b"36 35 98:0 / /mnt/a\\040b rw,noatime master:1 shared:2 - fuse.hearth m rw\n\
                     37 35 98:0 / /mnt/c rw - ext4 /dev/root rw\n";
        let mounts = parse(list);
        assert!(mounts[0].at == Path::new("/mnt/a b") && mounts[0].is_ours());
        assert_eq!(mounts[0].source, Path::new("m"));
        assert_eq!(
            (mounts[0].device, &*mounts[0].flags),
            ((98, 0), "rw,noatime")
        );
        assert_eq!(mounts[0].root, Path::new("/"));
        assert!(mounts[1].at == Path::new("/mnt/c") && !mounts[1].is_ours());
    }

    #[test]
    fn options_are_found_whatever_others_have_named_their_mounts() {
        let list = b"36 35 0:9 / /m/\xff rw - tmpfs x\xff rw\n\
                     37 35 0:8 / /m/a rw - fuse.hearth m rw,user_id=7\n\
                     38 35 0:7 / /m/b rw - tmpfs \xfe rw\n";
        assert_eq!(options_in(list, Path::new("/m/a")), "rw,user_id=7");
        assert_eq!(options_in(list, Path::new("/m/c")), "");
    }

    #[test]
    fn a_path_that_is_not_there_resolves_through_its_parent() {
        let here = std::env::temp_dir()
            .canonicalize()
            .expect("a temporary directory");
        let spelled = here
            .join("../")
            .join(here.file_name().unwrap())
            .join("no-such-entry");
        assert_eq!(resolved(&spelled), here.join("no-such-entry"));
    }
}

//! Somebody else changes a directory while a dump is loaded into it.

use super::sealed::{END, link, member, sealed};
use super::*;
use crate::dump::entry::Entry;
use rustix::fs::{IFlags, ioctl_getflags};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const OTHER: u32 = 65_534;
const IMMUTABLE: u32 = 0x10;

/// A stream that waits at a byte until something was done.
struct Waiting<'a, F: FnOnce()> {
    stream: &'a [u8],
    /// Bytes before it.
    left: usize,
    then: Option<F>,
}

impl<F: FnOnce()> Read for Waiting<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0
            && let Some(then) = self.then.take()
        {
            then();
        }
        let most = match self.then {
            Some(_) => buffer.len().min(self.left),
            None => buffer.len(),
        };
        let read = self.stream.read(&mut buffer[..most])?;
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

fn of_other(ino: u64, kind: Kind) -> Inode {
    let of_other = Attrs {
        uid: OTHER,
        gid: OTHER,
        ..attrs(kind)
    };
    inode(ino, of_other)
}

/// `a/b/victim`, with these flags and number of names, and the directory `c` behind it.
fn before(flags: u32, nlink: u32) -> Vec<Entry> {
    let mut victim = of_other(12, Kind::File);
    (victim.attrs.flags, victim.attrs.nlink) = (flags, nlink);
    vec![
        member(b"a", of_other(10, Kind::Directory)),
        member(b"a/b", of_other(11, Kind::Directory)),
        member(b"a/b/victim", victim),
        member(b"c", inode(13, attrs(Kind::Directory))),
    ]
}

struct Places {
    _all: tempfile::TempDir,
    target: std::path::PathBuf,
    victim: std::path::PathBuf,
}

fn places() -> Places {
    let all = tempfile::tempdir().expect("a directory");
    let [target, elsewhere] = ["t", "elsewhere"].map(|name| all.path().join(name));
    for path in [&target, &elsewhere] {
        std::fs::create_dir(path).expect("a directory");
    }
    for path in [all.path(), &target, &elsewhere] {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, open).expect("a mode");
    }
    let victim = elsewhere.join("victim");
    std::fs::write(&victim, "").expect("a file");
    Places {
        _all: all,
        target,
        victim,
    }
}

/// Puts a link elsewhere in the place of `a/b`; whether it could.
fn replace(places: &Places, is_other: bool) -> bool {
    let mut shell = Command::new("sh");
    let script = "cd \"$1/a\" && mv b b.old && ln -s \"$2\" b";
    let elsewhere = places.victim.parent().expect("a parent");
    shell.args(["-c", script, "sh"]);
    shell.arg(&places.target).arg(elsewhere);
    if is_other {
        shell.uid(OTHER).gid(OTHER);
    }
    shell.output().expect("a shell").status.success()
}

fn is_immutable(file: &Path) -> bool {
    let file = std::fs::File::open(file).expect("a file");
    ioctl_getflags(&file).is_ok_and(|flags| flags.contains(IFlags::IMMUTABLE))
}

/// Loads members while, behind those of [`before`], somebody replaces `a/b`.
fn load(
    places: &Places,
    members: &[Entry],
    wait_behind: usize,
    then: impl FnOnce(),
) -> std::result::Result<into_directory::LeftOut, DumpError> {
    let stream = sealed(100, members);
    let from = Waiting {
        stream: &stream,
        left: sealed(100, &members[..wait_behind]).len() - END,
        then: Some(then),
    };
    let (mut reader, _) = DumpReader::new(from)?;
    let loaded = into_directory::into_directory(&mut reader, &places.target, &mut |_| {});
    loaded.map(|(_, left_out)| left_out)
}

/// Once, the name that was made then was of a file outside the target.
#[test]
fn the_owner_of_what_was_loaded_comes_not_in_before_all_is() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let places = places();
    let mut members = before(0, 2);
    members.push(link(b"c/link", b"a/b/victim"));
    let mut could = None;
    let left_out = load(&places, &members, 4, || {
        could = Some(replace(&places, true));
    });
    assert_eq!(could, Some(false));
    assert_eq!(left_out.map(|left_out| left_out.len()), Ok(0));
    let victim = places.target.join("a/b/victim").metadata().expect("a file");
    assert_eq!((victim.nlink(), victim.uid()), (2, OTHER));
    let target = places.target.metadata().expect("a directory");
    assert_eq!((target.mode() & 0o7777, target.uid()), (0o755, 1000));
    assert!(replace(&places, true), "it is theirs in the end");
}

/// Once, the second name was of whatever the first path led to.
#[test]
fn a_second_name_is_of_the_file_that_was_made_or_of_none() {
    let places = places();
    let mut members = before(0, 2);
    members.push(link(b"c/link", b"a/b/victim"));
    let loaded = load(&places, &members, 4, || assert!(replace(&places, false)));
    let path = b"a/b/victim".to_vec();
    assert_eq!(loaded, Err(DumpError::Replaced { path }));
    assert_eq!(places.victim.metadata().expect("a file").nlink(), 1);
    assert!(!places.target.join("c/link").exists());
    // Another file in its place, without a link on the way.
    let places = self::places();
    let loaded = load(&places, &members, 4, || {
        let victim = places.target.join("a/b/victim");
        std::fs::rename(&victim, places.target.join("a/old")).expect("a name");
        std::fs::write(&victim, "").expect("a file");
    });
    let path = b"a/b/victim".to_vec();
    assert_eq!(loaded, Err(DumpError::Replaced { path }));
    assert!(!places.target.join("c/link").exists());
}

/// Once, it had the second name for a moment: what was taken away then was whatever had that name.
#[test]
fn a_file_in_the_place_of_the_first_is_left_alone() {
    let places = places();
    let mut members = before(0, 2);
    members.push(link(b"c/link", b"a/b/victim"));
    let mut changed = None;
    let other = places.target.join("a/b/victim");
    let when = || {
        let is = other.metadata().expect("a file");
        (is.ino(), is.ctime(), is.ctime_nsec())
    };
    let loaded = load(&places, &members, 4, || {
        std::fs::rename(&other, places.target.join("a/old")).expect("a name");
        std::fs::write(&other, "").expect("a file");
        changed = Some(when());
        // A later change has another time.
        std::thread::sleep(std::time::Duration::from_millis(50));
    });
    let path = b"a/b/victim".to_vec();
    assert_eq!(loaded, Err(DumpError::Replaced { path }));
    assert_eq!(changed, Some(when()));
}

/// Links, pipes and devices have second names too.
#[test]
fn a_second_name_of_a_link_is_of_the_link() {
    let places = places();
    let mut first = inode(10, attrs(Kind::Symlink));
    first.attrs.nlink = 2;
    first.target = b"nowhere"[..].into();
    let members = [member(b"first", first), link(b"second", b"first")];
    load(&places, &members, 0, || ()).expect("loads");
    let second = places.target.join("second");
    let is = second.symlink_metadata().expect("a link");
    assert!(is.is_symlink());
    assert_eq!(is.nlink(), 2);
}

/// Once, whatever the path led to at the end became immutable.
#[test]
fn flags_are_set_on_the_file_that_was_made_or_on_none() {
    let places = places();
    let members = before(IMMUTABLE, 1);
    let loaded = load(&places, &members, 4, || assert!(replace(&places, false)));
    let is_hit = is_immutable(&places.victim);
    unflag(&places.victim);
    unflag(&places.target.join("a/b.old/victim"));
    assert!(!is_hit);
    assert!(loaded.expect("loads").contains_key("flags"));
}

/// Once, a load gave up at the second name of a file whose first path the kernel does not take.
#[test]
fn a_file_deep_below_gets_its_second_name_and_its_flags() {
    let places = places();
    let (mut members, mut path) = (Vec::new(), Vec::new());
    for level in 0..20 {
        path.extend_from_slice(&[b'd'; 250]);
        members.push(member(&path, inode(10 + level, attrs(Kind::Directory))));
        path.push(b'/');
    }
    path.push(b'f');
    let mut file = inode(50, attrs(Kind::File));
    file.attrs.nlink = 2;
    members.push(member(&path, file));
    members.push(link(b"z", &path));
    load(&places, &members, 0, || ()).expect("loads");
    let second = places.target.join("z").metadata().expect("a file");
    assert_eq!(second.nlink(), 2);
}

/// Once, each directory of a path was open: a tree that is deeper than descriptors may be open
/// could not be loaded.
#[test]
fn a_deep_tree_is_loaded_with_few_descriptors() {
    const DEPTH: u64 = 300;
    let places = places();
    let mut members = Vec::new();
    let mut path = Vec::new();
    for level in 0..DEPTH {
        path.extend_from_slice(b"d");
        members.push(member(&path, inode(10 + level, attrs(Kind::Directory))));
        path.push(b'/');
    }
    // Behind the deepest one, each directory gets another name.
    for level in (0..DEPTH).rev() {
        path.truncate(2 * level as usize);
        let later = [&path[..], b"e"].concat();
        members.push(member(&later, inode(1000 + level, attrs(Kind::Directory))));
    }
    let stream = sealed(2000, &members);
    let (mut reader, _) = DumpReader::new(&stream[..]).expect("a stream");
    let mut most = 0;
    let mut count = |_: &Progress| {
        let open = std::fs::read_dir("/proc/self/fd").expect("descriptors");
        let inside = open.flatten().filter(|descriptor| {
            let of = std::fs::read_link(descriptor.path());
            of.is_ok_and(|path| path.starts_with(&places.target))
        });
        most = most.max(inside.count());
    };
    into_directory::into_directory(&mut reader, &places.target, &mut count).expect("a load");
    assert!(most < 100, "{most} descriptors");
    let mut directory = places.target.clone();
    for _ in 0..DEPTH {
        assert!(directory.join("e").is_dir());
        directory.push("d");
    }
    assert!(directory.is_dir() && !directory.join("e").exists());
}

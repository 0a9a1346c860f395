//! Streams that are whole and say what no volume has: whoever makes one makes its digest too.

use super::sealed::{mapped, member, sealed};
use super::*;
use crate::dump::entry::{Entry, FileMap};
use std::ops::Range;

/// The largest inode number of these streams.
const LAST: u64 = 100;

fn of_kind(ino: u64, kind: Kind) -> Inode {
    inode(ino, attrs(kind))
}

fn file(ino: u64) -> Inode {
    of_kind(ino, Kind::File)
}

fn reserved(pages: Range<u64>) -> Entry {
    let map = FileMap {
        unwritten: vec![pages],
        ..FileMap::default()
    };
    mapped(b"f", file(9), map)
}

fn ending_at(size: u64) -> Entry {
    let mut map = FileMap::default();
    map.written.push(size - 4096..size);
    mapped(b"f", Inode { size, ..file(9) }, map)
}

fn leading(target: &[u8]) -> Entry {
    let target = target.into();
    let link = of_kind(9, Kind::Symlink);
    member(b"l", Inode { target, ..link })
}

fn named(name: &[u8], len: usize) -> Entry {
    let xattrs = vec![(name.into(), vec![b'v'; len].into())];
    member(b"f", Inode { xattrs, ..file(9) })
}

fn into_plain(stream: &[u8]) -> std::result::Result<(), DumpError> {
    let place = tempfile::tempdir().expect("a directory");
    let (mut reader, _) = DumpReader::new(stream)?;
    into_directory(&mut reader, place.path(), &mut |_| {}).map(drop)
}

/// Once, a loader believed all that had a right digest, and the volume ended its daemon.
#[test]
fn a_whole_stream_of_what_no_volume_has_is_refused_in_both_forms() {
    let long = [b"user.", &[b'n'; 300][..]].concat();
    let directory = |path: &[u8], ino| member(path, of_kind(ino, Kind::Directory));
    let two = |one: Entry, other: Entry| vec![one, other];
    let unwritten = "record HEARTH.unwritten";
    let number = "record HEARTH.ino ";
    let xattr = "record SCHILY.xattr.";
    let cases = [
        (unwritten, vec![reserved(0..u64::MAX)]),
        (unwritten, vec![reserved(1 << 52..(1 << 52) + 1)]),
        (unwritten, vec![reserved(0..(1 << 51) + 1)]),
        ("record size", vec![ending_at(u64::MAX)]),
        ("record size", vec![ending_at(1 << 63)]),
        (number, two(member(b"f", file(9)), member(b"g", file(9)))),
        (number, two(directory(b"d", 9), directory(b"e", 9))),
        (number, two(directory(b"d", 9), member(b"e", file(9)))),
        (number, vec![member(b"f", file(LAST + 1))]),
        (number, vec![member(b"f", file(ROOT))]),
        (number, vec![member(b"f", file(0))]),
        ("record linkpath", vec![leading(b"")]),
        ("record linkpath", vec![leading(&[b'x'; 4096])]),
        ("record linkpath", vec![leading(&[b'x'; 9000])]),
        ("record linkpath", vec![leading(b"a\0b")]),
        (xattr, vec![named(b"", 1)]),
        (xattr, vec![named(b"bad", 1)]),
        (xattr, vec![named(b"user.", 1)]),
        (xattr, vec![named(b"system.other", 1)]),
        (xattr, vec![named(b"user.a\0b", 1)]),
        (xattr, vec![named(&long, 1)]),
        (xattr, vec![named(b"user.a", 65_537)]),
        ("a path that no dump", vec![member(b".hearth", file(9))]),
        (
            "a path that no dump",
            two(directory(b".hearth", 9), member(b".hearth/f", file(10))),
        ),
    ];
    for (wanted, members) in cases {
        let stream = sealed(LAST, &members);
        for error in [loaded(&stream).err(), into_plain(&stream).err()] {
            let shown = error.map(|error| error.to_string());
            let is_told = shown.as_ref().is_some_and(|shown| shown.contains(wanted));
            assert!(is_told, "{wanted}: {shown:?} of {members:?}");
        }
    }
    // Control files have numbers from here on.
    let stream = sealed(1 << 59, &[]);
    let error = loaded(&stream).expect_err("refused").to_string();
    assert!(error.contains("record HEARTH.last_inode"), "{error}");
}

#[test]
fn what_is_at_the_edge_of_what_a_volume_has_is_loaded() {
    let name = [b"user.", &[b'n'; 250][..]].concat();
    for member in [
        ending_at(i64::MAX as u64 / 4096 * 4096),
        reserved((1 << 51) - 1..1 << 51),
        leading(&[b'x'; 4095]),
        named(&name, 65_536),
        member(b".hearth2", file(LAST)),
        member(b"d", of_kind(2, Kind::Directory)),
    ] {
        let stream = sealed(LAST, std::slice::from_ref(&member));
        if let Err(error) = loaded(&stream) {
            panic!("{error}: {member:?}");
        }
    }
}

/// Once, a record of a few bytes had a mount count pages until its memory was full.
#[test]
fn no_more_is_set_aside_than_there_is_room() {
    let stream = sealed(LAST, &[reserved(0..1000)]);
    let load = |free: u64| {
        let model = Model::with_room(1 << 30, free);
        let (mut reader, head) = DumpReader::new(&*stream).expect("a dump");
        into_volume(&mut reader, &head, &model, 0, &mut |_| {}).map(drop)
    };
    let (needs, room) = (1000 * PAGE, 999 * PAGE);
    assert_eq!(load(room), Err(DumpError::NoRoom { needs, room }));
    assert_eq!(load(needs), Ok(()));
}

//! What is dumped and loaded again is the same; what is damaged is refused.

mod elsewhere;
mod hostile;
mod model;
mod sealed;

use super::*;
use hearth_backend::{Attrs, Backend, Edit, Extent, Inode, Kind, Place, Record, Target, Time};
use model::Model;

fn attrs(kind: Kind) -> Attrs {
    Attrs {
        generation: 7,
        kind,
        perm: 0o755,
        uid: 1000,
        gid: 100,
        project: 0,
        flags: 0,
        nlink: 1,
        extra_blocks: 0,
        rdev: 0,
        atime: Time { sec: 1, nsec: 2 },
        mtime: Time { sec: -3, nsec: 4 },
        ctime: Time {
            sec: 5_000_000_000,
            nsec: 999_999_999,
        },
        btime: Time { sec: 0, nsec: 1 },
    }
}

fn inode(ino: u64, attrs: Attrs) -> Inode {
    Inode {
        ino,
        attrs,
        size: 0,
        pages: 0,
        touched: 0,
        entries: (0, 0),
        parent: 0,
        target: Box::default(),
        xattrs: Vec::new(),
    }
}

/// Builds volumes by records.
struct Build(Vec<Record>);

impl Build {
    fn new() -> Build {
        Build(Vec::new())
    }

    fn inode(&mut self, inode: Inode) {
        self.0.push(Record::new(inode));
    }

    fn directory(&mut self, ino: u64, parent: u64, name: &str) {
        self.inode(Inode {
            parent,
            ..inode(ino, attrs(Kind::Directory))
        });
        if ino != ROOT {
            self.name(parent, name.as_bytes(), ino, Kind::Directory);
        }
    }

    fn name(&mut self, dir: u64, name: &[u8], ino: u64, kind: Kind) {
        let generation = 7;
        let to = Some(Target {
            ino,
            generation,
            kind,
        });
        let (name, version) = (name.into(), 1);
        self.0.push(Record::Name {
            dir,
            generation,
            name,
            version,
            to,
            came: false,
        });
        self.0.push(Record::Entries {
            dir,
            generation,
            entries: 1,
            subdirectories: i64::from(kind == Kind::Directory),
            touched: 0,
            order: 0,
        });
    }

    fn contents(&mut self, ino: u64, version: u32, size: u64, from: u64, place: Place) {
        let len = match &place {
            Place::Inline(bytes) => (bytes.len() as u64).div_ceil(PAGE),
            _ => 3,
        };
        let pages = from..from + len;
        self.0.push(Record::Contents {
            ino,
            generation: 7,
            version,
            size,
            touched: 0,
            order: 0,
            edit: Edit::Write(vec![Extent { pages, place }]),
        });
    }

    fn volume(self) -> Model {
        let model = Model::default();
        model.commit(1, self.0).expect("a commit");
        model
    }
}

/// A volume with one of everything.
fn full() -> Model {
    let mut build = Build::new();
    build.directory(ROOT, ROOT, "");
    build.directory(2, ROOT, "b");
    build.directory(3, 2, "inner");
    let mut plain = inode(
        10,
        Attrs {
            perm: 0o4711,
            nlink: 2,
            project: 9,
            ..attrs(Kind::File)
        },
    );
    plain.size = 5000;
    plain.xattrs = vec![
        (
            b"system.posix_acl_access"[..].into(),
            vec![2, 0, 0, 0, 255, 10].into(),
        ),
        (b"user.a=b%c"[..].into(), b"\0\n=".to_vec().into()),
    ];
    build.inode(plain);
    build.name(3, b"plain", 10, Kind::File);
    build.name(ROOT, b"z-same", 10, Kind::File);
    build.contents(10, 1, 5000, 0, Place::Inline(vec![b'x'; 5000].into()));
    let mut sparse = inode(
        11,
        Attrs {
            perm: 0,
            ..attrs(Kind::File)
        },
    );
    sparse.size = 1 << 40;
    build.inode(sparse);
    build.name(ROOT, b"a\xff\n name", 11, Kind::File);
    build.contents(11, 1, 1 << 40, 100, Place::Inline(vec![b'1'; 4096].into()));
    build.contents(
        11,
        2,
        1 << 40,
        (1 << 28) - 1,
        Place::Inline(vec![b'2'; 4096].into()),
    );
    build.contents(11, 3, 1 << 40, 1 << 29, Place::Unwritten);
    let mut link = inode(12, attrs(Kind::Symlink));
    link.target = b"../\xfe".to_vec().into();
    link.size = 4;
    build.inode(link);
    build.name(2, b"link", 12, Kind::Symlink);
    for (ino, kind) in [
        (13, Kind::Fifo),
        (14, Kind::Socket),
        (15, Kind::Char),
        (16, Kind::Block),
    ] {
        let rdev = if ino > 14 { 0xabc1_2345 } else { 0 };
        build.inode(inode(
            ino,
            Attrs {
                rdev,
                ..attrs(kind)
            },
        ));
        build.name(2, format!("special{ino}").as_bytes(), ino, kind);
    }
    build.inode(inode(
        17,
        Attrs {
            flags: 0x10,
            ..attrs(Kind::File)
        },
    ));
    build.name(2, &[b'n'; 255], 17, Kind::File);
    build.0.push(Record::Setting {
        key: b"limit\0\xff"[..].into(),
        version: 1,
        value: Some(b"=\n\0"[..].into()),
    });
    build.volume()
}

/// The root of a volume that was never mounted.
const NEW: FirstRoot = FirstRoot {
    uid: 1000,
    gid: 100,
    time: Time { sec: 9, nsec: 8 },
};

fn dumped(volume: &Model) -> Vec<u8> {
    let mut stream = Vec::new();
    save(volume, NEW, 0, &mut stream, &mut |_| {}).expect("a dump");
    stream
}

fn loaded(stream: &[u8]) -> std::result::Result<Model, DumpError> {
    let model = Model::default();
    let (mut reader, head) = DumpReader::new(stream)?;
    into_volume(&mut reader, &head, &model, 0, &mut |_| {})?;
    Ok(model)
}

#[test]
fn a_volume_that_is_loaded_is_the_one_that_was_dumped() {
    let volume = full();
    let again = loaded(&dumped(&volume)).expect("loads");
    assert!(
        again.state() == volume.state(),
        "{:?}",
        again.state().without_pages()
    );
    assert_eq!(dumped(&again).len(), dumped(&volume).len());
}

#[test]
fn a_volume_that_was_never_mounted_is_dumped_with_its_root_alone() {
    let stream = dumped(&Model::default());
    let (mut reader, head) = DumpReader::new(&*stream).expect("a dump");
    assert_eq!((head.last_inode, head.settings.len()), (ROOT, 0));
    let root = reader.member().expect("a member").expect("the root");
    let entry::What::Inode(inode, _) = root.what else {
        panic!("another name")
    };
    let found = (inode.ino, inode.attrs.uid, inode.attrs.mtime);
    assert_eq!(found, (ROOT, NEW.uid, NEW.time));
    assert!(reader.member().expect("the end").is_none());
    let again = loaded(&stream).expect("a volume");
    assert_eq!(dumped(&again).len(), stream.len());
}

#[test]
fn what_was_touched_later_is_the_time_of_change() {
    let mut build = Build::new();
    build.directory(ROOT, ROOT, "");
    build.inode(Inode {
        touched: 7_000_000_001,
        ..inode(9, attrs(Kind::File))
    });
    build.name(ROOT, b"f", 9, Kind::File);
    let again = loaded(&dumped(&build.volume())).expect("loads");
    let inode = again.load_inode(9).expect("loads").expect("is there");
    let touched = Time { sec: 7, nsec: 1 };
    assert_eq!((inode.touched, inode.attrs.mtime), (0, touched));
    assert_eq!(inode.attrs.ctime.sec, 5_000_000_000);
}

/// Once, the dump of a file that was set to a time yet to come, and then written to, had that time.
#[test]
fn a_touch_replaces_a_time_that_is_yet_to_come() {
    let mut build = Build::new();
    build.directory(ROOT, ROOT, "");
    let mut set = attrs(Kind::File);
    set.mtime.sec = 4_102_444_800;
    build.inode(Inode {
        touched: 7_000_000_001,
        ..inode(9, set)
    });
    build.name(ROOT, b"f", 9, Kind::File);
    let again = loaded(&dumped(&build.volume())).expect("loads");
    let inode = again.load_inode(9).expect("loads").expect("is there");
    assert_eq!(inode.attrs.mtime, Time { sec: 7, nsec: 1 });
}

#[test]
fn a_large_file_goes_through_segments_and_comes_back_whole() {
    let mut build = Build::new();
    build.directory(ROOT, ROOT, "");
    let size = 9_000_001;
    build.inode(Inode {
        size,
        ..inode(9, attrs(Kind::File))
    });
    build.name(ROOT, b"f", 9, Kind::File);
    let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    build.contents(9, 1, size, 0, Place::Inline(bytes.into()));
    let volume = build.volume();
    let again = loaded(&dumped(&volume)).expect("loads");
    assert!(
        again.state() == volume.state(),
        "{:?}",
        again.state().without_pages()
    );
    assert!(again.segments_written() > 1);
}

/// Once, each written range was handed over by itself: a segment with a file of its own.
#[test]
fn the_ranges_of_a_fragmented_file_are_handed_over_together() {
    let mut build = Build::new();
    build.directory(ROOT, ROOT, "");
    let pages = 6000;
    let size = (pages - 1) * PAGE + 9;
    build.inode(Inode {
        size,
        ..inode(9, attrs(Kind::File))
    });
    build.name(ROOT, b"f", 9, Kind::File);
    // Every other page, and a longer run in the middle.
    let ranges = (0..pages).step_by(2).map(|page| (page, 1));
    for (version, (page, len)) in ranges.chain([(2500, 1000)]).enumerate() {
        let bytes = vec![page as u8 | 1; (len * PAGE) as usize];
        build.contents(9, version as u32, size, page, Place::Inline(bytes.into()));
    }
    let volume = build.volume();
    let again = loaded(&dumped(&volume)).expect("loads");
    assert!(again.state() == volume.state());
    // 3500 pages, of which 2048 go at once.
    assert_eq!(again.writes(), 2);
}

/// Once, a commit had up to 16,384 inodes with all their attributes.
#[test]
fn a_commit_of_a_load_carries_few_attributes() {
    let mut build = Build::new();
    build.directory(ROOT, ROOT, "");
    for ino in 10..210 {
        let mut file = inode(ino, attrs(Kind::File));
        file.xattrs = vec![(b"user.a"[..].into(), vec![ino as u8; 64 << 10].into())];
        build.inode(file);
        build.name(ROOT, format!("f{ino}").as_bytes(), ino, Kind::File);
    }
    for ino in 1000..4000 {
        let mut link = inode(ino, attrs(Kind::Symlink));
        link.target = vec![b'x'; 4095].into();
        link.size = 4095;
        build.inode(link);
        build.name(ROOT, format!("l{ino}").as_bytes(), ino, Kind::Symlink);
    }
    let volume = build.volume();
    let again = loaded(&dumped(&volume)).expect("loads");
    assert!(again.state() == volume.state());
    let largest = again.largest_commit();
    assert!(largest <= 9 << 20, "{largest} bytes");
}

#[test]
fn a_stream_cut_anywhere_is_refused_and_names_the_byte() {
    let stream = dumped(&full());
    for len in (0..stream.len() - 1024).step_by(333) {
        let error = loaded(&stream[..len]).expect_err("refused");
        assert!(matches!(error, DumpError::Damaged { .. }), "{len}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let stream = dumped(&full());
    let mut met = std::collections::BTreeSet::new();
    for at in (0..stream.len() - 1024).step_by(7) {
        let mut damaged = stream.clone();
        damaged[at] ^= 4;
        let error = loaded(&damaged)
            .err()
            .unwrap_or_else(|| panic!("byte {at} passes"));
        met.insert(
            format!("{error:?}")
                .split_once("fault: ")
                .expect("a fault")
                .1
                .to_owned(),
        );
    }
    assert!(
        met.iter().any(|fault| fault.starts_with("Digest")),
        "{met:?}"
    );
}

#[test]
fn what_is_no_dump_is_refused_with_the_remedy() {
    for stream in [&b""[..], b"text", &[0; 4096], &[b'x'; 4096]] {
        let error = loaded(stream).expect_err("refused").to_string();
        assert!(
            error.contains("no dump of a volume; give a file"),
            "{error}"
        );
    }
    let stream = dumped(&full());
    let at = stream
        .windows(13)
        .position(|w| w == b"HEARTH.dump=1")
        .expect("a version");
    let mut newer = stream;
    newer[at + 12] = b'2';
    let error = loaded(&newer).expect_err("refused").to_string();
    assert!(
        error.contains("format 2; load it with the newer hearth"),
        "{error}"
    );
}

/// Once, the dump of a damaged volume ended well, and no load took it.
#[test]
fn what_no_load_would_take_is_not_dumped() {
    let refused = |build: Build, path: &[u8], key: &'static str| {
        let done = save(&build.volume(), NEW, 0, &mut Vec::new(), &mut |_| {});
        let fault = StreamFault::Record { key };
        let path = path.to_vec();
        assert_eq!(done, Err(DumpError::Unloadable { path, fault }));
    };
    let build = || {
        let mut build = Build::new();
        build.directory(ROOT, ROOT, "");
        build
    };
    let mut two_names = build();
    two_names.inode(inode(9, attrs(Kind::File)));
    two_names.name(ROOT, b"f", 9, Kind::File);
    two_names.name(ROOT, b"g", 9, Kind::File);
    refused(two_names, b"g", "HEARTH.ino");
    let mut no_target = build();
    no_target.inode(inode(9, attrs(Kind::Symlink)));
    no_target.name(ROOT, b"l", 9, Kind::Symlink);
    refused(no_target, b"l", "linkpath");
}

#[test]
fn a_volume_that_holds_something_takes_no_dump() {
    let stream = dumped(&full());
    let (mut reader, head) = DumpReader::new(&*stream).expect("a dump");
    let loaded = into_volume(&mut reader, &head, &full(), 0, &mut |_| {});
    assert_eq!(loaded, Err(DumpError::NotEmpty));
}

#[test]
fn a_dump_names_a_size_and_a_smaller_volume_is_told_how_much_the_files_take() {
    let (mut stream, size) = (Vec::new(), 1 << 40);
    save(&full(), NEW, size, &mut stream, &mut |_| {}).expect("a dump");
    let load = |size: u64| {
        let (mut reader, head) = DumpReader::new(&*stream).expect("a dump");
        assert_eq!(head.size, 1 << 40);
        into_volume(&mut reader, &head, &Model::default(), size, &mut |_| {})
    };
    let Err(DumpError::TooLarge { needs, size: 4096 }) = load(4096) else {
        panic!("a page is too little");
    };
    assert!(load(needs - 1).is_err());
    assert!(load(needs).is_ok());
}

#[test]
fn tar_lists_and_unpacks_a_dump() {
    let stream = dumped(&full());
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("dump.tar");
    std::fs::write(&file, &stream).expect("a file is written");
    let said = std::process::Command::new("tar")
        .arg("-tf")
        .arg(&file)
        .output()
        .expect("tar is there");
    assert!(said.status.success(), "{said:?}");
    let listed = String::from_utf8_lossy(&said.stdout).into_owned();
    for name in [
        "./",
        "b/",
        "b/inner/",
        "b/inner/plain",
        "b/link",
        "z-same",
        "b/special13",
    ] {
        assert!(listed.lines().any(|line| line == name), "{name}: {listed}");
    }
    let said = std::process::Command::new("tar")
        .arg("-xf")
        .arg(&file)
        .arg("-C")
        .arg(place.path())
        .args(["b/inner/plain", "--no-same-owner"])
        .output()
        .expect("tar is there");
    assert!(said.status.success(), "{said:?}");
    let bytes = std::fs::read(place.path().join("b/inner/plain")).expect("a file");
    assert_eq!(bytes, vec![b'x'; 5000]);
}

#[test]
fn a_plain_directory_gets_the_tree() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let stream = dumped(&full());
    let place = tempfile::tempdir().expect("a directory");
    let (mut reader, _) = DumpReader::new(&*stream).expect("a dump");
    let (done, left_out) = into_directory(&mut reader, place.path(), &mut |_| {}).expect("loads");
    assert_eq!(done.members, 12);
    let at = |name: &[u8]| place.path().join(std::ffi::OsStr::from_bytes(name));
    let plain = at(b"b/inner/plain").metadata().expect("a file");
    assert_eq!((plain.len(), plain.nlink()), (5000, 2));
    assert_eq!((plain.mtime(), plain.mtime_nsec()), (-3, 4));
    assert_eq!(plain.ino(), at(b"z-same").metadata().expect("a file").ino());
    let sparse = at(b"a\xff\n name").metadata().expect("a file");
    assert_eq!((sparse.len(), sparse.mode() & 0o7777), (1 << 40, 0));
    assert!(sparse.blocks() < 1000, "{}", sparse.blocks());
    let inner = at(b"b/inner").metadata().expect("a directory");
    assert_eq!((inner.mtime(), inner.mtime_nsec()), (-3, 4));
    let link = at(b"b/link").symlink_metadata().expect("a link");
    assert_eq!((link.mtime(), link.mtime_nsec()), (-3, 4));
    if rustix::process::geteuid().is_root() {
        assert_eq!(
            (plain.uid(), plain.gid(), plain.mode() & 0o7777),
            (1000, 100, 0o4711)
        );
        assert!(!left_out.contains_key("owners"), "{left_out:?}");
    }
    assert!(left_out.contains_key("projects"), "{left_out:?}");
    let again = DumpReader::new(&*stream).expect("a dump").0;
    let mut again = again;
    let refused = into_directory(&mut again, place.path(), &mut |_| {});
    assert_eq!(refused.err(), Some(DumpError::NotEmpty));
    unflag(&at(&[b"b/", &[b'n'; 255][..]].concat()));
}

/// A file that may not be changed cannot be removed either.
fn unflag(file: &std::path::Path) {
    if let Ok(file) = std::fs::File::open(file) {
        let _ = rustix::fs::ioctl_setflags(&file, rustix::fs::IFlags::empty());
    }
}

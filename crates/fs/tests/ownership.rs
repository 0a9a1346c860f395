//! What the owner of a file may do and others may not: links, protected links, project ids.

use hearth::{
    Caller, Credentials, Errno, FsXAttr, Kind, Origin, Process, Protection, ROOT, Volume, flags,
};

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

/// Root, and two users, of a volume with a sticky directory `/tmp` that all may write to.
fn users(protection: Protection) -> [Process; 3] {
    let volume = Volume::builder()
        .protection(protection)
        .build()
        .expect("a valid volume");
    let root = volume.process(Credentials::root());
    root.umask(0);
    root.mkdir("/tmp", 0o1777).expect("an empty root");
    let user = |uid| volume.process(Credentials::user(uid, uid));
    [root, user(1), user(2)]
}

#[test]
fn what_another_user_opened_is_linked_by_the_superuser_only() {
    let [root, owner, other] = users(Protection::default());
    let fd = owner.open("/tmp/f", NEW, 0o666).unwrap();
    let link = |p: &Process, name: &str| {
        p.linkat(
            fd,
            "",
            hearth::AT_FDCWD,
            format!("/tmp/{name}"),
            libc::AT_EMPTY_PATH,
        )
    };
    link(&owner, "own").unwrap();
    // As a process that dropped its privileges after it opened the file.
    owner.set_credentials(Credentials::user(2, 2));
    assert_eq!(link(&owner, "dropped"), Err(Errno::ENOENT));
    owner.set_credentials(Credentials {
        groups: vec![7],
        ..Credentials::user(1, 1)
    });
    assert_eq!(link(&owner, "groups"), Err(Errno::ENOENT));
    owner.set_credentials(Credentials::root());
    link(&owner, "root").unwrap();
    assert_eq!(root.stat("/tmp/f").unwrap().nlink, 3);
    drop(other);
}

#[test]
fn a_nameless_file_is_named_by_who_opened_it() {
    let [_, owner, _] = users(Protection::default());
    let fd = owner
        .open("/tmp", libc::O_TMPFILE | libc::O_RDWR, 0o600)
        .unwrap();
    let link = || owner.linkat(fd, "", hearth::AT_FDCWD, "/tmp/f", libc::AT_EMPTY_PATH);
    owner.set_credentials(Credentials::user(2, 2));
    assert_eq!(link(), Err(Errno::ENOENT));
    owner.set_credentials(Credentials::user(1, 1));
    link().unwrap();
}

#[test]
fn a_file_without_a_name_gets_a_first_one_and_none_after_its_last() {
    let [root, ..] = users(Protection::default());
    let make = |flags| {
        let flags = libc::O_TMPFILE | libc::O_RDWR | flags;
        root.open("/tmp", flags, 0o600).unwrap()
    };
    let link = |fd, name: &str| root.linkat(fd, "", hearth::AT_FDCWD, name, libc::AT_EMPTY_PATH);
    let fd = make(0);
    link(fd, "/tmp/first").unwrap();
    link(fd, "/tmp/second").unwrap();
    root.unlink("/tmp/first").unwrap();
    link(fd, "/tmp/third").unwrap();
    root.unlink("/tmp/second").unwrap();
    root.unlink("/tmp/third").unwrap();
    assert_eq!(link(fd, "/tmp/late"), Err(Errno::ENOENT));
    assert_eq!(link(make(libc::O_EXCL), "/tmp/never"), Err(Errno::ENOENT));
}

#[test]
fn a_file_without_a_name_is_made_in_a_directory_that_was_removed_as_in_tmpfs() {
    let [root, _, other] = users(Protection::default());
    root.mkdir("/gone", 0o755).unwrap();
    let dir = root.open("/gone", libc::O_DIRECTORY, 0).unwrap();
    let their_dir = other.open("/gone", libc::O_DIRECTORY, 0).unwrap();
    root.rmdir("/gone").unwrap();
    let flags = libc::O_TMPFILE | libc::O_RDWR;
    let fd = root.openat(dir, ".", flags, 0o600).unwrap();
    assert_eq!(root.pwrite(fd, b"text", 0), Ok(4));
    assert_eq!(root.fstat(fd).unwrap().nlink, 0);
    assert_eq!(
        other.openat(their_dir, ".", flags, 0o600),
        Err(Errno::EACCES)
    );
    let new = libc::O_CREAT | libc::O_RDWR;
    assert_eq!(root.openat(dir, "f", new, 0o600), Err(Errno::ENOENT));
    let link = root.linkat(fd, "", hearth::AT_FDCWD, "/tmp/f", libc::AT_EMPTY_PATH);
    assert_eq!((link, root.stat("/tmp/f").unwrap().size), (Ok(()), 4));
}

/// A kernel does not know of a name that the library took.
#[test]
fn what_lost_its_last_name_gets_none_through_a_mount_either() {
    let [root, ..] = users(Protection::default());
    let (vfs, caller) = (root.volume().vfs(), Caller::ROOT);
    let link = |ino, name: &[u8]| vfs.link(&caller, ino, ROOT, name).map(|attr| attr.nlink);
    let made = vfs.mknod(&caller, ROOT, b"f", Kind::File, 0o644, 0);
    let ino = made.unwrap().ino;
    root.unlink("/f").unwrap();
    assert_eq!(link(ino, b"again"), Err(Errno::ENOENT));
    let nameless = |flags| vfs.tmpfile(&caller, ROOT, 0o600, libc::O_RDWR | flags);
    let (attr, _file) = nameless(0).unwrap();
    assert_eq!(link(attr.ino, b"first"), Ok(1));
    root.unlink("/first").unwrap();
    assert_eq!(link(attr.ino, b"late"), Err(Errno::ENOENT));
    let (attr, _file) = nameless(libc::O_EXCL).unwrap();
    assert_eq!(link(attr.ino, b"never"), Err(Errno::ENOENT));
}

#[test]
fn protected_hard_links_are_for_owners_and_for_who_may_read_and_write() {
    for hardlinks in [false, true] {
        let [root, owner, other] = users(Protection {
            hardlinks,
            ..Protection::default()
        });
        let refused = if hardlinks { Err(Errno::EPERM) } else { Ok(()) };
        for (name, mode, answer) in [
            ("plain", 0o666, Ok(())),
            ("unreadable", 0o622, refused),
            ("unwritable", 0o644, refused),
            ("setuid", 0o4666, refused),
            ("setgid", 0o2676, refused),
            ("locking", 0o2666, Ok(())),
        ] {
            let path = format!("/tmp/{name}");
            owner.mknod(&path, libc::S_IFREG, 0).unwrap();
            owner.chmod(&path, mode).unwrap();
            assert_eq!(other.link(&path, format!("{path}-other")), answer, "{name}");
            owner.link(&path, format!("{path}-own")).unwrap();
            root.link(&path, format!("{path}-root")).unwrap();
        }
        owner.symlink("plain", "/tmp/symlink").unwrap();
        assert_eq!(other.link("/tmp/symlink", "/tmp/symlink-other"), refused);
        root.mkdir("/closed", 0o755).unwrap();
        let closed = refused.and(Err(Errno::EACCES));
        assert_eq!(
            other.link("/tmp/unwritable", "/closed/f"),
            closed,
            "the file is asked about first"
        );
    }
}

/// A kernel whose own setting is off hands the request over.
#[test]
fn protected_hard_links_hold_through_a_mount_too() {
    for hardlinks in [false, true] {
        let protection = Protection {
            hardlinks,
            ..Protection::default()
        };
        let volume = Volume::builder().protection(protection).build().unwrap();
        let vfs = volume.vfs();
        let asks = |uid| Caller {
            uid,
            gid: uid,
            origin: Origin::Kernel,
            ..Caller::ROOT
        };
        let refused = if hardlinks { Err(Errno::EPERM) } else { Ok(()) };
        let make = |name: &[u8], mode| {
            let made = vfs.mknod(&asks(1), ROOT, name, Kind::File, mode, 0);
            made.unwrap().ino
        };
        let link = |uid, ino, name: &[u8]| vfs.link(&asks(uid), ino, ROOT, name).map(drop);
        let (shared, own) = (make(b"shared", 0o666), make(b"own", 0o644));
        assert_eq!(link(2, shared, b"shared-2"), Ok(()));
        assert_eq!(link(2, own, b"own-2"), refused);
        assert_eq!(link(1, own, b"own-1"), Ok(()));
        assert_eq!(link(0, own, b"own-0"), Ok(()));
    }
}

#[test]
fn protected_symbolic_links_are_followed_by_their_owner_and_in_private_directories() {
    for symlinks in [false, true] {
        let [root, owner, other] = users(Protection {
            symlinks,
            ..Protection::default()
        });
        let refused = if symlinks { Err(Errno::EACCES) } else { Ok(()) };
        root.mkdir("/open", 0o777).unwrap();
        root.symlink("/", "/tmp/of-root").unwrap();
        for directory in ["/tmp", "/open"] {
            owner.symlink("/", format!("{directory}/l")).unwrap();
        }
        let follow = |p: &Process, path: &str| p.stat(path).map(drop);
        assert_eq!(follow(&other, "/tmp/l"), refused);
        assert_eq!(
            follow(&root, "/tmp/l"),
            refused,
            "the superuser least of all"
        );
        assert_eq!(
            follow(&other, "/tmp/l/tmp"),
            Ok(()),
            "only at the end of a path"
        );
        for (p, path) in [
            (&owner, "/tmp/l"),
            (&other, "/tmp/of-root"),
            (&other, "/open/l"),
        ] {
            assert_eq!(follow(p, path), Ok(()), "{path}");
        }
        assert!(other.lstat("/tmp/l").is_ok());
        // Through another one: at the end of the path, and in the middle.
        root.symlink("/tmp/l", "/through").unwrap();
        assert_eq!(follow(&other, "/through"), refused);
        assert_eq!(follow(&other, "/through/tmp"), Ok(()));
    }
}

#[test]
fn protected_files_are_not_opened_by_who_means_to_make_them() {
    for regular in 0..=2 {
        let [root, owner, other] = users(Protection {
            regular,
            ..Protection::default()
        });
        root.mkdir("/group", 0o1775).unwrap();
        let refused = |from| {
            if regular >= from {
                Err(Errno::EACCES)
            } else {
                Ok(())
            }
        };
        root.mknod("/group/f", libc::S_IFREG | 0o666, 0).unwrap();
        root.chown("/group/f", Some(1), None).unwrap();
        owner.umask(0);
        owner.mknod("/tmp/f", libc::S_IFREG | 0o666, 0).unwrap();
        root.mknod("/tmp/of-root", libc::S_IFREG | 0o666, 0)
            .unwrap();
        let open = |p: &Process, path: &str, flags| p.open(path, flags, 0o600).map(drop);
        assert_eq!(open(&other, "/tmp/f", NEW), refused(1));
        assert_eq!(open(&root, "/tmp/f", NEW), refused(1));
        assert_eq!(open(&other, "/group/f", NEW), refused(2));
        assert_eq!(open(&other, "/tmp/f", libc::O_RDWR), Ok(()));
        assert_eq!(open(&owner, "/tmp/f", NEW), Ok(()));
        assert_eq!(open(&other, "/tmp/of-root", NEW), Ok(()));
    }
}

#[test]
fn a_file_becomes_immutable_or_append_only_by_the_superuser_alone() {
    let [root, owner, _] = users(Protection::default());
    owner.umask(0);
    let fd = owner
        .open("/tmp/f", libc::O_CREAT | libc::O_RDWR, 0o666)
        .unwrap();
    let roots = root.open("/tmp/f", libc::O_RDONLY, 0).unwrap();
    for flag in [flags::APPEND, flags::IMMUTABLE] {
        assert_eq!(owner.set_flags(fd, flag), Err(Errno::EPERM));
        root.set_flags(roots, flag).unwrap();
        assert_eq!(owner.set_flags(fd, 0), Err(Errno::EPERM));
        root.set_flags(roots, 0).unwrap();
    }
    owner.set_flags(fd, flags::NODUMP).unwrap();
}

#[test]
fn only_the_owner_of_the_volume_changes_the_project_id_and_its_inheritance() {
    let [root, owner, other] = users(Protection::default());
    owner.umask(0);
    owner.mkdir("/tmp/d", 0o777).unwrap();
    let open = |p: &Process| {
        p.open("/tmp/d", libc::O_RDONLY | libc::O_DIRECTORY, 0)
            .unwrap()
    };
    let wanted = FsXAttr {
        xflags: flags::to_xflags(flags::PROJINHERIT),
        project: 42,
        ..FsXAttr::default()
    };
    let (mine, theirs, roots) = (open(&owner), open(&other), open(&root));
    assert_eq!(other.set_fsxattr(theirs, &wanted), Err(Errno::EPERM));
    assert_eq!(owner.set_fsxattr(mine, &wanted), Err(Errno::EPERM));
    root.set_fsxattr(roots, &wanted).unwrap();
    assert_eq!(owner.get_fsxattr(mine).unwrap(), wanted);
    let without = FsXAttr {
        xflags: 0,
        ..wanted
    };
    assert_eq!(owner.set_fsxattr(mine, &without), Err(Errno::EPERM));
    let none = FsXAttr {
        project: u32::MAX,
        ..wanted
    };
    assert_eq!(root.set_fsxattr(roots, &none), Err(Errno::EINVAL));
    other.mkdir("/tmp/d/below", 0o700).unwrap();
    let below = root.open("/tmp/d/below", libc::O_RDONLY, 0).unwrap();
    assert_eq!(root.get_fsxattr(below).unwrap(), wanted);
    // The other flags of the same call still ask for the superuser.
    let fixed = FsXAttr {
        xflags: wanted.xflags | flags::to_xflags(flags::APPEND),
        ..wanted
    };
    assert_eq!(owner.set_fsxattr(mine, &fixed), Err(Errno::EPERM));
    root.set_fsxattr(roots, &fixed).unwrap();
}

/// `chown(2)` has it for "keep it", and a kernel in front of the volume has no such user.
#[test]
fn the_number_that_keeps_an_owner_is_given_to_no_file() {
    let [root, ..] = users(Protection::default());
    let fd = root.open("/f", NEW, 0o666).unwrap();
    let nobody = Some(u32::MAX);
    for (uid, gid) in [(nobody, None), (None, nobody)] {
        assert_eq!(root.chown("/f", uid, gid), Err(Errno::EINVAL));
        assert_eq!(root.fchown(fd, uid, gid), Err(Errno::EINVAL));
    }
    let is = root.fstat(fd).unwrap();
    assert_eq!((is.uid, is.gid), (0, 0));
}

//! What cannot be served is refused in one line, and what the mount is like.

use super::harness::{
    Below, Mounted, Private, Transport, hearth, mounts_below, program, refused, said, shell,
    succeed,
};
use std::fs;

#[test]
fn what_cannot_be_served_is_refused_in_one_line() {
    let private = Private::new();
    let (source, place) = (private.directory("source"), private.directory("m"));
    fs::write(private.path().join("file"), "").unwrap();
    fs::create_dir(source.join("inside")).unwrap();
    std::os::unix::fs::symlink(source.join("inside"), private.path().join("link")).unwrap();
    fs::create_dir(place.join("deep")).unwrap();
    let bind = private.directory("bind");
    succeed(program("mount").arg("--bind").arg(&source).arg(&bind));
    for (typed, status, words) in [
        ("host:missing m/deep", 1, &["missing", "does not exist"][..]),
        ("./missing m/deep", 1, &["does not exist"]),
        ("host:file m/deep", 1, &["file", "not a directory"]),
        ("host: m/deep", 2, &["names no directory"]),
        ("host:source source/inside", 1, &["holds the mount point"]),
        ("host:source link", 1, &["holds the mount point"]),
        ("host:source bind/inside", 1, &["holds the mount point"]),
        ("host:/ m/deep", 1, &["holds the mount point"]),
        ("host:m/deep m", 1, &["below the mount point"]),
        ("host:source source", 1, &["mount point"]),
        (
            "-o size=1G host:source m/deep",
            2,
            &["size", "host directory"],
        ),
        (
            "-o quota=now host:source m/deep",
            2,
            &["quota", "wait, background or off"],
        ),
        ("-o writeback host:source m/deep", 2, &["writeback"]),
        ("-o no_open host:source m/deep", 2, &["no_open"]),
        ("-o xdev memory: m/deep", 2, &["xdev", "host:DIR"]),
    ] {
        let mut mount = hearth();
        mount.arg("mount").args(typed.split(' '));
        mount.current_dir(private.path());
        refused(typed, &said(&mut mount), status, words);
    }
    succeed(program("umount").arg(&bind));
    assert_eq!(
        mounts_below(private.path()),
        Vec::<std::path::PathBuf>::new()
    );
}

#[test]
fn a_directory_is_served_once_and_by_whatever_name() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("with:colon")).unwrap();
    let mounted = Mounted::over(Transport::Dev, &below.at("with:colon"), "");
    let other = below.outside("other");
    let mut mount = hearth();
    mount.arg("mount").arg(below.at("with:colon")).arg(&other);
    let words = ["already served at", "hearth umount"];
    refused("a second mount", &said(&mut mount), 1, &words);
    let mut find = program("findmnt");
    let name = succeed(find.args(["-n", "-o", "SOURCE"]).arg(mounted.path()));
    assert_eq!(name.trim_end(), below.at("with_colon").to_string_lossy());
    let local = succeed(&mut shell(mounted.path(), "df -l . | tail -n 1"));
    assert!(local.contains("with_colon"), "{local}");
}

/// Regression: a mount that was called otherwise than its directory was not found.
#[test]
fn a_directory_is_served_once_whatever_its_mount_is_called_and_whichever_path_leads_to_it() {
    let below = Below::tmpfs();
    let (served, other) = (below.at("served"), below.at("other"));
    let (bind, link) = (below.at("bind"), below.at("link"));
    for directory in [&served, &other, &bind] {
        fs::create_dir(directory).unwrap();
    }
    std::os::unix::fs::symlink(&served, &link).unwrap();
    succeed(program("mount").arg("--bind").arg(&served).arg(&bind));
    let name = format!("fsname={}", other.display());
    let mounted = Mounted::over(Transport::Dev, &served, &name);
    let at = format!("already served at {}", mounted.path().display());
    let place = below.outside("place");
    for path in [&served, &bind, &link] {
        let mut mount = hearth();
        mount.args(["mount", "-o", "transport=dev"]).arg(path);
        let second = said(mount.arg(&place));
        refused("a second mount", &second, 1, &[&*at, "hearth umount"]);
    }
    let info = said(hearth().arg("info").arg(&served));
    let words = ["directory of the host that is served at"];
    refused("info of what is served", &info, 1, &words);

    // What is called like this one is another.
    let mut mount = hearth();
    mount.args(["mount", "-o", "transport=dev"]).arg(&other);
    succeed(mount.arg(&place));
    succeed(hearth().arg("umount").arg(&place));

    // A stopped daemon does not answer: there is nothing but the name to go by.
    let daemon = mounted.daemon().to_string();
    succeed(program("kill").args(["-s", "STOP", &daemon]));
    let mut mount = hearth();
    mount.args(["mount", "-o", "transport=dev"]).arg(&other);
    let by_name = said(mount.arg(&place));
    succeed(program("kill").args(["-s", "CONT", &daemon]));
    refused("a mount by its name", &by_name, 1, &[&*at]);
    succeed(program("umount").arg(&bind));
}

/// Regression: in the name of a mount a colon becomes another byte, so two directories had one
/// name, and the second was refused.
#[test]
fn directories_that_differ_in_a_colon_are_both_served() {
    let below = Below::tmpfs();
    let names = ["a:b", "a_b"];
    for name in names {
        fs::create_dir(below.at(name)).unwrap();
        fs::write(below.at(name).join("f"), name).unwrap();
    }
    let mounts = names.map(|name| Mounted::over(Transport::Dev, &below.at(name), ""));
    for (name, mounted) in names.iter().zip(&mounts) {
        assert_eq!(mounted.shell("cat f"), **name);
    }
}

#[test]
fn the_flags_of_the_directorys_own_mount_are_kept() {
    let below = Below::tmpfs_with("nosuid,nodev,noexec,ro,size=1M");
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    let mut find = program("findmnt");
    let flags = succeed(find.args(["-n", "-o", "OPTIONS"]).arg(mounted.path()));
    for flag in ["ro", "nosuid", "nodev", "noexec"] {
        assert!(flags.split(',').any(|one| one == flag), "{flag}: {flags}");
    }
    let made = fs::write(mounted.at("f"), "").unwrap_err();
    assert_eq!(made.raw_os_error(), Some(libc::EROFS));
}

#[test]
fn a_path_alone_is_a_directory_of_the_host_and_info_says_what_is_below() {
    let below = Below::tmpfs();
    let place = below.outside("place");
    let mut mount = hearth();
    mount.args(["mount", "-o", "transport=dev"]);
    succeed(mount.arg(below.path()).arg(&place));
    fs::write(place.join("f"), "x").unwrap();
    assert_eq!(fs::read(below.at("f")).unwrap(), b"x");
    let said = succeed(hearth().arg("info").arg(&place));
    for word in ["host", &*below.path().to_string_lossy(), "tmpfs", "handles"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let json = succeed(hearth().args(["info", "--json"]).arg(&place));
    assert!(json.contains("\"source\""), "{json}");
    succeed(hearth().arg("umount").arg(&place));
}

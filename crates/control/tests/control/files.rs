//! Which control files there are, who may use them, and what they show.

use crate::fixture::{create, read, root, tracked, write};
use hearth::{
    AT_FDCWD, Caller, Credentials, Errno, LimitChange, LimitUpdate, QuotaId, VfsError, Volume,
};

#[test]
fn control_files_are_found_but_not_listed() {
    let p = root();
    assert!(p.read_dir("/").unwrap().is_empty());
    let fd = p.open("/.hearth/version", libc::O_RDONLY, 0).unwrap();
    let mut out = [0; 64];
    let got = p.read(fd, &mut out).unwrap();
    assert!(out[..got].starts_with(b"hearth "));
    assert_eq!(p.mkdir("/.hearth", 0o755), Err(Errno::EEXIST));
    assert_eq!(p.rmdir("/.hearth"), Err(Errno::EBUSY));
    assert_eq!(p.mkdir("/.hearth/x", 0o755), Err(Errno::EPERM));
    let fd = p.open("/.hearth/sys/fs/atime", libc::O_WRONLY, 0).unwrap();
    assert_eq!(p.write(fd, b"sometimes\n"), Err(Errno::EINVAL));
    assert_eq!(p.write(fd, b"noatime\n"), Ok(8));
    let names: Vec<_> = p.read_dir("/.hearth/sys/fs").unwrap();
    assert_eq!(names.len(), 7);
}

#[test]
fn control_files_are_installed_once() {
    let volume = Volume::memory();
    for _ in 0..2 {
        assert_eq!(hearth_control::install(&volume), Ok(()));
        let p = volume.process(Credentials::root());
        assert_eq!(p.read_dir("/.hearth/sys/fs").unwrap().len(), 7);
    }
}

/// Tunables can be set on a read-only volume, or it would stay so.
#[test]
fn tunables_of_a_read_only_volume_may_be_written() {
    let p = root();
    p.volume().set_read_only(true);
    let path = "/.hearth/sys/fs/read-only";
    let nofollow = libc::AT_SYMLINK_NOFOLLOW;
    let access = p.faccessat(AT_FDCWD, path, libc::W_OK as u32, nofollow);
    assert_eq!(access, Ok(()));
}

/// Regression: a thread that carries requests made the tables of all tenants.
#[test]
fn the_tables_of_the_scheduler_are_made_by_a_thread_that_may_wait() {
    let p = root();
    let vfs = p.volume().nonblocking_vfs();
    for name in ["sched", "sched.json"] {
        let ino = p.stat(format!("/.hearth/{name}")).unwrap().ino;
        let file = vfs.open(&Caller::ROOT, ino, libc::O_RDONLY).unwrap();
        let mut text = [0; 4096];
        let Err(VfsError::Miss(miss)) = vfs.read(&file, 0, &mut text) else {
            panic!("{name} is made at once");
        };
        p.volume().fetch(&miss).unwrap();
        assert!(vfs.read(&file, 0, &mut text).unwrap() > 0, "{name}");
    }
}

#[test]
fn control_files_get_no_other_name_and_no_flags() {
    let p = root();
    assert_eq!(p.link("/.hearth/version", "/v"), Err(Errno::EPERM));
    for path in ["/.hearth", "/.hearth/sys/fs", "/.hearth/version"] {
        let fd = p.open(path, libc::O_RDONLY, 0).unwrap();
        let flags = p.get_flags(fd).unwrap();
        assert_eq!(p.set_flags(fd, 0), Err(Errno::EPERM), "{path}");
        let attr = p.get_fsxattr(fd).unwrap();
        assert_eq!(p.set_fsxattr(fd, &attr), Err(Errno::EPERM), "{path}");
        assert_eq!(p.get_flags(fd), Ok(flags));
    }
    assert_eq!(p.unlink("/.hearth/sys/fs/atime"), Err(Errno::EPERM));
}

#[test]
fn the_text_has_the_calls_of_the_library_apart_from_those_of_a_front_end() {
    let p = root();
    p.symlink("file", "/link").unwrap();
    p.stat("/").unwrap();
    assert!(p.stat("/missing").is_err());
    let text = read(&p, "/.hearth/stats");
    let has = |line: &str| assert!(text.lines().any(|is| is == line), "{line}:\n{text}");
    has("# TYPE hearth_library_ops_total counter");
    has("hearth_library_ops_total{op=\"fstatat\"} 2");
    has("hearth_library_ops_total{op=\"symlinkat\"} 1");
    has("# TYPE hearth_library_op_errors_total counter");
    has("hearth_library_op_errors_total{op=\"fstatat\"} 1");
    has("hearth_library_op_errors_total{op=\"symlinkat\"} 0");
    assert!(
        !text.contains("{op=\"chroot\"}"),
        "what nobody called:\n{text}"
    );
    assert!(!text.contains("hearth_op_seconds_count"), "{text}");
    assert_eq!(p.volume().stats().operations(), 0);
}

#[test]
fn the_owner_reads_report_and_events_below_the_control_directory() {
    let (volume, root, _) = tracked();
    let who = QuotaId::user(1000);
    let limits = LimitChange {
        bytes_hard: LimitUpdate::To(8192),
        inodes_hard: LimitUpdate::To(1),
        ..LimitChange::default()
    };
    volume.quota().set(who, &limits).unwrap();
    root.mkdir("/d", 0o777).unwrap();
    root.chmod("/d", 0o777).unwrap();
    let user = volume.process(Credentials::user(1000, 1000));
    create(&user, "/d/a", 0);
    assert_eq!(user.mkdir("/d/no", 0o755), Err(Errno::EDQUOT));
    let text = |path: &str| read(&root, path);
    let report = text("/.hearth/quota/report.json");
    let mine = "{\"kind\":\"user\",\"id\":1000,\"enforced\":true,\"bytes\":{\"used\":0,";
    assert!(report.contains(mine), "{report}");
    assert!(report.contains("\"hard\":1,\"soft\":null"), "{report}");
    let event = "1 1701000000 user:1000 refused-hard inodes=1 limit=1\n";
    assert_eq!(text("/.hearth/quota/events"), event);
    for path in ["/.hearth/quota/report.json", "/.hearth/quota/events"] {
        assert_eq!(user.open(path, libc::O_RDONLY, 0), Err(Errno::EACCES));
    }
}

#[test]
fn the_tunables_of_the_seed_are_files_that_refuse_nonsense() {
    let (volume, process, _) = tracked();
    let path = |name: &str| format!("/.hearth/sys/fs/{name}");
    let set = |name: &str, text: &str| write(&process, &path(name), text);
    let get = |name: &str| read(&process, &path(name));
    assert_eq!(get("hot-update-interval"), "150\n");
    assert_eq!(get("hot-mem-high-thresh"), "0\n");
    for bad in ["0", "-1", "86401", "soon", ""] {
        assert_eq!(set("hot-update-interval", bad), Err(Errno::EINVAL), "{bad}");
    }
    for bad in ["-1", "1048577", "lots"] {
        assert_eq!(set("hot-mem-high-thresh", bad), Err(Errno::EINVAL), "{bad}");
    }
    set("hot-update-interval", "30\n").unwrap();
    set("hot-mem-high-thresh", "64\n").unwrap();
    assert_eq!((volume.heat().interval(), volume.heat().memory()), (30, 64));
    set("hot-half-lives", "60 3600\n").unwrap();
    assert_eq!(get("hot-half-lives"), "60 3600\n");
    set("hot-track", "0").unwrap();
    assert!(!volume.heat().is_on());
    assert_eq!(set("hot-track", "maybe"), Err(Errno::EINVAL));
    set("hot-track", "1").unwrap();
    assert!(volume.heat().is_on());
}

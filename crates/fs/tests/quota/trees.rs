//! Projects: trees that inherit, and their `df`.

use super::{PAGE, Site, file, fill, site};
use hearth::{Errno, QuotaId, TreeChange, flags};

const USER: u32 = 1000;

fn project(site: &Site, path: &str, id: u32) -> TreeChange {
    site.volume.quota().set_project_tree(path, id).unwrap()
}

/// `/d/p` is project 7 with a few things in it.
fn tree() -> Site {
    let site = site();
    let user = site.user(USER);
    for directory in ["/d/p", "/d/p/sub", "/d/out"] {
        user.mkdir(directory, 0o777).unwrap();
        user.chmod(directory, 0o777).unwrap();
    }
    fill(&user, file(&user, "/d/p/sub/a"), 2);
    user.link("/d/p/sub/a", "/d/p/b").unwrap();
    user.symlink("nowhere", "/d/p/link").unwrap();
    let done = project(&site, "/d/p", 7);
    assert_eq!((done.changed, done.kept), (4, 0), "a linked file once");
    site
}

#[test]
fn a_tree_is_charged_and_hands_its_id_on() {
    let site = tree();
    let seven = QuotaId::project(7);
    assert_eq!(site.used(seven), (2 * PAGE, 4));
    let user = site.user(USER);
    user.mkdir("/d/p/sub/deep", 0o777).unwrap();
    fill(&user, file(&user, "/d/p/sub/deep/c"), 1);
    assert_eq!(site.used(seven), (3 * PAGE, 6));
    assert_eq!(project(&site, "/d/p", 7).changed, 0);
    // Nested: the nearest project counts.
    project(&site, "/d/p/sub/deep", 8);
    file(&user, "/d/p/sub/deep/d");
    assert_eq!(site.used(QuotaId::project(8)), (PAGE, 3));
    assert_eq!(site.used(seven), (2 * PAGE, 4));
    project(&site, "/d/p", 0);
    assert_eq!(site.used(seven), (0, 0));
    file(&user, "/d/p/e");
    assert_eq!(site.used(seven), (0, 0));
    site.check();
}

#[test]
fn a_full_project_says_enospc() {
    let site = tree();
    site.hard(QuotaId::project(7), 3 * PAGE, 6);
    let user = site.user(USER);
    let fd = file(&user, "/d/p/c");
    assert_eq!(
        user.pwrite(fd, &[1; 3 * PAGE as usize], 0),
        Ok(PAGE as usize)
    );
    assert_eq!(user.pwrite(fd, b"x", PAGE), Err(Errno::ENOSPC));
    user.mkdir("/d/p/last", 0o755).unwrap();
    assert_eq!(user.mkdir("/d/p/no", 0o755), Err(Errno::ENOSPC));
    assert_eq!(
        site.root.mkdir("/d/p/no", 0o755),
        Err(Errno::ENOSPC),
        "root as well"
    );
    user.mkdir("/d/out/yes", 0o755).unwrap();
    user.rename("/d/p/last", "/d/p/sub/last").unwrap();
    user.unlink("/d/p/c").unwrap();
    user.close(fd).unwrap();
    user.mkdir("/d/p/no", 0o755).unwrap();
    site.check();
}

#[test]
fn df_inside_tells_the_projects_truth() {
    let site = tree();
    let all = site.root.statfs("/d").unwrap();
    let inside = |path: &str| site.root.statfs(path).unwrap();
    assert_eq!(inside("/d/p"), all, "no limit, no lie");
    site.hard(QuotaId::project(7), 10 * PAGE, 40);
    for path in ["/d/p", "/d/p/sub", "/d/p/sub/a"] {
        let stat = inside(path);
        assert_eq!((stat.blocks, stat.bfree, stat.bavail), (10, 8, 8), "{path}");
        assert_eq!((stat.files, stat.ffree), (40, 36));
    }
    assert_eq!(inside("/d"), all);
    site.hard(QuotaId::project(7), PAGE, 2);
    assert_eq!(
        (inside("/d/p").bfree, inside("/d/p").ffree),
        (0, 0),
        "below use"
    );
    site.hard(QuotaId::project(7), 1 << 40, 1 << 40);
    let stat = inside("/d/p");
    assert_eq!(stat.blocks, all.blocks, "no more than there is");
    assert_eq!(stat.blocks - stat.bfree, 2, "what the project uses");
    assert_eq!((stat.files, stat.ffree), (all.files, all.ffree));
}

#[test]
fn what_a_project_uses_is_told_on_a_volume_that_others_have_filled() {
    let site = tree();
    let free = |path| site.root.statfs(path).unwrap().bavail;
    site.hard(QuotaId::project(7), 50 * PAGE, 40);
    let fd = file(&site.root, "/filler");
    let filler = (free("/") - 10) * PAGE;
    site.root.fallocate(fd, 0, 0, filler).unwrap();
    let stat = site.root.statfs("/d/p").unwrap();
    assert_eq!((stat.blocks, stat.blocks - stat.bfree), (50, 2));
    assert_eq!(stat.bavail, free("/"), "no more than the volume has");
    fill(&site.root, file(&site.root, "/d/p/f"), 3);
    let stat = site.root.statfs("/d/p").unwrap();
    assert_eq!((stat.blocks, stat.blocks - stat.bfree), (50, 5));
    assert_eq!(stat.bavail, 7);
}

#[test]
fn what_is_of_another_project_comes_in_by_copy_only() {
    let site = tree();
    let user = site.user(USER);
    file(&user, "/d/out/x");
    user.mkdir("/d/out/dir", 0o777).unwrap();
    assert_eq!(user.rename("/d/out/x", "/d/p/x"), Err(Errno::EXDEV));
    assert_eq!(user.link("/d/out/x", "/d/p/x"), Err(Errno::EXDEV));
    assert_eq!(user.rename("/d/out/dir", "/d/p/dir"), Err(Errno::EXDEV));
    let swap = |a: &str, b: &str| {
        user.renameat2(
            hearth::AT_FDCWD,
            a,
            hearth::AT_FDCWD,
            b,
            libc::RENAME_EXCHANGE,
        )
    };
    assert_eq!(swap("/d/p/link", "/d/out/x"), Err(Errno::EXDEV));
    assert_eq!(swap("/d/out/x", "/d/p/link"), Err(Errno::EXDEV));
    // Out of it, and inside, as Linux does; it stays charged to its project.
    user.rename("/d/p/sub/a", "/d/p/a").unwrap();
    user.rename("/d/p/a", "/d/out/a").unwrap();
    assert_eq!(site.used(QuotaId::project(7)), (2 * PAGE, 4));
    user.rename("/d/out/a", "/d/p/back").unwrap();
    site.check();
}

#[test]
fn the_ioctl_moves_the_charge_and_only_the_keeper_may() {
    let site = tree();
    let user = site.user(USER);
    let fd = user.open("/d/p/b", libc::O_RDWR, 0).unwrap();
    let mut attr = user.get_fsxattr(fd).unwrap();
    assert_eq!((attr.project, attr.xflags), (7, 0));
    attr.project = 9;
    assert_eq!(user.set_fsxattr(fd, &attr), Err(Errno::EPERM));
    let fd = site.root.open("/d/p/b", libc::O_RDWR, 0).unwrap();
    attr.xflags = flags::to_xflags(flags::PROJINHERIT);
    site.root.set_fsxattr(fd, &attr).unwrap();
    assert_eq!(site.root.get_fsxattr(fd).unwrap().xflags, 0, "no directory");
    assert_eq!(site.used(QuotaId::project(9)), (2 * PAGE, 1));
    assert_eq!(site.used(QuotaId::project(7)), (0, 3));
    assert_eq!(site.used(QuotaId::user(USER)), (2 * PAGE, 5));
    site.check();
}

#[test]
fn a_stray_of_another_project_is_not_renamed_inside_either() {
    let site = tree();
    let user = site.user(USER);
    let fd = site.root.open("/d/p/b", libc::O_RDWR, 0).unwrap();
    let mut attr = site.root.get_fsxattr(fd).unwrap();
    attr.project = 9;
    site.root.set_fsxattr(fd, &attr).unwrap();
    assert_eq!(user.rename("/d/p/b", "/d/p/c"), Err(Errno::EXDEV));
    let swap = |a: &str, b: &str| {
        let here = hearth::AT_FDCWD;
        user.renameat2(here, a, here, b, libc::RENAME_EXCHANGE)
    };
    assert_eq!(swap("/d/p/b", "/d/p/link"), Err(Errno::EXDEV));
    assert_eq!(swap("/d/p/link", "/d/p/b"), Err(Errno::EXDEV));
    user.rename("/d/p/b", "/d/out/b").unwrap();
    user.rename("/d/p/link", "/d/p/other").unwrap();
}

#[test]
fn rights_and_lost_names_are_looked_at_before_the_project() {
    let site = tree();
    let user = site.user(USER);
    user.mkdir("/d/out/dir", 0o555).unwrap();
    assert_eq!(user.rename("/d/out/dir", "/d/p/dir"), Err(Errno::EACCES));
    let fd = file(&user, "/d/out/x");
    user.unlink("/d/out/x").unwrap();
    let linked = user.linkat(fd, "", hearth::AT_FDCWD, "/d/p/x", libc::AT_EMPTY_PATH);
    assert_eq!(linked, Err(Errno::ENOENT));
}

#[test]
fn what_is_no_directory_hands_no_project_on() {
    let site = tree();
    let fd = site.root.open("/d/p/b", libc::O_RDWR, 0).unwrap();
    let wanted = flags::PROJINHERIT | flags::NODUMP;
    site.root.set_flags(fd, wanted).unwrap();
    assert_eq!(site.root.get_flags(fd), Ok(flags::NODUMP));
}

//! What is counted, one rule a test. `crates/fs/src/quota` has the ledger's own tests.

use super::{PAGE, file, fill, site};
use hearth::backend::TestBackend;
use hearth::{Caller, Credentials, Errno, QuotaId, SetAttr};

const USER: u32 = 1000;

fn me() -> QuotaId {
    QuotaId::user(USER)
}

#[test]
fn holes_are_free_and_st_blocks_says_what_is_charged() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    user.pwrite(fd, b"x", 100 * PAGE).unwrap();
    user.ftruncate(fd, 1 << 30).unwrap();
    assert_eq!(site.used(me()), (PAGE, 1));
    assert_eq!(user.fstat(fd).unwrap().blocks * 512, PAGE);
    site.check();
}

#[test]
fn overwriting_and_appending_charge_what_they_add() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    fill(&user, fd, 3);
    fill(&user, fd, 2);
    assert_eq!(site.used(me()).0, 3 * PAGE);
    let end = user
        .open("/d/a", libc::O_WRONLY | libc::O_APPEND, 0)
        .unwrap();
    user.write(end, b"x").unwrap();
    user.write(end, b"y").unwrap();
    assert_eq!(site.used(me()).0, 4 * PAGE);
    site.check();
}

#[test]
fn truncate_and_punch_give_back_whole_pages() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    fill(&user, fd, 8);
    user.ftruncate(fd, 5 * PAGE + 1).unwrap();
    assert_eq!(site.used(me()).0, 6 * PAGE);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    user.fallocate(fd, punch, PAGE, 2 * PAGE + 100).unwrap();
    assert_eq!(site.used(me()).0, 4 * PAGE);
    user.truncate("/d/a", 0).unwrap();
    assert_eq!(site.used(me()), (0, 1));
    site.check();
}

#[test]
fn preallocation_counts_collapse_frees_and_insert_is_free() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    user.fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 10 * PAGE)
        .unwrap();
    assert_eq!(site.used(me()).0, 10 * PAGE);
    fill(&user, fd, 10);
    assert_eq!(site.used(me()).0, 10 * PAGE, "the room was there");
    user.fallocate(fd, libc::FALLOC_FL_COLLAPSE_RANGE, 0, 4 * PAGE)
        .unwrap();
    assert_eq!(site.used(me()).0, 6 * PAGE);
    user.fallocate(fd, libc::FALLOC_FL_INSERT_RANGE, PAGE, 4 * PAGE)
        .unwrap();
    assert_eq!(site.used(me()).0, 6 * PAGE);
    user.fallocate(fd, libc::FALLOC_FL_ZERO_RANGE, 0, 10 * PAGE)
        .unwrap();
    assert_eq!(site.used(me()).0, 10 * PAGE);
    site.check();
}

#[test]
fn copied_ranges_are_charged_to_the_owner_of_the_copy() {
    let site = site();
    let (user, other) = (site.user(USER), site.user(2000));
    let from = file(&user, "/d/a");
    fill(&user, from, 4);
    let (from, to) = (
        other.open("/d/a", libc::O_RDONLY, 0).unwrap(),
        file(&other, "/d/b"),
    );
    let copied = other.copy_file_range((from, Some(&mut 0)), (to, Some(&mut 0)), 4 * PAGE, 0);
    assert_eq!(copied, Ok(4 * PAGE));
    assert_eq!(site.used(QuotaId::user(2000)), (4 * PAGE, 1));
    site.check();
}

#[test]
fn directories_links_and_special_files_are_inodes() {
    let site = site();
    let user = site.user(USER);
    user.mkdir("/d/sub", 0o755).unwrap();
    user.symlink("/somewhere/else", "/d/link").unwrap();
    user.mknod("/d/fifo", libc::S_IFIFO | 0o644, 0).unwrap();
    assert_eq!(site.used(me()), (0, 3));
    file(&user, "/d/a");
    user.link("/d/a", "/d/b").unwrap();
    user.link("/d/a", "/d/sub/c").unwrap();
    assert_eq!(site.used(me()), (0, 4), "one inode, three names");
    user.unlink("/d/a").unwrap();
    user.unlink("/d/b").unwrap();
    assert_eq!(site.used(me()).1, 4);
    user.unlink("/d/sub/c").unwrap();
    user.rmdir("/d/sub").unwrap();
    assert_eq!(site.used(me()).1, 3, "the descriptor keeps the file");
    site.check();
    drop(user);
    assert_eq!(site.used(me()).1, 2);
    site.check();
}

#[test]
fn what_is_open_counts_until_its_last_close() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    let again = user.dup(fd).unwrap();
    fill(&user, fd, 5);
    user.unlink("/d/a").unwrap();
    assert_eq!(site.used(me()), (5 * PAGE, 1));
    user.close(fd).unwrap();
    site.check();
    assert_eq!(site.used(me()), (5 * PAGE, 1));
    user.close(again).unwrap();
    assert_eq!(site.used(me()), (0, 0));
    let nameless = user
        .open("/d", libc::O_TMPFILE | libc::O_RDWR, 0o600)
        .unwrap();
    fill(&user, nameless, 2);
    assert_eq!(site.used(me()), (2 * PAGE, 1));
    site.check();
    user.close(nameless).unwrap();
    assert_eq!(site.used(me()), (0, 0));
}

#[test]
fn renaming_over_frees_what_was_there_and_exchanging_frees_nothing() {
    let site = site();
    let user = site.user(USER);
    for (name, pages) in [("/d/a", 1), ("/d/b", 2)] {
        let fd = file(&user, name);
        fill(&user, fd, pages);
        user.close(fd).unwrap();
    }
    user.renameat2(
        hearth::AT_FDCWD,
        "/d/a",
        hearth::AT_FDCWD,
        "/d/b",
        libc::RENAME_EXCHANGE,
    )
    .unwrap();
    assert_eq!(site.used(me()), (3 * PAGE, 2));
    user.rename("/d/a", "/d/b").unwrap();
    assert_eq!(site.used(me()), (2 * PAGE, 1));
    site.check();
}

#[test]
fn xattrs_beyond_the_inode_take_blocks() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    user.fsetxattr(fd, b"user.small", &[1; 100], 0).unwrap();
    assert_eq!(site.used(me()).0, 0);
    user.fsetxattr(fd, b"user.large", &[1; 5000], 0).unwrap();
    assert_eq!(site.used(me()).0, 2 * PAGE);
    assert_eq!(user.fstat(fd).unwrap().blocks, 16);
    site.check();
    site.hard(me(), 2 * PAGE, 10);
    assert_eq!(
        user.fsetxattr(fd, b"user.more", &[1; 5000], 0),
        Err(Errno::EDQUOT)
    );
    assert_eq!(user.fgetxattr(fd, b"user.more"), Err(Errno::ENODATA));
    user.fremovexattr(fd, b"user.large").unwrap();
    assert_eq!(site.used(me()).0, 0);
    user.mkdir("/d/sub", 0o755).unwrap();
    site.root.chown("/d/sub", Some(USER), None).unwrap();
    site.root
        .setxattr("/d/sub", b"trusted.x", &[0; 4000], 0)
        .unwrap();
    assert_eq!(site.used(me()).0, PAGE, "whoever sets it, the owner pays");
    user.rmdir("/d/sub").unwrap();
    assert_eq!(site.used(me()).0, 0);
    site.check();
}

#[test]
fn chown_moves_the_charge_and_is_refused_where_it_does_not_fit() {
    let site = site();
    let user = site.volume.process(Credentials {
        uid: USER,
        gid: USER,
        groups: vec![50],
    });
    let fd = file(&user, "/d/a");
    fill(&user, fd, 6);
    user.fsetxattr(fd, b"user.x", &[0; 4000], 0).unwrap();
    let group = QuotaId::group(50);
    site.hard(group, 6 * PAGE, 10);
    assert_eq!(user.fchown(fd, None, Some(50)), Err(Errno::EDQUOT));
    assert_eq!(user.fstat(fd).unwrap().gid, USER);
    assert_eq!(site.used(group), (0, 0));
    site.hard(group, 7 * PAGE, 10);
    user.fchown(fd, None, Some(50)).unwrap();
    assert_eq!(site.used(group), (7 * PAGE, 1));
    assert_eq!(site.used(QuotaId::group(USER)), (0, 0));
    assert_eq!(site.used(me()), (7 * PAGE, 1), "the user stays");
    let other = QuotaId::user(2000);
    site.hard(other, PAGE, 10);
    site.root.chown("/d/a", Some(2000), None).unwrap();
    assert_eq!(site.used(other), (7 * PAGE, 1), "root forces it");
    assert_eq!(site.used(me()), (0, 0));
    // What its new owner may not add to any more.
    assert_eq!(user.pwrite(fd, b"x", 100 * PAGE), Err(Errno::EDQUOT));
    user.ftruncate(fd, 0).unwrap();
    site.check();
}

/// One request may carry both; no system call does.
#[test]
fn what_is_cut_off_while_a_file_is_given_away_is_freed_for_its_new_owner() {
    let site = site();
    let user = site.user(USER);
    fill(&user, file(&user, "/d/a"), 6);
    let ino = user.stat("/d/a").unwrap().ino;
    let set = SetAttr {
        uid: Some(2000),
        size: Some(2 * PAGE),
        ..SetAttr::default()
    };
    let vfs = site.volume.vfs();
    vfs.setattr(&Caller::ROOT, ino, None, &set).unwrap();
    assert_eq!(site.used(me()), (0, 0));
    assert_eq!(site.used(QuotaId::user(2000)), (2 * PAGE, 1));
    site.check();
}

/// Once, the file had a new owner although its size could not be set.
#[test]
fn a_file_that_is_given_away_and_cannot_be_cut_stays_as_it_was() {
    let backend = std::sync::Arc::new(TestBackend::new());
    let volume = hearth::Volume::builder().backend(std::sync::Arc::clone(&backend));
    let volume = volume.build().unwrap();
    let root = volume.process(Credentials::root());
    let fd = file(&root, "/a");
    fill(&root, fd, 3);
    root.fchown(fd, Some(USER), None).unwrap();
    root.fchmod(fd, 0o4755).unwrap();
    let ino = root.fstat(fd).unwrap().ino;
    volume.sync().unwrap();
    for _ in 0..2 {
        volume.reclaim(u64::MAX);
    }
    // The page that is cut in part has to come first.
    let set = SetAttr {
        uid: Some(0),
        size: Some(PAGE + 10),
        ..SetAttr::default()
    };
    let fails = |call: &'static str| (call == "load_pages").then_some(Errno::EIO);
    backend.set_fault(Some(Box::new(fails)));
    let done = volume.vfs().setattr(&Caller::ROOT, ino, None, &set);
    backend.set_fault(None);
    assert_eq!(done, Err(Errno::EIO));
    let is = || {
        let stat = root.fstat(fd).unwrap();
        let used = |uid| volume.quota().get(QuotaId::user(uid)).unwrap();
        let bytes = (used(USER).bytes.used, used(0).bytes.used);
        ((stat.uid, stat.perm, stat.size), bytes)
    };
    assert_eq!(is(), ((USER, 0o4755, 3 * PAGE), (3 * PAGE, 0)));
    super::check(&volume);
    let done = volume.vfs().setattr(&Caller::ROOT, ino, None, &set);
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(is(), ((0, 0o755, PAGE + 10), (0, 2 * PAGE)));
    super::check(&volume);
}

#[test]
fn new_inodes_of_a_setgid_directory_are_its_groups() {
    let site = site();
    site.root.chown("/d", None, Some(70)).unwrap();
    site.root.chmod("/d", 0o2777).unwrap();
    let user = site.user(USER);
    let before = site.used(QuotaId::group(70)).1;
    file(&user, "/d/a");
    user.mkdir("/d/sub", 0o777).unwrap();
    file(&user, "/d/sub/b");
    assert_eq!(site.used(QuotaId::group(70)).1, before + 3);
    assert_eq!(site.used(QuotaId::group(USER)).1, 0);
    site.hard(QuotaId::group(70), 1 << 20, before + 3);
    assert_eq!(user.mkdir("/d/no", 0o777), Err(Errno::EDQUOT));
    site.check();
}

#[test]
fn a_write_by_somebody_else_is_charged_to_the_owner() {
    let site = site();
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    user.fchmod(fd, 0o666).unwrap();
    let other = site.user(2000);
    let theirs = other.open("/d/a", libc::O_WRONLY, 0).unwrap();
    fill(&other, theirs, 3);
    assert_eq!(site.used(me()), (3 * PAGE, 1));
    assert_eq!(site.used(QuotaId::user(2000)), (0, 0));
}

//! Limits: hard, soft, grace, defaults, enforcement, and bad input.

use super::{PAGE, Site, file, fill, site};
use hearth::{
    Credentials, Errno, LimitChange, LimitUpdate, Quota, QuotaError, QuotaEventKind, QuotaId,
    QuotaKind, RefusalReason, Resource,
};
use std::sync::atomic::Ordering::Relaxed;

const USER: u32 = 1000;
const DAY: i64 = 24 * 60 * 60;

fn me() -> QuotaId {
    QuotaId::user(USER)
}

#[test]
fn a_write_goes_as_far_as_it_fits() {
    let site = site();
    site.hard(me(), 3 * PAGE + 100, 10);
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    assert_eq!(
        user.pwrite(fd, &[1; 20_000], 100),
        Ok((3 * PAGE - 100) as usize)
    );
    assert_eq!(user.fstat(fd).unwrap().size, 3 * PAGE);
    assert_eq!(user.pwrite(fd, b"x", 3 * PAGE), Err(Errno::EDQUOT));
    assert_eq!(user.fstat(fd).unwrap().size, 3 * PAGE);
    // What is there may be changed.
    assert_eq!(user.pwrite(fd, &[2; 4096], PAGE), Ok(4096));
    assert_eq!(user.fallocate(fd, 0, 0, 4 * PAGE), Err(Errno::EDQUOT));
    site.check();
}

#[test]
fn at_the_limit_everything_that_frees_or_moves_still_works() {
    let site = site();
    site.hard(me(), 4 * PAGE, 3);
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    fill(&user, fd, 4);
    user.mkdir("/d/sub", 0o755).unwrap();
    file(&user, "/d/b");
    assert_eq!(user.mkdir("/d/no", 0o755), Err(Errno::EDQUOT));
    assert_eq!(user.symlink("x", "/d/no"), Err(Errno::EDQUOT));
    user.rename("/d/a", "/d/sub/a").unwrap();
    user.link("/d/sub/a", "/d/again").unwrap();
    user.chmod("/d/again", 0o600).unwrap();
    assert_eq!(user.read_dir("/d").unwrap().len(), 3);
    user.ftruncate(fd, PAGE).unwrap();
    user.unlink("/d/b").unwrap();
    assert_eq!(site.used(me()), (PAGE, 3), "still open");
    user.rename("/d/again", "/d/sub/a").unwrap();
    site.check();
}

/// As in ext4, XFS and tmpfs.
#[test]
fn a_cut_to_the_size_that_is_there_frees_what_is_preallocated_behind_it() {
    let site = site();
    site.hard(me(), 10 * PAGE, 10);
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    let preallocate = || user.fallocate(fd, libc::FALLOC_FL_KEEP_SIZE, 0, 10 * PAGE);
    preallocate().unwrap();
    assert_eq!(site.used(me()).0, 10 * PAGE);
    user.ftruncate(fd, 0).unwrap();
    assert_eq!((site.used(me()).0, user.fstat(fd).unwrap().blocks), (0, 0));
    preallocate().unwrap();
    user.pwrite(fd, b"x", PAGE).unwrap();
    let before = user.fstat(fd).unwrap();
    user.truncate("/d/a", PAGE + 1).unwrap();
    let after = user.fstat(fd).unwrap();
    assert_eq!((site.used(me()).0, after.blocks), (2 * PAGE, 16));
    assert_eq!((after.mtime, after.size), (before.mtime, PAGE + 1));
    user.ftruncate(fd, 0).unwrap();
    preallocate().unwrap();
    let again = user.open("/d/a", libc::O_RDWR | libc::O_TRUNC, 0).unwrap();
    assert_eq!(
        (site.used(me()).0, user.fstat(again).unwrap().blocks),
        (0, 0)
    );
    site.check();
}

#[test]
fn the_volume_has_its_own_limits_and_enospc() {
    let volume = hearth::Volume::builder()
        .size(8 * PAGE)
        .inodes(4)
        .build()
        .unwrap();
    let root = volume.process(Credentials::root());
    let fd = file(&root, "/a");
    fill(&root, fd, 8);
    assert_eq!(root.pwrite(fd, b"x", 8 * PAGE), Err(Errno::ENOSPC));
    let stat = root.statfs("/").unwrap();
    assert_eq!(
        (stat.blocks, stat.bfree, stat.files, stat.ffree),
        (8, 0, 4, 2)
    );
    root.mkdir("/b", 0o755).unwrap();
    root.mkdir("/c", 0o755).unwrap();
    assert_eq!(root.mkdir("/d", 0o755), Err(Errno::ENOSPC));
    let more = LimitChange {
        inodes_hard: LimitUpdate::To(5),
        ..LimitChange::default()
    };
    volume.quota().set(QuotaId::VOLUME, &more).unwrap();
    root.mkdir("/d", 0o755).unwrap();
    super::check(&volume);
}

#[test]
fn a_soft_limit_gives_seven_days() {
    let site = site();
    site.hard(me(), 10 * PAGE, 10);
    site.soft(me(), Resource::Blocks, 2 * PAGE);
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    fill(&user, fd, 3);
    let start = site.clock.load(Relaxed);
    let quota = site.volume.quota();
    let usage = quota.get(me()).unwrap().bytes;
    assert_eq!((usage.deadline, usage.warnings), (Some(start + 7 * DAY), 1));
    site.clock.store(start + 7 * DAY - 1, Relaxed);
    user.pwrite(fd, b"x", 3 * PAGE).unwrap();
    site.clock.store(start + 7 * DAY, Relaxed);
    assert_eq!(user.pwrite(fd, b"x", 4 * PAGE), Err(Errno::EDQUOT));
    user.ftruncate(fd, 2 * PAGE).unwrap();
    assert_eq!(quota.get(me()).unwrap().bytes.deadline, None);
    user.pwrite(fd, b"x", 4 * PAGE).unwrap();
    let events: Vec<_> = quota.events(0).unwrap().iter().map(|e| e.what).collect();
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!(
        events[1],
        QuotaEventKind::Refused(RefusalReason::GraceEnded)
    );
    assert_eq!(events[2], QuotaEventKind::SoftReturned);
    assert_eq!(quota.events(quota.latest_event()).unwrap(), []);
    // A period of one's own, from now on.
    quota
        .set_grace_of(me(), Resource::Blocks, Some(60))
        .unwrap();
    assert_eq!(
        quota.get(me()).unwrap().bytes.deadline,
        Some(start + 7 * DAY + 60)
    );
}

#[test]
fn defaults_hold_for_ids_without_their_own() {
    let site = site();
    let quota = site.volume.quota();
    let two = LimitChange {
        inodes_hard: LimitUpdate::To(2),
        ..LimitChange::default()
    };
    file(&site.user(USER), "/d/a");
    quota.set_default(QuotaKind::User, &two).unwrap();
    for uid in [USER, 2000] {
        let user = site.user(uid);
        while user.mknod(
            format!(
                "/d/{uid}-{}",
                site.used(me()).1 + site.used(QuotaId::user(2000)).1
            ),
            libc::S_IFREG,
            0,
        ) == Ok(())
        {}
        assert_eq!(site.used(QuotaId::user(uid)).1, 2);
    }
    site.hard(me(), 1 << 20, 3);
    site.user(USER).mkdir("/d/own", 0o755).unwrap();
    assert!(quota.get(me()).unwrap().inodes.own);
    quota.clear(me()).unwrap();
    assert_eq!(quota.get(me()).unwrap().inodes.hard, Some(2));
    assert_eq!(site.user(USER).mkdir("/d/more", 0o755), Err(Errno::EDQUOT));
    // Root is nobody's default.
    for name in ["/r1", "/r2", "/r3"] {
        site.root.mkdir(name, 0o755).unwrap();
    }
}

#[test]
fn a_limit_that_says_what_the_default_says_is_the_ids_own() {
    let site = site();
    let quota = site.volume.quota();
    let inodes = |most| LimitChange {
        inodes_hard: LimitUpdate::To(most),
        ..LimitChange::default()
    };
    quota.set_default(QuotaKind::User, &inodes(2)).unwrap();
    quota.set(me(), &inodes(2)).unwrap();
    quota.set_default(QuotaKind::User, &inodes(5)).unwrap();
    let record = quota.get(me()).unwrap();
    assert_eq!((record.inodes.hard, record.inodes.own), (Some(2), true));
    assert!(!record.bytes.own, "nothing was said of bytes");
}

#[test]
fn enforcement_is_switched_by_kind_and_accounting_goes_on() {
    let site = site();
    let quota = site.volume.quota();
    site.hard(me(), PAGE, 1);
    quota.enforce(QuotaKind::User, false).unwrap();
    let user = site.user(USER);
    fill(&user, file(&user, "/d/a"), 5);
    file(&user, "/d/b");
    assert_eq!(site.used(me()), (5 * PAGE, 2));
    let record = quota.get(me()).unwrap();
    assert_eq!((record.enforced, record.bytes.hard), (false, Some(PAGE)));
    quota.enforce(QuotaKind::User, true).unwrap();
    assert_eq!(user.mkdir("/d/no", 0o755), Err(Errno::EDQUOT));
    site.check();
}

#[test]
fn a_volume_without_quotas_knows_only_its_own_limits() {
    let volume = hearth::Volume::builder().quotas(false).build().unwrap();
    let root = volume.process(Credentials::root());
    let fd = file(&root, "/a");
    fill(&root, fd, 2);
    root.chown("/a", Some(5), Some(6)).unwrap();
    let report = volume.quota().report();
    assert_eq!(report.len(), 1);
    assert_eq!((report[0].bytes.used, report[0].inodes.used), (2 * PAGE, 2));
    assert!(!volume.quota().defaults(QuotaKind::User).enforced);
    assert_eq!(volume.quota().get(me()), Err(QuotaError::Off));
    super::check(&volume);
}

#[test]
fn bad_input_is_refused_with_the_reason_and_changes_nothing() {
    let site = site();
    site.hard(me(), 10 * PAGE, 10);
    let quota = site.volume.quota();
    let before = quota.report();
    let set = |who, change: LimitChange| quota.set(who, &change).unwrap_err().to_string();
    let soft = |amount| LimitChange {
        bytes_soft: LimitUpdate::To(amount),
        inodes_hard: LimitUpdate::To(99),
        ..LimitChange::default()
    };
    assert_eq!(
        set(me(), soft(1 << 30)),
        "soft limit of 1073741824 bytes is above the hard limit of 40960; raise that too"
    );
    assert!(set(me(), soft(u64::MAX)).contains("choose a smaller one"));
    assert!(set(QuotaId::user(u32::MAX), soft(1)).contains("ids are 0 to 4294967294"));
    assert!(set(QuotaId::group(0), soft(1)).contains("group 0 is never limited"));
    assert!(set(QuotaId::VOLUME, soft(1)).contains("hard limits"));
    let tree = |path: &str, id| quota.set_project_tree(path, id).unwrap_err();
    file(&site.root, "/d/file");
    assert_eq!(tree("/d/file", 7).errno(), Errno::ENOTDIR);
    assert_eq!(
        tree("/nowhere", 7).to_string(),
        "/nowhere: ENOENT: no such file or directory"
    );
    assert_eq!(tree("/d", u32::MAX).errno(), Errno::EINVAL);
    site.root.unlink("/d/file").unwrap();
    let after: Vec<_> = quota
        .report()
        .into_iter()
        .filter(|r| r.who != me())
        .collect();
    let before: Vec<_> = before.into_iter().filter(|r| r.who != me()).collect();
    let used = |r: &[hearth::QuotaRecord]| {
        r.iter()
            .map(|r| (r.who, r.bytes.hard, r.inodes.hard))
            .collect::<Vec<_>>()
    };
    assert_eq!(used(&after), used(&before));
    assert_eq!(quota.get(me()).unwrap().inodes.hard, Some(10));
}

#[test]
fn strangers_see_their_own_and_set_nothing() {
    let site: Site = site();
    let owned = hearth::Volume::builder()
        .root_owner(77, 77)
        .build()
        .unwrap();
    let stranger = site
        .volume
        .quota()
        .on_behalf_of(Credentials::user(USER, 50));
    assert!(stranger.get(me()).is_ok());
    assert!(stranger.get(QuotaId::group(50)).is_ok());
    let denied = stranger.get(QuotaId::user(2000)).unwrap_err();
    assert_eq!(denied.errno(), Errno::EPERM);
    let change = LimitChange::default();
    assert_eq!(
        stranger.set(me(), &change),
        Err(QuotaError::NotKeeper { owner: 0 })
    );
    assert!(stranger.check().is_err() && stranger.events(0).is_err());
    let keeper = owned.quota().on_behalf_of(Credentials::user(77, 77));
    assert_eq!(keeper.set(me(), &change), Ok(()));
}

#[test]
fn each_verb_that_sets_or_sees_all_is_for_root_and_the_owner() {
    type Verb = fn(&Quota<'_>) -> Result<(), QuotaError>;
    let hard = LimitChange {
        bytes_hard: LimitUpdate::To(PAGE),
        ..LimitChange::default()
    };
    const BLOCKS: Resource = Resource::Blocks;
    let verbs: [(&str, Verb); 10] = [
        ("clear", |quota| quota.clear(me())),
        ("grace of one", |quota| {
            quota.set_grace_of(me(), BLOCKS, Some(9))
        }),
        ("grace", |quota| quota.set_grace(QuotaKind::User, BLOCKS, 9)),
        ("off", |quota| quota.enforce(QuotaKind::Group, false)),
        ("on", |quota| quota.enforce(QuotaKind::Group, true)),
        ("project", |quota| {
            quota.set_project_tree("/", 7).map(|_| ())
        }),
        ("check", |quota| quota.check().map(|_| ())),
        ("events", |quota| quota.events(0).map(|_| ())),
        ("another's", |quota| {
            quota.get(QuotaId::user(2000)).map(|_| ())
        }),
        ("another group's", |quota| {
            quota.get(QuotaId::group(2000)).map(|_| ())
        }),
    ];
    let volume = hearth::Volume::builder()
        .root_owner(77, 77)
        .build()
        .unwrap();
    let as_user = |uid| volume.quota().on_behalf_of(Credentials::user(uid, uid));
    let state = || {
        let kinds = QuotaKind::ALL.map(|kind| volume.quota().defaults(kind));
        (volume.quota().report(), kinds)
    };
    for (name, verb) in verbs {
        let before = state();
        let refused = verb(&as_user(USER)).unwrap_err();
        assert_eq!(refused.errno(), Errno::EPERM, "{name}");
        assert!(refused.to_string().contains("user 77"), "{refused}");
        assert_eq!(state(), before, "{name}");
        for uid in [0, 77] {
            assert_eq!(verb(&as_user(uid)), Ok(()), "{name}");
        }
    }
    for kind in [QuotaKind::User, QuotaKind::Group, QuotaKind::Project] {
        let id = QuotaId { kind, id: USER };
        let stranger = as_user(USER);
        let before = state();
        let refused = Err(QuotaError::NotKeeper { owner: 77 });
        assert_eq!(stranger.set(id, &hard), refused);
        assert_eq!(stranger.set_default(kind, &hard), refused);
        assert_eq!(state(), before);
        assert_eq!(as_user(77).set(id, &hard), Ok(()));
        assert_eq!(as_user(0).set_default(kind, &hard), Ok(()));
        // What is theirs they see.
        assert_eq!(stranger.get(id).unwrap().bytes.hard, Some(PAGE));
        assert!(stranger.report().iter().any(|record| record.who == id));
    }
}

//! A first limit of bytes, and files whose writes a kernel in front collects.

use super::{PAGE, site};
use hearth::{
    Caller, Errno, LimitChange, LimitUpdate, Observer, OpenFile, QuotaError, QuotaId, QuotaKind,
    VolumeVfs,
};
use hearth_testing::threads::SetOnDrop;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const USER: u32 = 1000;

/// What a front end does about open files, and nothing else of it.
#[derive(Default)]
struct Kernel {
    open: Mutex<Vec<Arc<OpenFile>>>,
    collects_anyway: bool,
}

impl Observer for Kernel {
    fn entry_changed(&self, _parent: u64, _name: &[u8]) {}
    fn inode_changed(&self, _ino: u64, _data: Option<Range<u64>>) {}
    fn collecting(&self) -> Vec<u64> {
        let open = self.open.lock().unwrap();
        let collecting = open.iter().filter(|file| !file.is_charged());
        collecting.map(|file| file.ino()).collect()
    }
    fn collects_anyway(&self) -> bool {
        self.collects_anyway
    }
}

impl Kernel {
    /// Opens a file for writing, as a front end does; whether it collects its writes.
    fn open(&self, vfs: &VolumeVfs, ino: u64) -> (Arc<OpenFile>, bool) {
        let file = vfs.open(&Caller::ROOT, ino, libc::O_RDWR).unwrap();
        self.open.lock().unwrap().push(Arc::clone(&file));
        let collects = !vfs.charges_first(&file);
        (file, collects)
    }

    fn close(&self, file: &Arc<OpenFile>) {
        let mut open = self.open.lock().unwrap();
        open.retain(|one| !Arc::ptr_eq(one, file));
    }
}

fn hard(bytes: u64) -> LimitChange {
    LimitChange {
        bytes_hard: LimitUpdate::To(bytes),
        ..LimitChange::default()
    }
}

const LIFT: LimitChange = LimitChange {
    bytes_hard: LimitUpdate::Lift,
    bytes_soft: LimitUpdate::Lift,
    inodes_hard: LimitUpdate::Keep,
    inodes_soft: LimitUpdate::Keep,
};

/// A volume with a file of the user, and who looks at it as a kernel does.
fn with_kernel() -> (super::Site, Arc<Kernel>, VolumeVfs, u64) {
    let site = site();
    let user = site.user(USER);
    super::file(&user, "/d/a");
    let ino = user.stat("/d/a").unwrap().ino;
    let kernel = Arc::new(Kernel::default());
    site.volume.observe(kernel.clone());
    let vfs = site.volume.vfs();
    (site, kernel, vfs, ino)
}

#[test]
fn a_first_limit_is_refused_while_a_kernel_collects_whatever_it_is_told() {
    let site = site();
    let kernel = Arc::new(Kernel {
        collects_anyway: true,
        ..Kernel::default()
    });
    site.volume.observe(kernel);
    let (quota, who) = (site.volume.quota(), QuotaId::user(USER));
    let refused = quota.set(who, &hard(PAGE)).unwrap_err();
    assert_eq!(refused, QuotaError::CollectsAnyway);
    assert_eq!(refused.errno(), Errno::EBUSY);
    assert!(refused.to_string().contains("-o no_writeback or -o quota"));
    assert_eq!(quota.get(who).unwrap().bytes.hard, None);
    assert!(!site.volume.charges_first());
    let inodes = LimitChange {
        inodes_hard: LimitUpdate::To(1),
        ..LimitChange::default()
    };
    quota.set(who, &inodes).expect("it collects bytes");
    quota.forced().set(who, &hard(PAGE)).unwrap();
    assert_eq!(quota.get(who).unwrap().bytes.hard, Some(PAGE));
    quota
        .set(who, &hard(2 * PAGE))
        .expect("it is not the first");
}

#[test]
fn a_first_limit_is_refused_and_leaves_nothing_behind() {
    let (site, kernel, vfs, ino) = with_kernel();
    let quota = site.volume.quota();
    let (file, collects) = kernel.open(&vfs, ino);
    assert!(collects);
    let who = QuotaId::user(USER);
    let refused = quota.set(who, &hard(PAGE)).unwrap_err();
    let expected = QuotaError::Collecting {
        who,
        limit: hearth::Limit {
            hard: Some(PAGE),
            soft: None,
        },
        files: 1,
        inode: ino,
    };
    assert_eq!((&refused, refused.errno()), (&expected, Errno::EBUSY));
    assert!(quota.set_default(QuotaKind::Group, &hard(PAGE)).is_err());
    assert_eq!(quota.get(who).unwrap().bytes.hard, None);
    // The next one is opened as if nobody had asked.
    let (second, collects) = kernel.open(&vfs, ino);
    assert!(collects, "the refused limit is still announced");
    kernel.close(&second);
    vfs.release(&second, None);
    assert!(quota.set(QuotaId::user(7), &hard(PAGE)).is_ok());
    assert!(quota.set(QuotaId::VOLUME, &hard(128 << 20)).is_err());
    assert!(quota.forced().set(who, &hard(PAGE)).is_ok());
    // In force: what is opened now is charged first, and the limit may change.
    let (third, collects) = kernel.open(&vfs, ino);
    assert!(!collects);
    assert!(quota.set(who, &hard(2 * PAGE)).is_ok());
    for file in [file, third] {
        kernel.close(&file);
        vfs.release(&file, None);
    }
    site.check();
}

#[test]
fn a_file_that_collects_does_not_come_under_a_limit_by_changing_hands() {
    let (site, kernel, vfs, ino) = with_kernel();
    let (quota, root) = (site.volume.quota(), &site.root);
    let (file, collects) = kernel.open(&vfs, ino);
    assert!(collects);
    let (user, group) = (QuotaId::user(7), QuotaId::group(7));
    quota.set(user, &hard(PAGE)).unwrap();
    quota.set(group, &hard(PAGE)).unwrap();
    quota.set(QuotaId::project(7), &hard(PAGE)).unwrap();
    assert_eq!(root.chown("/d/a", Some(7), None), Err(Errno::EBUSY));
    assert_eq!(root.chown("/d/a", None, Some(7)), Err(Errno::EBUSY));
    let refused = quota.set_project_tree("/d", 7).unwrap_err();
    assert_eq!(refused.errno(), Errno::EBUSY, "{refused}");
    // To others, and to whom it belongs, it may be given.
    root.chown("/d/a", Some(8), None).unwrap();
    root.chown("/d/a", Some(8), None).unwrap();
    // What is opened now is charged first, and may be given to anybody.
    super::file(&site.user(USER), "/d/b");
    let second = root.stat("/d/b").unwrap().ino;
    let (late, collects) = kernel.open(&vfs, second);
    assert!(!collects);
    root.chown("/d/b", Some(7), Some(7)).unwrap();
    kernel.close(&file);
    vfs.release(&file, None);
    root.chown("/d/a", Some(7), Some(7)).unwrap();
    kernel.close(&late);
    vfs.release(&late, None);
    site.check();
}

/// Limits of ids that were set while their kind was not enforced come into force all at once.
#[test]
fn limits_that_are_switched_on_are_first_limits() {
    let (site, kernel, vfs, ino) = with_kernel();
    let (quota, root) = (site.volume.quota(), &site.root);
    quota.enforce(QuotaKind::User, false).unwrap();
    quota.set(QuotaId::user(7), &hard(PAGE)).unwrap();
    let (file, collects) = kernel.open(&vfs, ino);
    assert!(collects, "nothing is enforced");
    quota.enforce(QuotaKind::User, true).unwrap();
    assert_eq!(root.chown("/d/a", Some(7), None), Err(Errno::EBUSY));
    // A group that is not new to the file is no reason.
    quota
        .forced()
        .set(QuotaId::group(USER), &hard(PAGE))
        .unwrap();
    root.chown("/d/a", Some(8), None).unwrap();
    quota.enforce(QuotaKind::User, false).unwrap();
    root.chown("/d/a", Some(7), None).unwrap();
    let refused = quota.enforce(QuotaKind::User, true).unwrap_err();
    assert_eq!(refused.errno(), Errno::EBUSY, "{refused}");
    // Those who have no record yet come under a default as well.
    root.chown("/d/a", Some(9), None).unwrap();
    assert!(
        quota.set_default(QuotaKind::User, &hard(PAGE)).is_ok(),
        "off"
    );
    assert!(quota.enforce(QuotaKind::User, true).is_err());
    kernel.close(&file);
    vfs.release(&file, None);
    quota.enforce(QuotaKind::User, true).unwrap();
    // Nobody is left: the next pass sees it, and chown asks no more.
    site.volume.run_background_once();
    root.chown("/d/a", Some(7), None).unwrap();
    site.check();
}

/// A chown while a first limit is set sees the limit, or the limit sees the new owner.
#[test]
fn a_file_that_is_given_away_while_a_first_limit_is_set_does_not_collect_under_it() {
    let (site, kernel, vfs, ino) = with_kernel();
    let (file, collects) = kernel.open(&vfs, ino);
    assert!(collects);
    let ended = AtomicBool::new(false);
    let (busy, mut set) = (AtomicU32::new(0), 0);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&ended);
        let giving = scope.spawn(|| {
            while !ended.load(Relaxed) {
                for uid in [7, USER] {
                    match site.root.chown("/d/a", Some(uid), None) {
                        Ok(()) => {}
                        Err(Errno::EBUSY) => _ = busy.fetch_add(1, Relaxed),
                        Err(errno) => panic!("{errno}"),
                    }
                    std::thread::yield_now();
                }
            }
        });
        let quota = site.volume.quota();
        while set < 2000 || busy.load(Relaxed) == 0 {
            assert!(!giving.is_finished(), "nobody gives it away any more");
            match quota.set(QuotaId::user(7), &hard(PAGE)) {
                Ok(()) => set += 1,
                // Nobody gives it to them while the limit is announced, so they have it rarely.
                Err(QuotaError::Collecting { .. }) => continue,
                Err(error) => panic!("{error}"),
            }
            for _ in 0..20 {
                let owner = site.root.stat("/d/a").unwrap().uid;
                assert_eq!(owner, USER, "after {set}");
            }
            quota.set(QuotaId::user(7), &LIFT).unwrap();
        }
    });
    kernel.close(&file);
    vfs.release(&file, None);
    site.check();
}

/// An open while a first limit is set sees the limit, or the limit sees the open file.
#[test]
fn a_limit_in_force_finds_no_file_that_collects() {
    let (site, kernel, vfs, ino) = with_kernel();
    let ended = AtomicBool::new(false);
    // Files that collect, as their openers know.
    let collecting = Mutex::new(0);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&ended);
        for _ in 0..3 {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    let (file, collects) = kernel.open(&vfs, ino);
                    *collecting.lock().unwrap() += u32::from(collects);
                    std::thread::yield_now();
                    *collecting.lock().unwrap() -= u32::from(collects);
                    kernel.close(&file);
                    vfs.release(&file, None);
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
        }
        let (quota, who) = (site.volume.quota(), QuotaId::user(USER));
        let (mut set, mut refused) = (0, 0);
        while set < 300 {
            match quota.set(who, &hard(PAGE)) {
                Ok(()) => set += 1,
                Err(QuotaError::Collecting { .. }) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            // Nobody who opens from now on collects, and nobody did.
            assert_eq!(*collecting.lock().unwrap(), 0, "after {set} and {refused}");
            quota.set(who, &LIFT).unwrap();
        }
    });
    site.check();
}

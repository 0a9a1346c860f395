//! What a volume tells of limits when nobody charges anything.

use super::one_core::stay_on_one_core;
use super::{PAGE, Site, file, fill, site};
use hearth::QuotaEventKind::{GraceEnded, HardCrossed, Refused, SoftCrossed, SoftReturned};
use hearth::{
    Credentials, Errno, Process, QuotaEventKind, QuotaId, RefusalReason, Resource, Volume,
};
use std::sync::atomic::Ordering::Relaxed;

const USER: u32 = 1000;
const WEEK: i64 = 7 * 24 * 60 * 60;

fn me() -> QuotaId {
    QuotaId::user(USER)
}

fn told(site: &Site, of: QuotaId, resource: Resource) -> Vec<QuotaEventKind> {
    let events = site.volume.quota().events(0).unwrap().into_iter();
    let of = events.filter(|event| (event.who, event.resource) == (of, resource));
    of.map(|event| event.what).collect()
}

/// A pass of the background, so many seconds after the start.
fn pass(site: &Site, start: i64, after: i64) {
    site.clock.store(start + after, Relaxed);
    site.volume.run_background_once();
}

/// A user with more pages than a soft limit, and as many inodes as one; when, and the file.
fn above_a_soft_limit() -> (Site, i64, Process, i32) {
    let site = site();
    let start = site.clock.load(Relaxed);
    site.soft(me(), Resource::Blocks, 2 * PAGE);
    site.soft(me(), Resource::Inodes, 1);
    let user = site.user(USER);
    let fd = file(&user, "/d/a");
    fill(&user, fd, 3);
    (site, start, user, fd)
}

#[test]
fn the_background_tells_of_grace_periods_that_end() {
    let (site, start, user, _) = above_a_soft_limit();
    site.clock.store(start + 10, Relaxed);
    let b = file(&user, "/d/b");
    let blocks = || told(&site, me(), Resource::Blocks);
    let inodes = || told(&site, me(), Resource::Inodes);
    let crossed = |after| SoftCrossed {
        deadline: start + WEEK + after,
    };
    pass(&site, start, WEEK - 1);
    assert_eq!((blocks(), inodes()), (vec![crossed(0)], vec![crossed(10)]));
    pass(&site, start, WEEK);
    assert_eq!(blocks(), [crossed(0), GraceEnded]);
    assert_eq!(inodes(), [crossed(10)]);
    user.close(b).unwrap();
    user.unlink("/d/b").unwrap();
    pass(&site, start, 2 * WEEK);
    assert_eq!(blocks(), [crossed(0), GraceEnded], "told once");
    assert_eq!(inodes(), [crossed(10), SoftReturned], "it came back");
    let event = site.volume.quota().events(0).unwrap().remove(2);
    let time = start + WEEK;
    let line = format!("3 {time} user:1000 grace-ended bytes=12288 limit=8192");
    assert_eq!(event.to_string(), line);
}

#[test]
fn the_background_is_silent_after_a_refusal_and_after_a_return() {
    let (site, start, user, fd) = above_a_soft_limit();
    user.mkdir("/d/b", 0o755).unwrap();
    user.rmdir("/d/b").unwrap();
    site.clock.store(start + WEEK, Relaxed);
    assert_eq!(user.pwrite(fd, b"x", 3 * PAGE), Err(Errno::EDQUOT));
    pass(&site, start, WEEK);
    pass(&site, start, 2 * WEEK);
    let crossed = SoftCrossed {
        deadline: start + WEEK,
    };
    let refused = Refused(RefusalReason::GraceEnded);
    assert_eq!(told(&site, me(), Resource::Blocks), [crossed, refused]);
    let back = [crossed, SoftReturned];
    assert_eq!(told(&site, me(), Resource::Inodes), back);
}

#[test]
fn what_root_forces_above_a_hard_limit_is_told() {
    let site = site();
    let user = site.user(USER);
    fill(&user, file(&user, "/d/a"), 3);
    fill(&user, file(&user, "/d/b"), 3);
    let (other, project) = (QuotaId::user(2000), QuotaId::project(7));
    site.hard(other, 5 * PAGE, 1);
    site.hard(project, 2 * PAGE, 1);
    let both = |who| Resource::ALL.map(|resource| told(&site, who, resource));
    site.root.chown("/d/a", Some(2000), None).unwrap();
    assert_eq!(both(other), [vec![], vec![]]);
    site.root.chown("/d/b", Some(2000), None).unwrap();
    assert_eq!(both(other), [[HardCrossed], [HardCrossed]]);
    site.root.unlink("/d/b").unwrap();
    site.root.chown("/d/a", Some(USER), None).unwrap();
    assert_eq!(both(other), [[HardCrossed], [HardCrossed]], "the way back");
    // A tree that does not fit is the project's all the same.
    site.volume.quota().set_project_tree("/d", 7).unwrap();
    assert_eq!(both(project), [[HardCrossed], [HardCrossed]]);
    site.check();
}

/// The number of a file that is gone may be another's.
#[test]
fn an_event_of_a_file_names_it_by_number_and_generation_and_by_its_own_path_alone() {
    stay_on_one_core();
    let volume = Volume::memory();
    let root = volume.process(Credentials::root());
    let make = |path: &str| {
        let fd = root
            .open(path, libc::O_CREAT | libc::O_RDWR, 0o644)
            .unwrap();
        root.close(fd).unwrap();
        root.chown(path, Some(USER), None).unwrap();
        let stat = root.stat(path).unwrap();
        (stat.ino, Some(stat.generation))
    };
    let lose = |ino| {
        let vfs = volume.nonblocking_vfs();
        vfs.lose(ino, std::slice::from_ref(&(0..PAGE)), Errno::EIO);
    };
    let told = || {
        let events = volume.quota().events(0).unwrap().into_iter();
        let of = |event: hearth::QuotaEvent| {
            let file = event.file.unwrap();
            let path = file.path.map(|path| String::from_utf8(path).unwrap());
            (event.who, (file.ino, file.generation), path)
        };
        events.map(of).collect::<Vec<_>>()
    };
    let old = make("/old");
    lose(old.0);
    assert_eq!(told(), [(me(), old, Some("/old".to_owned()))]);
    root.unlink("/old").unwrap();
    let again = (0..100_000).find_map(|_| {
        let new = make("/new");
        if new.0 == old.0 {
            return Some(new);
        }
        root.unlink("/new").unwrap();
        None
    });
    let new = again.expect("numbers are used again");
    assert_ne!(new, old);
    assert_eq!(told(), [(me(), old, None)], "not the path of the other one");
    lose(new.0);
    let both = [(me(), old, None), (me(), new, Some("/new".to_owned()))];
    assert_eq!(told(), both, "two files");
}

/// It was told as user 0.
#[test]
fn an_owner_that_cannot_be_learned_is_told_as_unknown() {
    let volume = Volume::memory();
    let vfs = volume.nonblocking_vfs();
    vfs.lose(12_345, std::slice::from_ref(&(0..PAGE)), Errno::EIO);
    let events = volume.quota().events(0).unwrap();
    let file = events[0].file.as_ref().unwrap();
    assert_eq!((file.ino, file.generation), (12_345, None));
    assert_eq!(
        (events[0].who, events[0].who.known()),
        (QuotaId::UNKNOWN_USER, None)
    );
    let line = events[0].to_string();
    let wanted = format!("user:unknown write-lost errno=EIO lost={PAGE} inode=12345 bytes=");
    assert!(line.contains(&wanted), "{line}");
}

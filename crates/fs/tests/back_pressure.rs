//! Back-pressure: while the backend has yet to get much, tenants with more than their share, by
//! weight, wait, and nobody else. Nothing is timed: what is counted is what a tenant may do before
//! it has to wait.
#![cfg(not(feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::backend::TestBackend;
use hearth::{
    Caller, Kind, NonBlocking, Origin, ROOT, TenantId, Vfs, VfsError, Volume, VolumeVfs, WriteAt,
};
use std::sync::Arc;

const PAGE: usize = 4096;
/// Enough that what is unwritten and not what is in memory is the bound.
const BUDGET: u64 = 32 << 20;
const WRITES: i32 = libc::O_CREAT | libc::O_WRONLY;

type Calls = VolumeVfs<NonBlocking>;

fn volume() -> Volume {
    let builder = Volume::builder()
        .backend(Arc::new(TestBackend::new()))
        .memory_budget(BUDGET)
        .root_mode(0o777);
    builder.build().unwrap()
}

fn user(uid: u32) -> Caller<'static> {
    Caller {
        uid,
        gid: uid,
        origin: Origin::Kernel,
        ..Caller::ROOT
    }
}

/// Whether the call was made; false where it has to wait until changes are written back.
fn is_done<T>(result: Result<T, VfsError>) -> bool {
    match result {
        Ok(_) => true,
        Err(VfsError::Miss(miss)) => {
            assert!(miss.waits_for_room(), "{miss:?}");
            false
        }
        Err(VfsError::Errno(errno)) => panic!("{errno}"),
    }
}

/// Pages that a user can write to a new file, at most `most`.
fn pages(calls: &Calls, (uid, name): (u32, &str), most: usize) -> usize {
    let caller = user(uid);
    let file = match calls.create(&caller, ROOT, name.as_bytes(), 0o644, WRITES) {
        Ok((_, file)) => file,
        failed => {
            assert!(!is_done(failed));
            return 0;
        }
    };
    let write = |page: &usize| {
        let at = WriteAt::At((page * PAGE) as u64);
        is_done(calls.write(&caller, &file, at, &[1; PAGE], false))
    };
    let count = (0..most).take_while(write).count();
    calls.release(&file, None);
    count
}

/// Empty files that a user can make, at most `most`.
fn files(calls: &Calls, uid: u32, most: usize) -> usize {
    let make = |number: &usize| {
        let name = format!("{uid}-{number}");
        is_done(calls.mknod(&user(uid), ROOT, name.as_bytes(), Kind::File, 0o644, 0))
    };
    (0..most).take_while(make).count()
}

#[test]
fn one_who_streams_waits_and_the_small_changes_of_others_do_not() {
    let volume = volume();
    let calls = volume.nonblocking_vfs();
    let all = pages(&calls, (1, "stream"), usize::MAX);
    assert!(all * PAGE < BUDGET as usize, "{all} pages");
    // It waits however often it asks; the others have shares of their own.
    assert_eq!(pages(&calls, (1, "another"), 10), 0);
    assert_eq!(files(&calls, 2, 300), 300);
    assert_eq!(pages(&calls, (3, "small"), 300), 300);
    assert_eq!(files(&calls, 1, 10), 0);
    // A quarter for one of four.
    let more = pages(&calls, (4, "late"), usize::MAX);
    assert!(more >= all / 5 && more <= all / 2, "{more} of {all} pages");
}

/// Once, what attributes took was counted nowhere.
#[test]
fn large_extended_attributes_of_many_files_wait_too() {
    let volume = volume();
    let calls = volume.nonblocking_vfs();
    assert_eq!(files(&calls, 1, 500), 500);
    volume.sync().unwrap();
    let value = vec![7; 64 << 10];
    let set = |number: &usize| {
        let name = format!("1-{number}");
        let ino = calls.lookup(&user(1), ROOT, name.as_bytes()).unwrap().ino;
        let set = calls.setxattr(&user(1), ino, b"user.large", &value, 0, false);
        calls.forget(ino, 1);
        is_done(set)
    };
    let count = (0..500).take_while(set).count();
    assert!(count > 10 && count < 200, "{count} files");
    volume.sync().unwrap();
    assert!(set(&499));
}

#[test]
fn shares_are_by_weight() {
    // Beside one who streams: a half of the bound, and three quarters.
    let beside = |weight| {
        let volume = volume();
        let calls = volume.nonblocking_vfs();
        let sched = volume.scheduler();
        let tenant = sched.tenant(TenantId::User(2).number());
        sched.set_weight(tenant, weight).unwrap();
        let all = pages(&calls, (1, "stream"), usize::MAX);
        (pages(&calls, (2, "other"), usize::MAX), all)
    };
    let [(usual, all), (heavy, _)] = [100, 300].map(beside);
    // A core looks at each eighth of the bound, with two cores.
    let near = |pages: usize, share: usize| {
        pages * 8 >= all * (share - 1) && pages * 8 <= all * (share + 2)
    };
    assert!(near(usual, 4), "{usual} of {all}");
    assert!(near(heavy, 6), "{heavy} of {all}");
    assert!(heavy > usual, "{heavy} and {usual} of {all}");
}

#[test]
fn what_was_written_back_lets_all_go_on() {
    let volume = volume();
    let calls = volume.nonblocking_vfs();
    let all = pages(&calls, (1, "stream"), usize::MAX);
    assert_eq!(files(&calls, 1, 1), 0);
    let name = b"waits";
    let made = calls.block_on(|vfs| vfs.mknod(&user(1), ROOT, name, Kind::File, 0o644, 0));
    assert!(made.is_ok());
    let again = files(&calls, 1, 1000);
    assert_eq!(again, 1000, "after {all} pages");
    volume.sync().unwrap();
    let more = pages(&calls, (2, "more"), usize::MAX);
    assert!(more * 10 >= all * 9, "{more} of {all} pages");
}

#[test]
fn changes_that_count_as_those_of_others_have_a_bound_too() {
    let volume = volume();
    let calls = volume.nonblocking_vfs();
    // As many files as a user may make between four commits.
    let mut made = 0;
    for _ in 0..4 {
        let make = |number: usize| {
            let name = format!("2-{number}").into_bytes();
            is_done(calls.mknod(&user(2), ROOT, &name, Kind::File, 0o644, 0))
        };
        while make(made) {
            made += 1;
        }
        volume.sync().unwrap();
    }
    let root = Caller {
        origin: Origin::Kernel,
        ..Caller::ROOT
    };
    // A rename by root changes a file of the user, who is over the share soon.
    let rename = |number: &usize| {
        let (from, to) = (format!("2-{number}"), format!("other-{number}"));
        is_done(calls.rename(&root, ROOT, from.as_bytes(), ROOT, to.as_bytes(), 0))
    };
    let count = (0..made).take_while(rename).count();
    assert!(count > made / 4 && count < made, "{count} of {made} files");
    assert_eq!(files(&calls, 3, 1), 0, "twice the bound holds everybody");
    volume.sync().unwrap();
    assert_eq!(files(&calls, 3, 1), 1);
}

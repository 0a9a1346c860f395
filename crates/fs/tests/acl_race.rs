//! An access ACL and the mode that stands for it are one thing to who asks for access.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::acl::{Acl, AclEntry, Tag};
use hearth::{Credentials, Errno, Volume};
use hearth_testing::threads::SetOnDrop;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const ACCESS: &[u8] = b"system.posix_acl_access";
/// How often each of the two is to be met.
const ROUNDS: usize = 20_000;

fn list(entries: &[(Tag, u8)]) -> Vec<u8> {
    let entry = |&(tag, perm): &(Tag, u8)| AclEntry { tag, perm };
    let list = Acl::new(entries.iter().map(entry).collect());
    list.unwrap().to_xattr()
}

/// The group may nothing under either list, but while there is a mask the mode shows that one where
/// the group's bits are. Who takes those bits and sees no list is let in.
#[test]
fn nobody_sees_the_mode_of_a_list_without_the_list() {
    let volume = Volume::memory();
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o700).unwrap();
    root.mknod("/d/f", 0o100600, 0).unwrap();
    root.chown("/d", Some(1), Some(20)).unwrap();
    let minimal = list(&[(Tag::UserObj, 7), (Tag::GroupObj, 0), (Tag::Other, 0)]);
    let masked = list(&[
        (Tag::UserObj, 7),
        (Tag::User(5), 7),
        (Tag::GroupObj, 0),
        (Tag::Mask, 7),
        (Tag::Other, 0),
    ]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = SetOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                for value in [&masked, &minimal] {
                    root.setxattr("/d", ACCESS, value, 0).unwrap();
                }
            }
        });
        let member = volume.process(Credentials::user(2, 20));
        let named = volume.process(Credentials::user(5, 5));
        let limit = Instant::now() + Duration::from_secs(60);
        let (mut member_is_in, mut seen) = (false, [0; 2]);
        while !member_is_in && seen.iter().any(|&times| times < ROUNDS) && Instant::now() < limit {
            member_is_in = member.stat("/d/f").is_ok() || member.access("/d", 1).is_ok();
            seen[usize::from(named.stat("/d/f").is_ok())] += 1;
        }
        drop(end);
        assert!(!member_is_in, "after {seen:?} looks");
        assert!(seen.iter().all(|&times| times >= ROUNDS), "{seen:?}");
    });
    assert_eq!(root.stat("/d").unwrap().mode() & 0o7777, 0o700);
}

/// Under one mode only the owner may change names in the directory, under the other only the owner
/// of a file may remove it. Who sees that others may write, and then that nothing sticks, is let
/// in.
#[test]
fn nobody_sees_half_of_a_mode_that_turns_sticky() {
    let volume = Volume::memory();
    let root = volume.process(Credentials::root());
    root.mkdir("/d", 0o755).unwrap();
    root.mknod("/d/f", 0o100600, 0).unwrap();
    for path in ["/d", "/d/f"] {
        root.chown(path, Some(1), Some(1)).unwrap();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = SetOnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                for mode in [0o1777, 0o755] {
                    root.chmod("/d", mode).unwrap();
                }
            }
        });
        let other = volume.process(Credentials::user(2, 2));
        let limit = Instant::now() + Duration::from_secs(60);
        let mut seen = [0; 2];
        let mut is_in = false;
        // The two looks were some instructions apart: they met once in half a million.
        let rounds = 50 * ROUNDS;
        while !is_in && seen.iter().any(|&times| times < rounds) && Instant::now() < limit {
            match other.unlink("/d/f") {
                Ok(()) => is_in = true,
                Err(errno) => seen[usize::from(errno == Errno::EPERM)] += 1,
            }
        }
        drop(end);
        assert!(!is_in, "after {seen:?} looks");
        assert!(seen.iter().all(|&times| times >= rounds), "{seen:?}");
    });
}

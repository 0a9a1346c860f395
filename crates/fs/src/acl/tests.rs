use proptest::prelude::*;

use super::*;
use crate::errno::Errno;

const OWNER_UID: u32 = 1;
const OWNER_GID: u32 = 10;

fn acl(text: &str) -> Acl {
    Acl::new(entries(text)).expect("a valid list")
}

/// Entries out of the short text form: `u::rwx u:5:r-- g::r-x g:7:-w- m::rwx o::---`.
fn entries(text: &str) -> Vec<AclEntry> {
    text.split_whitespace().map(entry).collect()
}

fn entry(text: &str) -> AclEntry {
    let fields: Vec<&str> = text.split(':').collect();
    let id = fields[1].parse().ok();
    let tag = match (fields[0], id) {
        ("u", None) => Tag::UserObj,
        ("u", Some(uid)) => Tag::User(uid),
        ("g", None) => Tag::GroupObj,
        ("g", Some(gid)) => Tag::Group(gid),
        ("m", None) => Tag::Mask,
        ("o", None) => Tag::Other,
        _ => panic!("no such entry: {text}"),
    };
    let bit = |letter, bit| if fields[2].contains(letter) { bit } else { 0 };
    AclEntry {
        tag,
        perm: bit('r', READ) | bit('w', WRITE) | bit('x', EXECUTE),
    }
}

#[test]
fn an_acl_is_valid_only_with_its_entries_complete_and_in_order() {
    let valid = [
        "u::rwx g::r-x o::---",
        "u::rwx g::r-x m::rwx o::---",
        "u::rwx u:5:r-- g::r-x m::rwx o::---",
        "u::rwx u:5:r-- u:5:rw- g::r-x g:7:r-- g:3:r-- m::--- o::rwx",
    ];
    for text in valid {
        assert!(Acl::new(entries(text)).is_ok(), "{text}");
    }
    let invalid = [
        "",
        "u::rwx",
        "u::rwx g::r-x",
        "g::r-x u::rwx o::---",
        "u::rwx u::rwx g::r-x o::---",
        "u::rwx g::r-x g::r-x o::---",
        "u::rwx g::r-x o::--- o::---",
        "u::rwx g::r-x o::--- m::rwx",
        "u::rwx u:5:r-- g::r-x o::---",
        "u::rwx g::r-x g:7:r-- o::---",
        "u::rwx g::r-x u:5:r-- m::rwx o::---",
        "u::rwx g:7:r-- g::r-x m::rwx o::---",
        "u::rwx g::r-x m::rwx m::rwx o::---",
        "u::rwx g::r-x m::rwx g:7:r-- o::---",
        "u::rwx u:4294967295:r-- g::r-x m::rwx o::---",
        "u::rwx g::r-x g:4294967295:r-- m::rwx o::---",
    ];
    for text in invalid {
        assert_eq!(Acl::new(entries(text)), Err(Invalid), "{text}");
    }
    let mut too_much = entries("u::rwx g::r-x o::---");
    too_much[1].perm = 8;
    assert_eq!(Acl::new(too_much), Err(Invalid));
}

#[test]
fn the_first_class_that_the_user_belongs_to_decides() {
    let list = "u::r-- u:2:rw- g::r-- g:20:-w- g:21:rwx m::rw- o::--x";
    // uid, gid, supplementary groups, wanted, granted
    let table: &[(u32, u32, &[u32], &str, bool)] = &[
        (OWNER_UID, 0, &[], "r", true),
        (OWNER_UID, 0, &[21], "w", false), // the owner entry, though a group would grant it
        (2, 0, &[], "rw", true),
        (2, 0, &[21], "x", false), // the named user, though a group has it
        (3, OWNER_GID, &[], "r", true), // own group
        (3, 0, &[OWNER_GID], "r", true), // supplementary group
        (3, OWNER_GID, &[], "w", false), // not in the owning group's entry
        (3, OWNER_GID, &[20], "w", true), // but in another group's
        (3, OWNER_GID, &[20], "rw", false), // no single entry grants both
        (3, 21, &[], "rw", true),  // within the mask
        (3, 21, &[], "x", false),  // the mask withholds it
        (3, OWNER_GID, &[], "x", false), // a group member is never "other"
        (3, 99, &[98], "x", true),
        (3, 99, &[98], "r", false),
        (3, 99, &[98], "", true),
    ];
    for &(uid, gid, groups, want, granted) in table {
        let want_bits = entry(&format!("o::{want}")).perm;
        let who = Requester { uid, gid, groups };
        let answer = acl(list).check(who, OWNER_UID, OWNER_GID, want_bits);
        assert_eq!(
            answer, granted,
            "uid {uid} gid {gid} groups {groups:?} wants {want:?}"
        );
    }
}

#[test]
fn the_owner_entry_is_not_masked_and_the_owning_group_is() {
    let list = acl("u::rwx u:2:rwx g::rwx m::--- o::rwx");
    let check = |uid, gid| {
        list.check(
            Requester {
                uid,
                gid,
                groups: &[],
            },
            OWNER_UID,
            OWNER_GID,
            READ,
        )
    };
    assert!(check(OWNER_UID, 0));
    assert!(!check(2, 0));
    assert!(!check(3, OWNER_GID));
    assert!(check(3, 0));
}

#[test]
fn a_minimal_acl_equals_its_mode() {
    for mode in 0..=0o777 {
        let list = Acl::from_mode(mode);
        assert_eq!(list.equiv_mode(), (mode, true));
        assert_eq!(Acl::new(list.entries().collect()).as_ref(), Ok(&list));
    }
}

#[test]
fn the_mask_is_the_group_class_of_the_mode() {
    assert_eq!(
        acl("u::rw- g::rwx m::r-- o::--x").equiv_mode(),
        (0o641, false)
    );
    assert_eq!(
        acl("u::rw- u:5:rwx g::--- m::rw- o::---").equiv_mode(),
        (0o660, false)
    );
}

#[test]
fn chmod_sets_the_mask_where_there_is_one_and_the_owning_group_otherwise() {
    let before = acl("u::rwx u:5:rwx g::r-x m::rwx o::---");
    assert_eq!(
        before.chmod_masq(0o4624),
        acl("u::rw- u:5:rwx g::r-x m::-w- o::r--")
    );
    let minimal = acl("u::rwx g::r-x o::---");
    assert_eq!(minimal.chmod_masq(0o624), acl("u::rw- g::-w- o::r--"));
}

#[test]
fn a_new_file_gets_the_permissions_that_both_the_default_acl_and_its_mode_allow() {
    let default = acl("u::rwx u:5:rwx g::r-x m::rwx o::r-x");
    let (mode, access) = default.create_masq(0o2640);
    assert_eq!(mode, 0o2640);
    assert_eq!(access, Some(acl("u::rw- u:5:rwx g::r-x m::r-- o::---")));

    let minimal = acl("u::rwx g::r-x o::r-x");
    assert_eq!(minimal.create_masq(0o666), (0o644, None));
    assert_eq!(minimal.create_masq(0o1777), (0o1755, None));
}

#[test]
fn the_attribute_form_is_the_one_of_linux() {
    let value = acl("u::rw- u:1000:r-- g::r-x m::rwx o::---").to_xattr();
    #[rustfmt::skip]
    let expected = [
        2, 0, 0, 0,
        1, 0, 6, 0, 255, 255, 255, 255,
        2, 0, 4, 0, 0xe8, 3, 0, 0,
        4, 0, 5, 0, 255, 255, 255, 255,
        16, 0, 7, 0, 255, 255, 255, 255,
        32, 0, 0, 0, 255, 255, 255, 255,
    ];
    assert_eq!(value, expected);
}

#[test]
fn a_wrong_attribute_is_refused_and_an_empty_one_removes_the_acl() {
    let good = acl("u::rw- g::r-x o::---").to_xattr();
    let with = |at: usize, byte| {
        let mut value = good.clone();
        value[at] = byte;
        Acl::from_xattr(&value)
    };
    assert_eq!(Acl::from_xattr(&good[..4]), Ok(None));
    assert_eq!(Acl::from_xattr(&[]), Ok(None));
    assert_eq!(Acl::from_xattr(&good[..3]), Err(Errno::EINVAL));
    assert_eq!(Acl::from_xattr(&good[..good.len() - 1]), Err(Errno::EINVAL));
    assert_eq!(Acl::from_xattr(&good[..good.len() - 8]), Err(Errno::EINVAL));
    assert_eq!(with(0, 1), Err(Errno::EOPNOTSUPP));
    assert_eq!(with(4, 3), Err(Errno::EINVAL), "no such tag");
    assert_eq!(with(6, 8), Err(Errno::EINVAL), "no such permission");
    assert_eq!(with(7, 1), Err(Errno::EINVAL), "permission of two bytes");
    assert_eq!(
        with(8, 7),
        Ok(Some(acl("u::rw- g::r-x o::---"))),
        "the owner's id is ignored"
    );
}

fn any_acl() -> impl Strategy<Value = Acl> {
    let named = || prop::collection::vec((0..50u32, 0..=RWX), 0..4);
    let perms = (0..=RWX, 0..=RWX, 0..=RWX, prop::option::of(0..=RWX));
    (perms, named(), named()).prop_map(|((owner, group, other, mask), users, groups)| {
        let named = !users.is_empty() || !groups.is_empty();
        let mask = mask.or(named.then_some(RWX));
        let users = users.into_iter().map(|(id, perm)| AclEntry {
            tag: Tag::User(id),
            perm,
        });
        let groups = groups.into_iter().map(|(id, perm)| AclEntry {
            tag: Tag::Group(id),
            perm,
        });
        let mut entries = vec![AclEntry {
            tag: Tag::UserObj,
            perm: owner,
        }];
        entries.extend(users);
        entries.push(AclEntry {
            tag: Tag::GroupObj,
            perm: group,
        });
        entries.extend(groups);
        entries.extend(mask.map(|perm| AclEntry {
            tag: Tag::Mask,
            perm,
        }));
        entries.push(AclEntry {
            tag: Tag::Other,
            perm: other,
        });
        Acl::new(entries).expect("generated in order")
    })
}

proptest! {
    #[test]
    fn an_acl_survives_the_attribute_form(list in any_acl()) {
        prop_assert_eq!(Acl::from_xattr(&list.to_xattr()), Ok(Some(list)));
    }

    #[test]
    fn any_attribute_bytes_are_refused_or_parse_to_a_valid_acl(
        body in prop::collection::vec(
            (0..64u16, 0..9u16, prop_oneof![Just(u32::MAX), any::<u32>()]), 0..7),
        cut in 0..8usize,
    ) {
        let mut value = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in body {
            value.extend(tag.to_le_bytes());
            value.extend(perm.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value.truncate(value.len().saturating_sub(cut));
        if let Ok(Some(list)) = Acl::from_xattr(&value) {
            prop_assert!(is_valid(&list.entries().collect::<Vec<_>>()));
            prop_assert_eq!(cut, 0);
        }
    }

    #[test]
    fn the_mode_and_the_acl_agree_after_chmod_and_after_create(
        list in any_acl(), mode in 0..0o10000u16,
    ) {
        let changed = list.chmod_masq(mode);
        prop_assert_eq!(changed.equiv_mode().0, mode & 0o777);
        let (created, access) = list.create_masq(mode);
        prop_assert_eq!(created & !mode, 0);
        prop_assert_eq!(created & !0o777, mode & !0o777);
        prop_assert_eq!(access.is_none(), list.equiv_mode().1);
        if let Some(access) = access {
            prop_assert_eq!(access.equiv_mode().0, created & 0o777);
        }
    }

    #[test]
    fn a_minimal_acl_grants_what_the_mode_bits_grant(
        mode in 0..0o1000u16, uid in 0..3u32, gid in 9..12u32, other_gid in 9..12u32,
        want in 0..=RWX,
    ) {
        let groups = [other_gid];
        let who = Requester { uid, gid, groups: &groups };
        let shift = if uid == OWNER_UID { 6 }
            else if gid == OWNER_GID || other_gid == OWNER_GID { 3 }
            else { 0 };
        let granted = (mode >> shift) as u8 & want == want;
        prop_assert_eq!(Acl::from_mode(mode).check(who, OWNER_UID, OWNER_GID, want), granted);
    }
}

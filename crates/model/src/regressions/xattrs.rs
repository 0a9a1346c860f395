//! Extended attributes and ACLs.

use libc::{O_CREAT, O_RDONLY};

use super::script::Script;
use super::steps::{NO_ID, acl, acl_value, chmod, dir, open, stat};
use crate::bytes::bytes;
use crate::op::{Op, Target};

/// The scripts.
pub fn scripts() -> Vec<Script> {
    let target = |path: &str| Target::Path(bytes(path));
    let set = |path: &str, name: &str, len: usize, flags| Op::SetXattr {
        target: target(path),
        name: bytes(name),
        value: bytes(vec![b'v'; len]),
        flags,
    };
    let remove = |path: &str, name: &str| Op::RemoveXattr {
        target: target(path),
        name: bytes(name),
    };
    let get = |path: &str, name: &str| Op::GetXattr {
        target: target(path),
        name: bytes(name),
    };
    let long = format!("user.{}", "x".repeat(251));
    let group = [
        (1, 1, NO_ID),
        (2, 2, 1000),
        (4, 6, NO_ID),
        (0x10, 0, NO_ID),
        (0x20, 3, NO_ID),
    ];
    let wrong = [(1, 6, NO_ID), (2, 1, 1001)];
    let default = bytes("system.posix_acl_default");
    vec![
        (
            "flags, name and size are checked before the path, in this order",
            vec![
                (1, set("none", &long, 65537, 4)),
                (1, set("none", &long, 65537, 0)),
                (1, set("none", "user.a", 65537, 0)),
                (1, get("none", "")),
                (1, remove("none", &long)),
            ],
        ),
        (
            "a name that is only a prefix is refused after the permission check",
            vec![
                (1, open("f", O_CREAT, 0)),
                (2, set("f", "user.", 1, 0)),
                (2, get("f", "trusted.")),
                (2, remove("f", "trusted.")),
                (1, set("f", "user.", 1, 0)),
                (2, set("f", "nothing.a", 1, 0)),
                (2, set("f", "system.a", 1, 0)),
            ],
        ),
        (
            "an empty ACL removes, a senseless one is EINVAL for the owner only",
            vec![
                (1, open("f", O_CREAT, 0o640)),
                (1, acl("f", &group)),
                (1, acl("f", &[])),
                (1, stat("f")),
                (2, acl("f", &wrong)),
                (1, acl("f", &wrong)),
            ],
        ),
        (
            "a mask of nothing makes the mode bits speak",
            vec![
                (1, dir("d", 0o755)),
                (1, acl("d", &group)),
                (2, stat("d/x")),
                (2, open("d", O_RDONLY, 0)),
            ],
        ),
        (
            "what cannot have a default ACL has none to remove, whoever asks",
            vec![
                (1, open("f", O_CREAT, 0)),
                (
                    2,
                    Op::RemoveXattr {
                        target: target("f"),
                        name: default.clone(),
                    },
                ),
                (
                    2,
                    Op::SetXattr {
                        target: target("f"),
                        name: default,
                        value: acl_value(&group),
                        flags: 0,
                    },
                ),
            ],
        ),
        (
            "who is not of the group takes setgid away with the ACL",
            vec![
                (1, chmod("/", 0o2777)),
                (2, dir("d", 0o755)),
                (2, remove("d", "system.posix_acl_access")),
                (1, stat("d")),
            ],
        ),
    ]
}

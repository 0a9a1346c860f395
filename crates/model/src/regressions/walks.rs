//! Walking paths.

use libc::{AT_EMPTY_PATH, O_NOFOLLOW, O_RDONLY};

use super::script::Script;
use super::steps::{dir, file, open, stat, symlink, unlink};
use crate::bytes::bytes;
use crate::op::{CWD, Op};

/// The scripts.
pub fn scripts() -> Vec<Script> {
    let removed = |last| {
        vec![
            (1, dir("d", 0o777)),
            (1, Op::ChangeDir { path: bytes("d") }),
            (1, unlink("/d", libc::AT_REMOVEDIR)),
            (1, last),
        ]
    };
    let bad_fd = |path: &str| Op::Stat {
        dirfd: 7,
        path: bytes(path),
        flags: 0,
    };
    vec![
        ("40 symbolic links are followed and not 41", {
            let name = |link: i32| format!("l{link}");
            let mut steps = vec![(1, file("f")), (1, symlink("f", "l1"))];
            steps.extend((2..=41).map(|link| (1, symlink(&name(link - 1), &name(link)))));
            steps.extend([40, 41].map(|link| (1, stat(&name(link)))));
            steps
        }),
        (
            "an invalid path is reported before an invalid descriptor",
            vec![
                (1, bad_fd("")),
                (1, bad_fd(&"./".repeat(2048))),
                (1, bad_fd("a")),
            ],
        ),
        (
            "AT_SYMLINK_FOLLOW is a flag of linkat alone",
            vec![
                (
                    1,
                    Op::Stat {
                        dirfd: CWD,
                        path: bytes("/"),
                        flags: 0x400,
                    },
                ),
                (
                    1,
                    Op::Chmod {
                        dirfd: CWD,
                        path: bytes("/"),
                        mode: 0o755,
                        flags: 0x400,
                    },
                ),
            ],
        ),
        (
            "a removed directory has no path and no entries",
            [
                removed(Op::GetCwd),
                vec![
                    (1, open(".", O_RDONLY, 0)),
                    (1, Op::ListFd { fd: 0, split: None }),
                ],
            ]
            .concat(),
        ),
        (
            "a slash behind a name makes all symlinks behind it be followed",
            vec![(1, symlink("a", "a")), (1, open("a/", O_NOFOLLOW, 0))],
        ),
        (
            "a directory outside the root has no path",
            vec![
                (1, dir("d", 0o777)),
                (1, Op::ChangeRoot { path: bytes("d") }),
                (1, Op::GetCwd),
            ],
        ),
        (
            "an empty path with AT_EMPTY_PATH is the current directory, which cannot be linked",
            vec![(
                1,
                Op::Link {
                    old_dirfd: CWD,
                    old: bytes(""),
                    new_dirfd: CWD,
                    new: bytes("b"),
                    flags: AT_EMPTY_PATH,
                },
            )],
        ),
    ]
}

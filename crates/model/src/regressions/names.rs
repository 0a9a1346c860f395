//! Making, linking and renaming.

use libc::{AT_EMPTY_PATH, O_CREAT, O_EXCL, O_RDWR};

use super::script::Script;
use super::steps::{OPEN_ROOT, chmod, dir, open, rename, stat, symlink, unlink};
use crate::bytes::bytes;
use crate::op::{CWD, Op};

const TMPFILE: i32 = libc::O_TMPFILE | O_RDWR;

/// The scripts.
pub fn scripts() -> Vec<Script> {
    vec![
        (
            "a target above the source is not empty, whatever the rights and kinds",
            vec![
                (1, dir("d", 0o777)),
                (1, open("d/f", O_CREAT, 0)),
                (2, rename("d/f", "d", 0)),
                (1, rename("d/f", "d", 0)),
                (1, rename("d/f", "d", 2)),
            ],
        ),
        (
            "a directory cannot replace a file, which is said before its own rights",
            vec![
                (1, chmod("/", OPEN_ROOT)),
                (2, dir("c", 0o755)),
                (1, open("b", O_CREAT, 0)),
                (1, dir("c/d", 0o755)),
                (2, rename("c/d", "b", 0)),
            ],
        ),
        (
            "nothing can be renamed into a removed directory",
            vec![
                (1, dir("a", 0o777)),
                (1, dir("a/b", 0o777)),
                (1, Op::ChangeDir { path: bytes("a/b") }),
                (1, unlink("/a/b", libc::AT_REMOVEDIR)),
                (1, rename("/a", "b", 0)),
                (1, open("/f", O_CREAT, 0)),
                (1, rename("/f", "b/", 0)),
            ],
        ),
        (
            "a whiteout is left behind",
            vec![
                (1, open("a", O_CREAT, 0)),
                (1, rename("a", "b", libc::RENAME_WHITEOUT)),
                (1, stat("a")),
            ],
        ),
        (
            "a symlink's target is checked for length before its name exists",
            vec![
                (1, symlink("t", "a")),
                (1, symlink(&"t/".repeat(2048), "a")),
            ],
        ),
        (
            "an unlinked O_TMPFILE gets a name unless O_EXCL forbids",
            vec![
                (1, open(".", TMPFILE, 0o600)),
                (1, open(".", TMPFILE | O_EXCL, 0o600)),
                (
                    1,
                    Op::Link {
                        old_dirfd: 0,
                        old: bytes(""),
                        new_dirfd: CWD,
                        new: bytes("a"),
                        flags: AT_EMPTY_PATH,
                    },
                ),
                (
                    1,
                    Op::Link {
                        old_dirfd: 1,
                        old: bytes(""),
                        new_dirfd: CWD,
                        new: bytes("b"),
                        flags: AT_EMPTY_PATH,
                    },
                ),
            ],
        ),
    ]
}

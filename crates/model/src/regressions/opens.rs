//! Opening and listing.

use libc::{
    O_ACCMODE, O_CREAT, O_DIRECT, O_DIRECTORY, O_EXCL, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE,
};

use super::script::Script;
use super::steps::{OPEN_ROOT, chmod, open, stat, times};
use crate::bytes::bytes;
use crate::op::{CWD, Fill, Op, SetTime};

/// The scripts.
pub fn scripts() -> Vec<Script> {
    vec![
        (
            "O_EXCL on dots is EEXIST, O_CREAT alone EISDIR",
            vec![
                (1, open("..", O_CREAT | O_EXCL, 0)),
                (1, open("..", O_CREAT, 0)),
            ],
        ),
        (
            "opening a pipe without permission is EACCES",
            vec![
                (1, chmod("/", OPEN_ROOT)),
                (
                    1,
                    Op::MakeNode {
                        dirfd: CWD,
                        path: bytes("p"),
                        mode: libc::S_IFIFO | 0o600,
                        rdev: 0,
                    },
                ),
                (2, open("p", O_RDONLY, 0)),
            ],
        ),
        (
            "O_DIRECT takes any offset and length, and is not for a directory",
            vec![
                (1, open("f", O_CREAT | O_RDWR | O_DIRECT, 0o600)),
                (
                    1,
                    Op::WriteAt {
                        fd: 0,
                        data: Fill { seed: 1, len: 5001 },
                        offset: 3,
                    },
                ),
                (
                    1,
                    Op::ReadAt {
                        fd: 0,
                        len: 77,
                        offset: 4090,
                    },
                ),
                (1, Op::GetStatus { fd: 0 }),
                (1, open("/", O_RDONLY | O_DIRECT, 0)),
                (1, open("/", O_RDONLY, 0)),
                (
                    1,
                    Op::SetStatus {
                        fd: 1,
                        flags: O_DIRECT,
                    },
                ),
                (2, open("f", O_RDONLY | O_DIRECT, 0)),
            ],
        ),
        (
            "O_PATH opens what may not be read",
            vec![
                (1, open("f", O_CREAT, 0)),
                (2, open("f", O_PATH, 0)),
                (2, Op::StatFd { fd: 0 }),
                (2, Op::Read { fd: 0, len: 1 }),
            ],
        ),
        (
            "access mode 3 asks for both rights and gives neither",
            vec![
                (1, chmod("/", OPEN_ROOT)),
                (1, open("f", O_CREAT | O_RDWR, 0o644)),
                (2, open("f", O_ACCMODE, 0)),
                (1, chmod("f", 0o666)),
                (2, open("f", O_ACCMODE, 0)),
                (2, Op::Read { fd: 0, len: 1 }),
                (
                    2,
                    Op::Write {
                        fd: 0,
                        data: Fill { len: 1, seed: 1 },
                    },
                ),
                (2, Op::TruncateFd { fd: 0, len: 0 }),
                (
                    2,
                    Op::Flock {
                        fd: 0,
                        op: libc::LOCK_SH | libc::LOCK_NB,
                    },
                ),
                (2, open("new", O_CREAT | O_ACCMODE, 0o600)),
                (2, open(".", O_TMPFILE | O_ACCMODE, 0o600)),
            ],
        ),
        (
            "listing a file is ENOTDIR even without read permission",
            vec![
                (1, open("f", O_CREAT, 0)),
                (2, Op::List { path: bytes("f") }),
            ],
        ),
        (
            "O_NOATIME holds for listing",
            vec![
                (1, times("/", [SetTime::At(5, 5), SetTime::Omit], 0)),
                (1, open("/", O_DIRECTORY | libc::O_NOATIME, 0)),
                (
                    1,
                    Op::ListFd {
                        fd: 0,
                        split: Some(1),
                    },
                ),
                (1, stat("/")),
            ],
        ),
    ]
}

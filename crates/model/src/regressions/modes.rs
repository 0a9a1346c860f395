//! Modes, owners, times, flags.

use libc::{O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};

use super::script::Script;
use super::steps::{OPEN_ROOT, chmod, copy, file, open, stat, times};
use crate::bytes::bytes;
use crate::op::{CWD, Fill, Op, SetTime};

/// The scripts.
pub fn scripts() -> Vec<Script> {
    vec![
        (
            "a writer outside the group loses setgid",
            vec![
                (1, file("f")),
                (1, chmod("f", 0o2666)),
                (2, open("f", O_WRONLY, 0)),
                (
                    2,
                    Op::Write {
                        fd: 0,
                        data: Fill { seed: 1, len: 1 },
                    },
                ),
                (1, stat("f")),
            ],
        ),
        (
            "allocating and copying by a user other than root removes setuid",
            vec![
                (1, open("f", O_CREAT | O_RDWR, 0o4755)),
                (1, open("g", O_CREAT | O_RDWR, 0o4755)),
                (
                    1,
                    Op::Write {
                        fd: 0,
                        data: Fill { seed: 1, len: 1 },
                    },
                ),
                (
                    1,
                    Op::SetCredentials {
                        uid: 1000,
                        gid: 1000,
                        groups: Vec::new(),
                    },
                ),
                (1, copy(0, 0, 1, 0, 1)),
                (1, stat("g")),
                // A hole where nothing was.
                (
                    1,
                    Op::Allocate {
                        fd: 0,
                        mode: libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                        offset: 4096,
                        len: 4096,
                    },
                ),
                (1, stat("f")),
            ],
        ),
        (
            "setgid is removed before the umask hides the execute bit that decides",
            vec![
                (1, chmod("/", 0o2777)),
                (2, Op::Umask { mask: 0o077 }),
                (2, open("f", O_CREAT, 0o6011)),
                (1, stat("f")),
            ],
        ),
        (
            "setgid is removed from special files as well",
            vec![
                (1, chmod("/", 0o2777)),
                (
                    2,
                    Op::MakeNode {
                        dirfd: CWD,
                        path: bytes("s"),
                        mode: libc::S_IFSOCK | 0o2755,
                        rdev: 0,
                    },
                ),
                (1, stat("s")),
            ],
        ),
        (
            "a chown of neither id needs the owner if it removes setuid",
            vec![
                (1, open("f", O_CREAT, 0o4755)),
                (
                    2,
                    Op::Chown {
                        dirfd: CWD,
                        path: bytes("f"),
                        uid: None,
                        gid: None,
                        flags: 0,
                    },
                ),
                (
                    1,
                    Op::Chown {
                        dirfd: CWD,
                        path: bytes("f"),
                        uid: None,
                        gid: None,
                        flags: 0,
                    },
                ),
                (1, stat("f")),
            ],
        ),
        (
            "only a character device 0 is a whiteout",
            vec![
                (1, chmod("/", OPEN_ROOT)),
                (
                    2,
                    Op::MakeNode {
                        dirfd: CWD,
                        path: bytes("b"),
                        mode: libc::S_IFBLK,
                        rdev: 0,
                    },
                ),
                (
                    2,
                    Op::MakeNode {
                        dirfd: CWD,
                        path: bytes("c"),
                        mode: libc::S_IFCHR,
                        rdev: 0,
                    },
                ),
            ],
        ),
        (
            "setting no time checks nothing",
            vec![
                (1, times("none", [SetTime::Omit; 2], 0x400)),
                (
                    1,
                    Op::SetTimesFd {
                        fd: 9,
                        times: [SetTime::Omit; 2],
                    },
                ),
            ],
        ),
        (
            "invalid nanoseconds are refused after the file is found",
            vec![
                (
                    1,
                    times("none", [SetTime::At(1, 1_000_000_000), SetTime::Now], 0),
                ),
                (
                    1,
                    times("/", [SetTime::At(1, 1_000_000_000), SetTime::Now], 0),
                ),
                (
                    1,
                    Op::SetTimesFd {
                        fd: 9,
                        times: [SetTime::At(1, 1_000_000_000); 2],
                    },
                ),
            ],
        ),
        (
            "an unknown inode flag is refused after the owner check",
            vec![
                (1, open("f", O_CREAT, 0o666)),
                (2, open("f", O_RDONLY, 0)),
                (2, Op::SetFlags { fd: 0, flags: 1 }),
                (1, Op::SetFlags { fd: 0, flags: 1 }),
            ],
        ),
    ]
}

//! Every verb with what is typed behind it, and the places where it has something to do.

use super::places::Place::{self, Closed, Dead, Foreign, Missing, Old, Plain};

/// A verb that looks at a path.
pub struct Typed {
    pub verb: &'static str,
    /// What follows; `@` is the path.
    pub arguments: &'static str,
    /// Where it does what it is asked, and why that is right.
    pub works: &'static [(Place, &'static str)],
}

const fn typed(verb: &'static str, arguments: &'static str) -> Typed {
    let works = &[];
    Typed {
        verb,
        arguments,
        works,
    }
}

const fn works(
    verb: &'static str,
    arguments: &'static str,
    works: &'static [(Place, &'static str)],
) -> Typed {
    Typed {
        verb,
        arguments,
        works,
    }
}

/// Verbs that look at no path of the person who types.
pub const WITHOUT_A_PATH: &[(&str, &str)] = &[
    ("run", "serves the working directory, which is there"),
    ("doctor", "looks at the machine"),
    ("completions", "prints a script"),
    ("version", "prints a number"),
];

/// What a new directory may be made of.
const NEW: &str = "makes the directory";
/// A directory for files, whatever serves it.
const FILES: &str = "puts files into a directory of any filesystem";

/// Whoever looks at numbers sees it there.
const DOWN: &str = "a place where no volume is up is a number, hearth_up 0";

/// Every other verb.
pub const VERBS: &[Typed] = &[
    works(
        "mount",
        "memory: @ -o transport=dev",
        &[
            (Plain, "an empty directory is what a mount point is"),
            (Dead, "clears the dead mount, says so, and mounts"),
            (Foreign, "an empty directory of another filesystem"),
        ],
    ),
    works(
        "umount",
        "@",
        &[
            (Dead, "takes the dead mount away"),
            (Old, "a mount ends whatever its daemon knows"),
            (Closed, "root ends any mount"),
        ],
    ),
    typed("sync", "@"),
    works(
        "mkfs",
        "@",
        &[
            (Missing, NEW),
            (Plain, FILES),
            (Foreign, FILES),
            (Old, FILES),
        ],
    ),
    works("info", "@", &[(Old, "says what the kernel knows of it")]),
    typed("fsck", "@"),
    typed("dump", "@ -"),
    works(
        "load",
        "dump.tar @",
        &[
            (Missing, NEW),
            (Plain, FILES),
            (Foreign, FILES),
            (Old, FILES),
        ],
    ),
    typed("passphrase", "@ -o encrypt=passphrase --new passphrase"),
    typed("stats", "@"),
    works(
        "metrics",
        "@",
        &[
            (Missing, DOWN),
            (Plain, DOWN),
            (Dead, DOWN),
            (Foreign, DOWN),
            (Closed, "a mount that does not let look is a number"),
            (Old, "what there is of numbers is printed"),
        ],
    ),
    typed("top", "@ --once"),
    typed("locks", "@"),
    typed("locks", "@ --files"),
    typed("locks", "@ --for 1s"),
    typed("events", "@ --count 1"),
    typed("ask", "@ help"),
    typed("quota set", "user:1 --hard 1M @"),
    typed("quota report", "@"),
    typed("quota get", "@"),
    typed("quota get", "user:1 @"),
    typed("quota project", "@ 7"),
    typed("quota grace", "user --bytes 1d @"),
    typed("quota default", "user --hard 1M @"),
    typed("quota on", "user @"),
    typed("quota off", "user @"),
    typed("quota check", "@"),
    typed("quota events", "@"),
    typed("heat on", "@"),
    typed("heat off", "@"),
    typed("heat top", "@"),
    typed("heat info", "@/file"),
    typed("heat histogram", "@"),
    typed("heat report", "@ --what-if 1G"),
    typed("heat map", "@"),
    typed("heat export", "@"),
    typed("heat import", "@ heat.jsonl"),
    typed("sched", "@"),
    typed("sched weight", "user:1 200 @"),
    typed("sched limit", "user:1 --iops 5k @"),
    typed("tune", "@"),
    typed("tune", "@ fs/atime=noatime"),
    works(
        "man",
        "@",
        &[
            (Missing, NEW),
            (Plain, FILES),
            (Foreign, FILES),
            (Old, FILES),
        ],
    ),
];

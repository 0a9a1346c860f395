//! The workloads that repeat one operation, as tables.

use crate::script::At::{Begin, Cycle, Down, Random, Region};
use crate::script::Make::{Deep, Dir, Each, File, Files, Hole, Long, Regions, Tree};
use crate::script::Step::{
    Append, Chdir, Close, List, Lock, Missing, Open, Read, Refused, Rename, Stat, StatAll,
    StatRandom, Sync, Truncate, Unlink, Write,
};
use crate::script::{BYTE, Left, Make, NEW, Script, Step};
use libc::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

const EMPTY: Script = Script::EMPTY;
const PAGE: usize = 4 << 10;
const LARGE: usize = 128 << 10;
const MIB: usize = 1 << 20;
const MAKE: i32 = O_CREAT | O_RDWR | O_TRUNC;

/// A file for every task, and some other files beside them.
const BENCH: &[Make] = &[
    Dir("/bench"),
    File("/bench/file-{t}", 0),
    Files("/bench/more-{n}", 62),
];
const BENCH_DATA: &[Make] = &[
    Dir("/bench"),
    File("/bench/file-{t}", 4 << 20),
    Files("/bench/more-{n}", 62),
];
const BENCH_LIST: &[Make] = &[
    Dir("/bench"),
    Dir("/bench/many"),
    Files("/bench/many/{n}", 10_000),
];
const BENCH_OPEN: &[Step] = &[Open("/bench/file-{t}", O_RDWR)];

/// The workloads of `lib` and `mount`.
pub static BASIC: [Script; 10] = [
    Script {
        name: "open/close",
        tree: BENCH,
        steps: &[Open("/bench/file-{t}", O_RDONLY), Close],
        ..EMPTY
    },
    Script {
        name: "stat",
        tree: BENCH,
        steps: &[Stat("/bench/file-{t}")],
        ..EMPTY
    },
    Script {
        name: "stat, one file",
        tree: BENCH,
        steps: &[Stat("/bench/file-0")],
        ..EMPTY
    },
    Script {
        name: "stat, missing",
        tree: BENCH,
        steps: &[Missing("/bench/none-{t}")],
        ..EMPTY
    },
    Script {
        name: "create/unlink",
        tree: BENCH,
        steps: &[Open("/bench/new-{t}", NEW), Close, Unlink("/bench/new-{t}")],
        ..EMPTY
    },
    Script {
        name: "readdir 10,000",
        tree: BENCH_LIST,
        steps: &[List("/bench/many", |_| 10_000)],
        stride: 1,
        ..EMPTY
    },
    basic_data(
        "read 4 KiB",
        &[Read(0, Cycle(4 * MIB / PAGE), PAGE, BYTE)],
        32,
    ),
    basic_data("write 4 KiB", &[Write(0, Cycle(4 * MIB / PAGE), PAGE)], 32),
    basic_data(
        "read 128 KiB",
        &[Read(0, Cycle(4 * MIB / LARGE), LARGE, BYTE)],
        4,
    ),
    basic_data(
        "write 128 KiB",
        &[Write(0, Cycle(4 * MIB / LARGE), LARGE)],
        4,
    ),
];

const fn basic_data(name: &'static str, steps: &'static [Step], stride: u32) -> Script {
    Script {
        name,
        tree: BENCH_DATA,
        begin: BENCH_OPEN,
        steps,
        stride,
        ..EMPTY
    }
}

macro_rules! four {
    ($name:literal) => {
        concat!("/element-1/element-2/element-3/element-4", $name)
    };
}
const FOUR: &[Make] = &[Deep(concat!(
    "/element-1/element-2/element-3/element-4",
    "/file-{t}"
))];
const FOUR_DIRS: &[Make] = &[
    Dir("/element-1"),
    Dir("/element-1/element-2"),
    Dir("/element-1/element-2/element-3"),
    Dir(four!("")),
];
const FOUR_DATA: &[Make] = &[
    Dir("/element-1"),
    Dir("/element-1/element-2"),
    Dir("/element-1/element-2/element-3"),
    Dir(four!("")),
    File(four!("/file-{t}"), MIB as u64),
];
const A_FILE_A_TASK: &[Left] = &[Left::Entries(four!(""), |tasks, _| tasks)];

/// The workloads of `single`, each with the required multiple of tmpfs's rate.
pub static SINGLE: [(Script, f64); 4] = [
    (
        Script {
            name: "stat, 5 components",
            tree: FOUR,
            steps: &[Stat(four!("/file-{t}"))],
            left: A_FILE_A_TASK,
            ..EMPTY
        },
        6.0,
    ),
    (
        Script {
            name: "open+close, 5 components",
            tree: FOUR,
            steps: &[Open(four!("/file-{t}"), O_RDONLY), Close],
            left: A_FILE_A_TASK,
            ..EMPTY
        },
        6.0,
    ),
    (
        Script {
            name: "create+close+unlink, 5 components",
            tree: FOUR_DIRS,
            steps: &[
                Open(four!("/file-{t}"), NEW),
                Close,
                Unlink(four!("/file-{t}")),
            ],
            left: &[Left::Entries(four!(""), |_, _| 0)],
            ..EMPTY
        },
        4.0,
    ),
    (
        Script {
            name: "pread 4 KiB",
            tree: FOUR_DATA,
            begin: &[Open(four!("/file-{t}"), O_RDONLY)],
            steps: &[Read(0, Cycle(MIB / PAGE), PAGE, BYTE)],
            left: A_FILE_A_TASK,
            ..EMPTY
        },
        3.0,
    ),
];

/// The workloads of `file-ops`, in the order of the columns, with the short names of the seed.
pub static FILE_OPS: [(Script, &str); 4] = [
    (
        Script {
            name: "open/close, same cwd",
            tree: &[Dir("/shared")],
            begin: &[Chdir("/shared"), Open("silly-{t}", MAKE), Close],
            steps: OPEN_CLOSE,
            left: &[Left::Entries("/shared", |tasks, _| tasks)],
            ..EMPTY
        },
        "oc same",
    ),
    (
        Script {
            name: "open/close, different cwd",
            tree: &[Dir("/dir-{t}")],
            begin: &[Chdir("/dir-{t}"), Open("silly-{t}", MAKE), Close],
            steps: OPEN_CLOSE,
            left: &[Left::Entries("/dir-{t}", |_, _| 1)],
            ..EMPTY
        },
        "oc diff",
    ),
    (
        Script {
            name: "creat/unlink, same cwd",
            tree: &[Dir("/shared")],
            begin: &[Chdir("/shared")],
            steps: CREATE_UNLINK,
            left: &[Left::Entries("/shared", |_, _| 0)],
            ..EMPTY
        },
        "cu same",
    ),
    (
        Script {
            name: "creat/unlink, different cwd",
            tree: &[Dir("/dir-{t}")],
            begin: &[Chdir("/dir-{t}")],
            steps: CREATE_UNLINK,
            left: &[Left::Entries("/dir-{t}", |_, _| 0)],
            ..EMPTY
        },
        "cu diff",
    ),
];
const OPEN_CLOSE: &[Step] = &[Open("silly-{t}", O_RDWR), Close];
const CREATE_UNLINK: &[Step] = &[Open("silly-{t}", MAKE), Close, Unlink("silly-{t}")];

macro_rules! seven {
    ($name:literal) => {
        concat!(
            "/element-1/element-2/element-3/element-4/element-5/element-6/element-7",
            $name
        )
    };
}

/// The workloads of `paths`, with the names of their pictures.
pub static PATHS: [(Script, &str); 3] = [
    (
        Script {
            name: "open/close, one file",
            tree: &[File("/one", 0)],
            steps: &[Open("/one", O_RDONLY), Close],
            left: &[Left::Entries("/", |_, _| 1)],
            ..EMPTY
        },
        "one-file",
    ),
    (
        Script {
            name: "stat, one path",
            tree: &[File("/one", 0)],
            steps: &[Stat("/one")],
            left: &[Left::Entries("/", |_, _| 1)],
            ..EMPTY
        },
        "one-path",
    ),
    (
        Script {
            name: "stat, depth 8, common directories",
            tree: &[Deep(seven!("/file-{t}"))],
            steps: &[Stat(seven!("/file-{t}"))],
            left: &[Left::Entries(seven!(""), |tasks, _| tasks)],
            ..EMPTY
        },
        "deep",
    ),
];

/// Bytes of a read and a write of thread_perf.
const ODD: usize = 4_095;
const TASK: &[Make] = &[
    Dir("/task-{t}"),
    Hole("/task-{t}/zero", ODD as u64),
    Hole("/task-{t}/null", ODD as u64),
    Hole("/task-{t}/there", ODD as u64),
];
const TASK_OPEN: &[Step] = &[
    Open("/task-{t}/zero", O_RDONLY),
    Open("/task-{t}/null", O_WRONLY),
];
const THREE: Left = Left::Entries("/task-{t}", |_, _| 3);

const fn of_task(name: &'static str, steps: &'static [Step]) -> Script {
    Script {
        name,
        tree: TASK,
        begin: TASK_OPEN,
        steps,
        left: &[THREE, Left::Content("/task-{t}/null", ODD, 0)],
        ..EMPTY
    }
}

/// The workloads of `thread_perf`, each with its number of repetitions.
pub static THREAD_PERF: [(Script, usize); 6] = [
    // What the original does with `/dev/zero` and `/dev/null`, which only a kernel has.
    (
        Script {
            left: &[THREE, Left::Content("/task-{t}/null", ODD, BYTE)],
            ..of_task("readwrite", &[Read(0, Begin, ODD, 0), Write(1, Begin, ODD)])
        },
        20_000,
    ),
    (
        of_task(
            "stat",
            &[Stat("/task-{t}/there"), Missing("/task-{t}/missing")],
        ),
        10_000,
    ),
    (of_task("dir", &[List("/task-{t}", |_| 3)]), 2_000),
    (of_task("dirsingle", &[List("/", |tasks| tasks)]), 2_000),
    (
        of_task(
            "create",
            &[
                Open("/task-{t}/missing", O_CREAT | O_TRUNC | O_WRONLY),
                Refused("/task-{t}/missing", NEW),
                Close,
                Unlink("/task-{t}/missing"),
            ],
        ),
        1_000,
    ),
    (of_task("lock", &[Lock(1)]), 20_000),
];

/// The setup of `teardown`, an object at a time. The teardown itself is not counted: it is one
/// operation, the end of a task.
pub static SOCKET: Script = Script {
    name: "setup",
    tree: &[Dir("/task-{t}")],
    steps: &[
        Open("/task-{t}/anonymous", NEW),
        Unlink("/task-{t}/anonymous"),
    ],
    ..EMPTY
};

/// The phases of `tiobench`, a block at a time.
pub static TIOBENCH: [Script; 4] = [
    tio("write", &[Write(0, Cycle(256), PAGE)]),
    tio("random write", &[Write(0, Random(256), PAGE)]),
    tio("read", &[Read(0, Cycle(256), PAGE, BYTE)]),
    tio("random read", &[Read(0, Random(256), PAGE, BYTE)]),
];

const fn tio(name: &'static str, steps: &'static [Step]) -> Script {
    let tree = &[File("/tiotest-{t}", MIB as u64)];
    Script {
        name,
        tree,
        begin: &[Open("/tiotest-{t}", O_RDWR)],
        steps,
        ..EMPTY
    }
}

const REGION: u64 = 8 << 20;
const PRIVATE: Make = Dir("/private-{t}");
const SHARED: Make = Dir("/shared");
const OPEN_FILE: &[Step] = &[Open("/file-{t}", O_RDWR)];
const OPEN_SHARED: &[Step] = &[Open("/shared-file", O_RDWR)];
const ONE_PAGE: &[Make] = &[File("/file-{t}", PAGE as u64)];
const OF_A_REGION: &[Make] = &[Regions("/shared-file", REGION)];

/// The twelve of FxMark that repeat one operation on files that stay. A look at MRPM has 4 branches
/// a directory instead of 8: [`MRPM_QUICK`].
pub static FXMARK_STEADY: [Script; 12] = [
    Script {
        name: "DWOL",
        about: "overwrite a page of a private file",
        tree: ONE_PAGE,
        begin: OPEN_FILE,
        steps: &[Write(0, Begin, PAGE)],
        ..EMPTY
    },
    Script {
        name: "DWOM",
        about: "overwrite a page of a private region of the shared file",
        tree: OF_A_REGION,
        begin: OPEN_SHARED,
        steps: &[Write(0, Region(REGION), PAGE)],
        ..EMPTY
    },
    Script {
        name: "DWSL",
        about: "overwrite a page of a private file and fsync it",
        tree: &[PRIVATE, File("/private-{t}/file", PAGE as u64)],
        begin: &[Open("/private-{t}/file", O_RDWR)],
        steps: &[Write(0, Begin, PAGE), Sync(0)],
        ..EMPTY
    },
    Script {
        name: "DRBL",
        about: "read a page of a private file",
        tree: ONE_PAGE,
        begin: OPEN_FILE,
        steps: &[Read(0, Begin, PAGE, BYTE)],
        ..EMPTY
    },
    Script {
        name: "DRBM",
        about: "read a page of a private region of the shared file",
        tree: OF_A_REGION,
        begin: OPEN_SHARED,
        steps: &[Read(0, Region(REGION), PAGE, BYTE)],
        ..EMPTY
    },
    Script {
        name: "DRBH",
        about: "read the same page of the shared file",
        tree: &[File("/shared-file", PAGE as u64)],
        begin: OPEN_SHARED,
        steps: &[Read(0, Begin, PAGE, BYTE)],
        ..EMPTY
    },
    Script {
        name: "MRPL",
        about: "stat a private file five levels deep",
        tree: &[Deep("/{t}/0/0/0/0")],
        steps: &[Stat("/{t}/0/0/0/0")],
        ..EMPTY
    },
    mrpm(&[Tree(8, 5)], &[StatAll(8, 5)], &[StatRandom(8, 5)]),
    Script {
        name: "MRPH",
        about: "stat the same file five levels deep",
        tree: &[Deep("/0/0/0/0/0")],
        steps: &[Stat("/0/0/0/0/0")],
        ..EMPTY
    },
    Script {
        name: "MRDL",
        about: "list a private directory of 256 files",
        tree: &[PRIVATE, Files("/private-{t}/file-{n}", 256)],
        steps: &[List("/private-{t}", |_| 256)],
        stride: 1,
        ..EMPTY
    },
    Script {
        name: "MRDM",
        about: "list the shared directory of 256 files",
        tree: &[SHARED, Files("/shared/file-{n}", 256)],
        steps: &[List("/shared", |_| 256)],
        stride: 1,
        ..EMPTY
    },
    Script {
        name: "MWRL",
        about: "rename a file in a private directory to a new name",
        tree: &[PRIVATE, File("/private-{t}/name-0", 0)],
        steps: &[Rename("/private-{t}/name-{n}", "/private-{t}/name-{m}")],
        left: &[
            Left::There("/private-{t}/name-{n}"),
            Left::Entries("/private-{t}", |_, _| 1),
        ],
        ..EMPTY
    },
];

pub static MRPM_QUICK: Script = mrpm(&[Tree(4, 5)], &[StatAll(4, 5)], &[StatRandom(4, 5)]);

const fn mrpm(tree: &'static [Make], begin: &'static [Step], steps: &'static [Step]) -> Script {
    let about = "stat random files of a shared tree five levels deep";
    Script {
        name: "MRPM",
        about,
        tree,
        begin,
        steps,
        ..EMPTY
    }
}

const IN_SHARED: Left = Left::Entries("/shared", |tasks, times| tasks * times);
const NONE_SHARED: Left = Left::Entries("/shared", |_, _| 0);
const NONE_PRIVATE: Left = Left::Entries("/private-{t}", |_, _| 0);

/// The seven FxMark workloads that use up the files they work on.
pub static FXMARK_USED_UP: [Script; 7] = [
    Script {
        name: "DWAL",
        about: "append a page to a private file",
        tree: &[SHARED],
        own: &[File("/file-{t}", 0)],
        begin: &[Open("/file-{t}", O_WRONLY | O_APPEND)],
        steps: &[Append(0, PAGE)],
        back: &[Truncate(0, Begin, PAGE)],
        left: &[Left::Size("/file-{t}", |times| times * PAGE), NONE_SHARED],
        ..EMPTY
    },
    Script {
        name: "DWTL",
        about: "truncate a private file by a page",
        tree: &[SHARED],
        own: &[Long("/file-{t}", PAGE as u64)],
        begin: OPEN_FILE,
        steps: &[Truncate(0, Down, PAGE)],
        back: &[Write(0, Cycle(usize::MAX), PAGE)],
        left: &[Left::Size("/file-{t}", |_| 0), NONE_SHARED],
        ..EMPTY
    },
    Script {
        name: "MWCL",
        about: "create an empty file in a private directory",
        tree: &[SHARED],
        own: &[PRIVATE],
        steps: &[Open("/private-{t}/file-{t}-{n}", NEW), Close],
        back: &[Unlink("/private-{t}/file-{t}-{n}")],
        left: &[Left::Entries("/private-{t}", |_, times| times), NONE_SHARED],
        ..EMPTY
    },
    Script {
        name: "MWCM",
        about: "create a file of a page in the shared directory",
        tree: &[SHARED],
        steps: &[
            Open("/shared/file-{t}-{n}", NEW),
            Write(0, Begin, PAGE),
            Close,
        ],
        back: &[Unlink("/shared/file-{t}-{n}")],
        left: &[IN_SHARED, Left::Size("/shared/file-{t}-0", |_| PAGE)],
        ..EMPTY
    },
    Script {
        name: "MWUL",
        about: "unlink an empty file in a private directory",
        tree: &[SHARED],
        own: &[PRIVATE, Each("/private-{t}/file-{t}-{n}")],
        steps: &[Unlink("/private-{t}/file-{t}-{n}")],
        back: &[Open("/private-{t}/file-{t}-{n}", NEW), Close],
        left: &[NONE_PRIVATE, NONE_SHARED],
        ..EMPTY
    },
    Script {
        name: "MWUM",
        about: "unlink an empty file in the shared directory",
        tree: &[SHARED],
        own: &[Each("/shared/file-{t}-{n}")],
        steps: &[Unlink("/shared/file-{t}-{n}")],
        back: &[Open("/shared/file-{t}-{n}", NEW), Close],
        left: &[NONE_SHARED],
        ..EMPTY
    },
    Script {
        name: "MWRM",
        about: "rename a file from a private directory into the shared one",
        tree: &[SHARED],
        own: &[PRIVATE, Each("/private-{t}/file-{t}-{n}")],
        steps: &[Rename("/private-{t}/file-{t}-{n}", "/shared/file-{t}-{n}")],
        back: &[Rename("/shared/file-{t}-{n}", "/private-{t}/file-{t}-{n}")],
        left: &[NONE_PRIVATE, IN_SHARED],
        ..EMPTY
    },
];

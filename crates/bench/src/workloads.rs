//! The workloads that repeat one operation, as tables.

use crate::script::At::{Begin, Cycle, Down, Random, Region};
use crate::script::Make::{Deep, Dir, Each, File, Files, Hole, Long, Regions, Tree};
use crate::script::Step::{
    Append, Chdir, Close, List, Lock, Missing, Open, Read, Refused, Rename, Stat, StatAll,
    StatRandom, Sync, Truncate, Unlink, Write,
};
use crate::script::{BYTE, Left, Make, NEW, Script, Step, script};
use libc::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

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
    script(
        "open/close",
        BENCH,
        &[Open("/bench/file-{t}", O_RDONLY), Close],
    ),
    script("stat", BENCH, &[Stat("/bench/file-{t}")]),
    script("stat, one file", BENCH, &[Stat("/bench/file-0")]),
    script("stat, missing", BENCH, &[Missing("/bench/none-{t}")]),
    script(
        "create/unlink",
        BENCH,
        &[Open("/bench/new-{t}", NEW), Close, Unlink("/bench/new-{t}")],
    ),
    script(
        "readdir 10,000",
        BENCH_LIST,
        &[List("/bench/many", |_| 10_000)],
    )
    .stride(1),
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

const fn basic_data(name: &'static str, steps: &'static [Step], stride: u64) -> Script {
    script(name, BENCH_DATA, steps)
        .begin(BENCH_OPEN)
        .stride(stride)
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
        script("stat, 5 components", FOUR, &[Stat(four!("/file-{t}"))]).left(A_FILE_A_TASK),
        6.0,
    ),
    (
        script(
            "open+close, 5 components",
            FOUR,
            &[Open(four!("/file-{t}"), O_RDONLY), Close],
        )
        .left(A_FILE_A_TASK),
        6.0,
    ),
    (
        script(
            "create+close+unlink, 5 components",
            FOUR_DIRS,
            &[
                Open(four!("/file-{t}"), NEW),
                Close,
                Unlink(four!("/file-{t}")),
            ],
        )
        .left(&[Left::Entries(four!(""), |_, _| 0)]),
        4.0,
    ),
    (
        script(
            "pread 4 KiB",
            FOUR_DATA,
            &[Read(0, Cycle(MIB / PAGE), PAGE, BYTE)],
        )
        .begin(&[Open(four!("/file-{t}"), O_RDONLY)])
        .left(A_FILE_A_TASK),
        3.0,
    ),
];

/// The workloads of `file-ops`, in the order of the columns, with the short names of the seed.
pub static FILE_OPS: [(Script, &str); 4] = [
    (
        script("open/close, same cwd", &[Dir("/shared")], OPEN_CLOSE)
            .begin(&[Chdir("/shared"), Open("silly-{t}", MAKE), Close])
            .left(&[Left::Entries("/shared", |tasks, _| tasks)]),
        "oc same",
    ),
    (
        script("open/close, different cwd", &[Dir("/dir-{t}")], OPEN_CLOSE)
            .begin(&[Chdir("/dir-{t}"), Open("silly-{t}", MAKE), Close])
            .left(&[Left::Entries("/dir-{t}", |_, _| 1)]),
        "oc diff",
    ),
    (
        script("creat/unlink, same cwd", &[Dir("/shared")], CREATE_UNLINK)
            .begin(&[Chdir("/shared")])
            .left(&[Left::Entries("/shared", |_, _| 0)]),
        "cu same",
    ),
    (
        script(
            "creat/unlink, different cwd",
            &[Dir("/dir-{t}")],
            CREATE_UNLINK,
        )
        .begin(&[Chdir("/dir-{t}")])
        .left(&[Left::Entries("/dir-{t}", |_, _| 0)]),
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
        script(
            "open/close, one file",
            &[File("/one", 0)],
            &[Open("/one", O_RDONLY), Close],
        )
        .left(&[Left::Entries("/", |_, _| 1)]),
        "one-file",
    ),
    (
        script("stat, one path", &[File("/one", 0)], &[Stat("/one")])
            .left(&[Left::Entries("/", |_, _| 1)]),
        "one-path",
    ),
    (
        script(
            "stat, depth 8, common directories",
            &[Deep(seven!("/file-{t}"))],
            &[Stat(seven!("/file-{t}"))],
        )
        .left(&[Left::Entries(seven!(""), |tasks, _| tasks)]),
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
    script(name, TASK, steps)
        .begin(TASK_OPEN)
        .left(&[THREE, Left::Content("/task-{t}/null", ODD, 0)])
}

/// The workloads of `thread_perf`, each with its number of repetitions.
pub static THREAD_PERF: [(Script, usize); 6] = [
    // What the original does with `/dev/zero` and `/dev/null`, which only a kernel has.
    (
        of_task("readwrite", &[Read(0, Begin, ODD, 0), Write(1, Begin, ODD)])
            .left(&[THREE, Left::Content("/task-{t}/null", ODD, BYTE)]),
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
pub static SOCKET: Script = script(
    "setup",
    &[Dir("/task-{t}")],
    &[
        Open("/task-{t}/anonymous", NEW),
        Unlink("/task-{t}/anonymous"),
    ],
);

/// The phases of `tiobench`, a block at a time.
pub static TIOBENCH: [Script; 4] = [
    tio("write", &[Write(0, Cycle(256), PAGE)]),
    tio("random write", &[Write(0, Random(256), PAGE)]),
    tio("read", &[Read(0, Cycle(256), PAGE, BYTE)]),
    tio("random read", &[Read(0, Random(256), PAGE, BYTE)]),
];

const fn tio(name: &'static str, steps: &'static [Step]) -> Script {
    let tree = &[File("/tiotest-{t}", MIB as u64)];
    script(name, tree, steps).begin(&[Open("/tiotest-{t}", O_RDWR)])
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
    script("DWOL", ONE_PAGE, &[Write(0, Begin, PAGE)])
        .about("overwrite a page of a private file")
        .begin(OPEN_FILE),
    script("DWOM", OF_A_REGION, &[Write(0, Region(REGION), PAGE)])
        .about("overwrite a page of a private region of the shared file")
        .begin(OPEN_SHARED),
    script(
        "DWSL",
        &[PRIVATE, File("/private-{t}/file", PAGE as u64)],
        &[Write(0, Begin, PAGE), Sync(0)],
    )
    .about("overwrite a page of a private file and fsync it")
    .begin(&[Open("/private-{t}/file", O_RDWR)]),
    script("DRBL", ONE_PAGE, &[Read(0, Begin, PAGE, BYTE)])
        .about("read a page of a private file")
        .begin(OPEN_FILE),
    script("DRBM", OF_A_REGION, &[Read(0, Region(REGION), PAGE, BYTE)])
        .about("read a page of a private region of the shared file")
        .begin(OPEN_SHARED),
    script(
        "DRBH",
        &[File("/shared-file", PAGE as u64)],
        &[Read(0, Begin, PAGE, BYTE)],
    )
    .about("read the same page of the shared file")
    .begin(OPEN_SHARED),
    script("MRPL", &[Deep("/{t}/0/0/0/0")], &[Stat("/{t}/0/0/0/0")])
        .about("stat a private file five levels deep"),
    mrpm(&[Tree(8, 5)], &[StatAll(8, 5)], &[StatRandom(8, 5)]),
    script("MRPH", &[Deep("/0/0/0/0/0")], &[Stat("/0/0/0/0/0")])
        .about("stat the same file five levels deep"),
    script(
        "MRDL",
        &[PRIVATE, Files("/private-{t}/file-{n}", 256)],
        &[List("/private-{t}", |_| 256)],
    )
    .about("list a private directory of 256 files")
    .stride(1),
    script(
        "MRDM",
        &[SHARED, Files("/shared/file-{n}", 256)],
        &[List("/shared", |_| 256)],
    )
    .about("list the shared directory of 256 files")
    .stride(1),
    script(
        "MWRL",
        &[PRIVATE, File("/private-{t}/name-0", 0)],
        &[Rename("/private-{t}/name-{n}", "/private-{t}/name-{m}")],
    )
    .about("rename a file in a private directory to a new name")
    .left(&[
        Left::There("/private-{t}/name-{n}"),
        Left::Entries("/private-{t}", |_, _| 1),
    ]),
];

pub static MRPM_QUICK: Script = mrpm(&[Tree(4, 5)], &[StatAll(4, 5)], &[StatRandom(4, 5)]);

const fn mrpm(tree: &'static [Make], begin: &'static [Step], steps: &'static [Step]) -> Script {
    let about = "stat random files of a shared tree five levels deep";
    script("MRPM", tree, steps).about(about).begin(begin)
}

const IN_SHARED: Left = Left::Entries("/shared", |tasks, times| tasks * times);
const NONE_SHARED: Left = Left::Entries("/shared", |_, _| 0);
const NONE_PRIVATE: Left = Left::Entries("/private-{t}", |_, _| 0);

/// The seven FxMark workloads that use up the files they work on.
pub static FXMARK_USED_UP: [Script; 7] = [
    script("DWAL", &[SHARED], &[Append(0, PAGE)])
        .about("append a page to a private file")
        .own(&[File("/file-{t}", 0)])
        .begin(&[Open("/file-{t}", O_WRONLY | O_APPEND)])
        .back(&[Truncate(0, Begin, PAGE)])
        .left(&[Left::Size("/file-{t}", |times| times * PAGE), NONE_SHARED]),
    script("DWTL", &[SHARED], &[Truncate(0, Down, PAGE)])
        .about("truncate a private file by a page")
        .own(&[Long("/file-{t}", PAGE as u64)])
        .begin(OPEN_FILE)
        .back(&[Write(0, Cycle(usize::MAX), PAGE)])
        .left(&[Left::Size("/file-{t}", |_| 0), NONE_SHARED]),
    script(
        "MWCL",
        &[SHARED],
        &[Open("/private-{t}/file-{t}-{n}", NEW), Close],
    )
    .about("create an empty file in a private directory")
    .own(&[PRIVATE])
    .back(&[Unlink("/private-{t}/file-{t}-{n}")])
    .left(&[Left::Entries("/private-{t}", |_, times| times), NONE_SHARED]),
    script(
        "MWCM",
        &[SHARED],
        &[
            Open("/shared/file-{t}-{n}", NEW),
            Write(0, Begin, PAGE),
            Close,
        ],
    )
    .about("create a file of a page in the shared directory")
    .back(&[Unlink("/shared/file-{t}-{n}")])
    .left(&[IN_SHARED, Left::Size("/shared/file-{t}-0", |_| PAGE)]),
    script("MWUL", &[SHARED], &[Unlink("/private-{t}/file-{t}-{n}")])
        .about("unlink an empty file in a private directory")
        .own(&[PRIVATE, Each("/private-{t}/file-{t}-{n}")])
        .back(&[Open("/private-{t}/file-{t}-{n}", NEW), Close])
        .left(&[NONE_PRIVATE, NONE_SHARED]),
    script("MWUM", &[SHARED], &[Unlink("/shared/file-{t}-{n}")])
        .about("unlink an empty file in the shared directory")
        .own(&[Each("/shared/file-{t}-{n}")])
        .back(&[Open("/shared/file-{t}-{n}", NEW), Close])
        .left(&[NONE_SHARED]),
    script(
        "MWRM",
        &[SHARED],
        &[Rename("/private-{t}/file-{t}-{n}", "/shared/file-{t}-{n}")],
    )
    .about("rename a file from a private directory into the shared one")
    .own(&[PRIVATE, Each("/private-{t}/file-{t}-{n}")])
    .back(&[Rename("/shared/file-{t}-{n}", "/private-{t}/file-{t}-{n}")])
    .left(&[NONE_PRIVATE, IN_SHARED]),
];

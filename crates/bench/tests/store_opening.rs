//! What opening a volume reads and allocates does not grow with the number of its files: counted on
//! the thread that opens, after a close and after an end without a word.

use hearth::{Credentials, Volume};
use hearth_bench::allocations::{Counting, of_this_thread};
use hearth_testing::place::Place;
use std::path::Path;

/// The allocator of the program `hearth`, counting.
#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

const FEW: usize = 2_000;
const MANY: usize = 200_000;
/// Files of a directory.
const EACH: usize = 1_000;
/// Files that are made last, and are only in the log when the volume ends without a word.
const LAST: usize = 100;
/// What an opening with many files may read beyond one with few: indexes of the upper levels of
/// tables, which have a bound of their own.
const BYTES: u64 = 4 << 20;
const ALLOCATIONS: u64 = 10_000;

/// Bytes that this thread has read so far.
fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").expect("counts of the thread");
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok()).expect("a number")
}

/// Opens the volume; the bytes that were read for that, and the allocations that were made.
fn opened(directory: &Path) -> (Volume, [u64; 2]) {
    let before = [bytes_read(), of_this_thread()];
    let source = format!(
        "store:{}?create,memory=64M,commit=3600",
        directory.display()
    );
    let volume = hearth::open(&source).expect("a volume");
    let after = [bytes_read(), of_this_thread()];
    (volume, [after[0] - before[0], after[1] - before[1]])
}

fn make(volume: &Volume, files: std::ops::Range<usize>) {
    let process = volume.process(Credentials::root());
    for file in files {
        if file % EACH == 0 {
            let directory = format!("/{}", file / EACH);
            process.mkdir(&directory, 0o755).expect("a directory");
        }
        let name = format!("/{}/file-{file}", file / EACH);
        let fd = process.open(&name, libc::O_CREAT | libc::O_WRONLY, 0o644);
        process.close(fd.expect("a file")).expect("it is open");
    }
    volume.sync().expect("there is room");
}

/// What opening costs with so many files: after a close, and after an end without a word.
fn costs(files: usize) -> [[u64; 2]; 2] {
    let place = Place::new("opening").expect("a directory");
    let directory = place.path().join("volume");
    let (volume, _) = opened(&directory);
    make(&volume, 0..files);
    volume.close().expect("it closes");
    drop(volume);
    let (volume, clean) = opened(&directory);
    make(&volume, files..files + LAST);
    volume.abandon();
    drop(volume);
    let (volume, killed) = opened(&directory);
    let process = volume.process(Credentials::root());
    for file in [0, files / 2, files - 1, files + LAST - 1] {
        let name = format!("/{}/file-{file}", file / EACH);
        process.stat(&name).expect("it was kept");
    }
    [clean, killed]
}

#[test]
fn opening_costs_the_same_with_a_hundred_times_the_files() {
    let (few, many) = (costs(FEW), costs(MANY));
    for (which, (few, many)) in ["a close", "an end without a word"]
        .iter()
        .zip(few.iter().zip(&many))
    {
        println!("after {which}: {few:?} with {FEW} files, {many:?} with {MANY}");
        let [bytes, allocations] = [0, 1].map(|what| many[what].saturating_sub(few[what]));
        assert!(bytes <= BYTES, "after {which}: {bytes} bytes more are read");
        assert!(
            allocations <= ALLOCATIONS,
            "after {which}: {allocations} allocations more are made"
        );
    }
}

//! Access times on a real mount: what reaches the daemon moves them as the mode says, what the
//! kernel's page cache answers does not.

use crate::harness;

use harness::{Mounted, Transport};
use rustix::fs::{Advice, Timespec, Timestamps, fadvise, futimens};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

harness::on_both_transports!(
    each_mode_moves_the_access_time_as_it_says,
    what_the_page_cache_answers_moves_no_access_time,
);

/// 1 January 2000 and the day after.
const OLD: [i64; 2] = [946_684_800, 946_771_200];

/// A file that was read and changed long ago, and is in no cache.
fn old_file(mounted: &Mounted) -> File {
    let path = mounted.at("f");
    std::fs::write(&path, b"text").unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    let [last_access, last_modification] = OLD.map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
    let times = Timestamps {
        last_access,
        last_modification,
    };
    futimens(&file, &times).unwrap();
    drop_cache(&file);
    file
}

fn drop_cache(file: &File) {
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}

/// Whether a read moves the access time.
fn read_moves(file: &File) -> bool {
    let atime = || {
        let stat = file.metadata().unwrap();
        (stat.atime(), stat.atime_nsec())
    };
    let before = atime();
    // The clock of the volume has ticks of some milliseconds.
    std::thread::sleep(std::time::Duration::from_millis(20));
    file.read_exact_at(&mut [0; 4], 0).unwrap();
    atime() != before
}

fn each_mode_moves_the_access_time_as_it_says(transport: Transport) {
    for (mode, moves) in [
        ("relatime", [true, false]),
        ("strictatime", [true, true]),
        ("noatime", [false, false]),
    ] {
        for cache in ["", ",direct_io"] {
            let mounted = Mounted::new(transport, &format!("{mode}{cache}"));
            let file = old_file(&mounted);
            let first = read_moves(&file);
            drop_cache(&file);
            assert_eq!([first, read_moves(&file)], moves, "{mode}{cache}");
        }
    }
}

fn what_the_page_cache_answers_moves_no_access_time(transport: Transport) {
    let mounted = Mounted::new(transport, "strictatime");
    let file = old_file(&mounted);
    assert!(read_moves(&file));
    assert!(!read_moves(&file), "it is in the cache now");
    drop_cache(&file);
    assert!(read_moves(&file));
}

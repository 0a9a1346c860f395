//! Times of files whose writes are passed on, which the kernel keeps as well.

use super::harness::{self, Mounted, Transport, until};
use super::{Journal, PAGE, file_of, limit, open, page};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, openat, utimensat};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

harness::on_both_transports!(
    a_write_that_is_passed_on_moves_the_time_of_the_file,
    a_new_name_does_not_take_the_time_of_a_write_back,
    a_file_that_is_held_behind_its_close_gets_its_time_afterwards,
    a_time_that_a_program_sets_after_a_write_is_kept,
);

/// 2001-09-09, in seconds.
const LONG_AGO: i64 = 1_000_000_000;

fn modified(mounted: &Mounted, name: &str) -> SystemTime {
    let about = std::fs::metadata(mounted.at(name)).expect("a file that is there");
    about.modified().expect("a time")
}

/// Sets the time of modification alone.
fn set_modified(mounted: &Mounted, name: &str, sec: i64) {
    let omitted = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    };
    let times = Timestamps {
        last_access: omitted,
        last_modification: Timespec {
            tv_sec: sec,
            tv_nsec: 0,
        },
    };
    utimensat(CWD, mounted.at(name), &times, AtFlags::empty()).expect("the owner may");
}

fn at(sec: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(sec as u64)
}

fn a_write_that_is_passed_on_moves_the_time_of_the_file(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    limit(&mounted, "user:1000", 10);
    drop(file_of(&mounted, "f", 1000));
    let made = modified(&mounted, "f");
    std::thread::sleep(Duration::from_millis(50));
    let file = open(&mounted, "f");
    file.write_all_at(&page(1), 0).expect("room");
    drop(file);
    // The kernel keeps the time itself until it is made to drop it, behind the close.
    until("the time of the write", || {
        modified(&mounted, "f") > made + Duration::from_millis(40)
    });
    let text = std::fs::read(mounted.at("f")).expect("a page");
    assert!(text == page(1) && Journal::is_empty_of(&text[PAGE as usize..]));
}

/// Once, with the change of a name the kernel sent the time that it believed, of before the write,
/// and that was the file's from then on: a log that was rotated was as old as its first line.
fn a_new_name_does_not_take_the_time_of_a_write_back(transport: Transport) {
    let mounted = Mounted::new(transport, "size=64M");
    type Act = fn(&Mounted);
    let acts: [(&str, Act); 3] = [
        ("rename", |mounted| {
            std::fs::rename(mounted.at("f"), mounted.at("g")).expect("a new name");
        }),
        ("link", |mounted| {
            std::fs::hard_link(mounted.at("f"), mounted.at("g")).expect("a new name");
        }),
        ("attribute", |mounted| {
            mounted.shell("setfattr -n user.name -v value f; ln f g");
        }),
    ];
    for (act, make) in acts {
        for (closes_first, cuts) in [(false, false), (true, false), (false, true), (true, true)] {
            std::fs::write(mounted.at("f"), "before").expect("a new file");
            set_modified(&mounted, "f", LONG_AGO);
            // The kernel moves the time itself when it cuts, and by another clock.
            let mut options = File::options();
            let file = options.write(true).truncate(cuts).open(mounted.at("f"));
            let file = file.expect("a file that is there");
            let opened = SystemTime::now();
            std::thread::sleep(Duration::from_millis(50));
            file.write_all_at(b"after", 0).expect("room");
            let mut file = Some(file);
            if closes_first {
                drop(file.take());
            }
            make(&mounted);
            drop(file);
            until(
                &format!("the time of the write, {act}, {closes_first}, {cuts}"),
                || modified(&mounted, "g") > opened + Duration::from_millis(40),
            );
            mounted.shell("rm -f f g");
        }
    }
}

/// The kernel was asked four times in 131 ms to drop the inode, and then never again: on a busy
/// machine, or beside whoever holds the file without opening it, it believed its own time for ever.
fn a_file_that_is_held_behind_its_close_gets_its_time_afterwards(transport: Transport) {
    let mounted = Mounted::new(transport, "size=64M");
    // At once: then it has the time by which it was made, which a program has changed since.
    for pause in [0, 50] {
        std::fs::write(mounted.at("f"), "before").expect("a new file");
        set_modified(&mounted, "f", LONG_AGO);
        std::thread::sleep(Duration::from_millis(pause));
        let file = open(&mounted, "f");
        file.write_all_at(b"after", 0).expect("room");
        let held = openat(CWD, mounted.at("f"), OFlags::PATH, Mode::empty());
        drop(file);
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(modified(&mounted, "f"), at(LONG_AGO), "the kernel has it");
        // Until it was asked again, four times: attributes are valid for a minute otherwise.
        std::thread::sleep(Duration::from_millis(200));
        drop(held.expect("it is there"));
        until(&format!("the time of the write, {pause}"), || {
            modified(&mounted, "f") > at(LONG_AGO)
        });
        std::fs::remove_file(mounted.at("f")).expect("a name");
    }
}

fn a_time_that_a_program_sets_after_a_write_is_kept(transport: Transport) {
    let mounted = Mounted::new(transport, "size=64M");
    std::fs::write(mounted.at("f"), "before").expect("a new file");
    let file = open(&mounted, "f");
    file.write_all_at(b"after", 0).expect("room");
    set_modified(&mounted, "f", LONG_AGO);
    drop(file);
    assert_eq!(modified(&mounted, "f"), at(LONG_AGO));
    std::fs::rename(mounted.at("f"), mounted.at("g")).expect("a new name");
    // Nor when the kernel has dropped what it believed. To ask looks for the control file.
    let asked = || mounted.stat("hearth_op_seconds_count{op=\"lookup\"}");
    let first = asked();
    let to_ask = asked() - first;
    until("the kernel asks anew", || {
        std::fs::write("/proc/sys/vm/drop_caches", "2").expect("root may");
        let before = asked();
        let told = modified(&mounted, "g");
        assert_eq!(told, at(LONG_AGO));
        asked() - before > to_ask
    });
}

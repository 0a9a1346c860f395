//! Syncs that lie, and what they cost; the end of a mount.

use crate::case::{Case, Failure};
use crate::harness::{Random, hearth, shell, succeed, until};
use hearth_testing::aio::Iocb;
use hearth_testing::rounds::Service;
use rustix::fs::{FallocateFlags, copy_file_range, fallocate};
use rustix::io::{ReadWriteFlags, pwritev2};
use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, chown};
use std::process::Command;

/// SR21: a commit of nothing was an error of the engine, and fatal.
#[test]
fn sr21_a_sync_of_nothing_is_no_error() {
    let mut c = Case::new();
    c.put("f", "x");
    let file = File::open(c.at("f")).unwrap();
    for _ in 0..2 {
        file.sync_all().unwrap();
        file.sync_data().unwrap();
    }
    c.put("g", "");
    c.unlink("g");
    c.link("f", "g");
    c.unlink("g");
    c.sync(".");
    let file = File::options().write(true).open(c.at("f")).unwrap();
    assert_eq!(file.write_at(b"", 0).unwrap(), 0);
    file.sync_all().unwrap();
    drop(file);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| c.sync("."));
        }
    });
    c.cut();
    assert_eq!(c.names("."), ["f"]);
}

/// SR65: dirty data counted as a hole, and copies were zeros.
#[test]
fn sr65_a_copy_of_a_file_that_is_not_flushed_yet_holds_its_bytes() {
    let c = Case::new();
    let rounds: u64 = std::env::var("HEARTH_ROUNDS").map_or(12, |n| n.parse().unwrap());
    std::thread::scope(|scope| {
        for task in 0..4 {
            let c = &c;
            scope.spawn(move || {
                for round in 0..rounds {
                    let bytes = Random(task << 32 | round).bytes(1 << 20);
                    let name = format!("f{task}");
                    c.put(&name, &bytes);
                    let script = format!(
                        "cp --sparse=auto {name} a{task}; cp --reflink=auto {name} b{task}
                         tar -cSf t{task} {name}; mkdir -p x{task}; tar -xSf t{task} -C x{task}"
                    );
                    succeed(&mut shell(c.root(), &script));
                    for copy in [
                        format!("a{task}"),
                        format!("b{task}"),
                        format!("x{task}/{name}"),
                    ] {
                        assert!(c.read(&copy) == bytes, "{copy}, round {round}");
                    }
                }
            });
        }
    });
}

/// SR69: seven syncs for one small file.
#[test]
fn sr69_a_small_file_costs_one_sync_and_those_who_wait_together_share_it() {
    let c = Case::new();
    let cost = |tasks: usize, files: usize| {
        let before = c.counts();
        std::thread::scope(|scope| {
            for task in 0..tasks {
                let c = &c;
                scope.spawn(move || {
                    for n in 0..files {
                        let path = c.at(&format!("t{tasks}-{task}-{n}"));
                        let mut file = File::create(path).unwrap();
                        file.write_all(&[7; 4096]).unwrap();
                        file.sync_all().unwrap();
                    }
                });
            }
        });
        let after = c.counts();
        let syncs = after.syncs - before.syncs + after.directory_syncs - before.directory_syncs;
        syncs as f64 / (tasks * files) as f64
    };
    let (one, many) = (cost(1, 1_000), cost(16, 63));
    // A checkpoint and the witness fall into it now and then.
    assert!(one <= 1.05, "{one} syncs for each file");
    assert!(many <= 0.5, "{many} syncs for each file of 16 tasks");
}

/// Once, a direct write was committed as it had asked, and again by the FSYNC with which the kernel
/// follows it: in between the kernel had sent its own time of the write.
#[test]
fn a_durable_write_costs_one_sync_whichever_way_it_goes() {
    let c = Case::new();
    let block = Aligned([7; 4096]);
    let (direct, dsync, sync) = (libc::O_DIRECT, libc::O_DSYNC, libc::O_SYNC);
    for (opened, asked) in [
        (0, ReadWriteFlags::DSYNC),
        (0, ReadWriteFlags::SYNC),
        (dsync, ReadWriteFlags::empty()),
        (sync, ReadWriteFlags::empty()),
        (direct, ReadWriteFlags::DSYNC),
        (direct, ReadWriteFlags::SYNC),
        (direct | dsync, ReadWriteFlags::empty()),
        (direct | sync, ReadWriteFlags::empty()),
    ] {
        c.put("f", vec![0; 1 << 20]);
        c.sync("f");
        let mut options = File::options();
        let options = options.read(true).write(true).custom_flags(opened);
        let file = options.open(c.at("f")).unwrap();
        let before = c.counts();
        for n in 0..1_000 {
            let parts = [IoSlice::new(&block.0)];
            let written = pwritev2(&file, &parts, n % 256 * 4096, asked).unwrap();
            assert_eq!(written, block.0.len());
        }
        let after = c.counts();
        let syncs = after.syncs - before.syncs + after.directory_syncs - before.directory_syncs;
        // Checkpoints and the witness of each second fall into it; there were 1,575 for contents
        // alone and 1,986 for all.
        assert!(syncs <= 1_200, "{opened:o}, {asked:?}: {syncs} syncs");
    }
}

/// Once, the sync of a program was taken for the one with which the kernel follows a direct write,
/// which it does not where it caches nothing: the sync did nothing, and a name made in between was
/// lost.
#[test]
fn a_sync_behind_a_durable_direct_write_keeps_the_names_made_in_between() {
    for options in [",commit=3600", ",commit=3600,direct_io"] {
        let mut c = Case::plain(options);
        c.put("f", [0; 4096]);
        c.sync("f");
        let mut open = File::options();
        let open = open
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_DSYNC);
        let file = open.open(c.at("f")).unwrap();
        let block = Aligned([7; 4096]);
        for (name, data_only) in [("all", false), ("data", true)] {
            assert_eq!(file.write_at(&block.0, 0).unwrap(), block.0.len());
            c.put(name, "");
            match data_only {
                true => file.sync_data().unwrap(),
                false => file.sync_all().unwrap(),
            }
        }
        drop(file);
        c.fail(Failure::Kill);
        let there = ["all", "data"].map(|name| c.exists(name));
        assert_eq!(there, [true; 2], "{options}");
    }
}

/// What a direct write takes.
#[repr(align(4096))]
struct Aligned([u8; 4096]);

/// Once, the sync of a program was taken for one of the kernel's, which sends none behind a write
/// that nobody waits for: names made in between, and bytes of other files, were lost.
#[test]
fn a_sync_behind_an_asynchronous_durable_write_keeps_what_was_done_in_between() {
    let mut c = Case::plain(",commit=3600");
    for name in ["f", "g"] {
        c.put(name, [0; 4096]);
        c.sync(name);
    }
    let open = |name: &str, flags: i32| {
        let mut options = File::options();
        options.write(true).custom_flags(flags).open(c.at(name))
    };
    let file = open("f", libc::O_DIRECT | libc::O_DSYNC).unwrap();
    let (block, queue) = (Aligned([7; 4096]), AsyncQueue::new());
    for (name, data_only) in [("all", false), ("data", true)] {
        queue.write(&file, &block);
        c.put(name, "");
        match data_only {
            true => file.sync_data().unwrap(),
            false => file.sync_all().unwrap(),
        }
    }
    queue.write(&file, &block);
    fs::rename(c.at("g"), c.at("h")).unwrap();
    file.sync_data().unwrap();
    drop(file);
    c.fail(Failure::Kill);
    assert_eq!(c.names("."), ["all", "data", "f", "h"]);
    assert!(c.read("f") == block.0);
}

/// A context of the kernel for asynchronous I/O.
struct AsyncQueue(u64);

impl AsyncQueue {
    fn new() -> AsyncQueue {
        let mut context = 0u64;
        // SAFETY: the call fills in a number.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        AsyncQueue(context)
    }

    /// Writes at the beginning of a file, and returns when that is done.
    fn write(&self, file: &File, block: &Aligned) {
        let mut request = Iocb::write(file, block.0.as_ptr(), block.0.len(), 0);
        let mut event = [0i64; 4];
        let pointers = [&raw mut request];
        // SAFETY: the request, what it points to and the event live until it is done.
        let done = unsafe {
            let sent = libc::syscall(libc::SYS_io_submit, self.0, 1, pointers.as_ptr());
            assert_eq!(sent, 1, "{}", std::io::Error::last_os_error());
            let none = std::ptr::null::<libc::timespec>();
            let wait = libc::SYS_io_getevents;
            libc::syscall(wait, self.0, 1, 1, event.as_mut_ptr(), none)
        };
        let written = block.0.len() as i64;
        assert_eq!((done, event[2]), (1, written), "bytes written, or an errno");
    }
}

impl Drop for AsyncQueue {
    fn drop(&mut self) {
        // SAFETY: no request is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// SR75: `umount` came back while the daemon was still writing.
#[test]
fn sr75_when_an_unmount_returns_everything_is_durable() {
    let mut c = Case::new();
    let bytes = Random(1).bytes(64 << 20);
    c.put("big", &bytes);
    for n in 0..500 {
        c.put(&format!("f{n}"), n.to_string());
    }
    let before = c.walk();
    c.fail(Failure::Unmount);
    c.cut();
    assert_eq!(c.walk(), before);
    assert!(c.read("big") == bytes);
}

/// SR75: after the end of a mount the volume is free at once.
#[test]
fn sr75_a_volume_can_be_mounted_again_at_once() {
    let mut c = Case::new();
    for n in 0..20 {
        c.put(&format!("f{n}"), "x");
        c.daemon().stop().unwrap();
        c.daemon().start().unwrap();
    }
    assert_eq!(c.names(".").len(), 20);
}

/// SR75: a daemon that is told to end flushes and unmounts.
#[test]
fn sr75_a_daemon_that_is_told_to_end_keeps_everything() {
    for (word, way) in [("TERM", "kill -s TERM $PID"), ("lazy", "umount -l $MNT")] {
        let mut c = Case::new();
        let bytes = Random(2).bytes(16 << 20);
        c.put("big", &bytes);
        let pid = c.daemon().id().unwrap();
        let mount = c.root().to_owned();
        let mut end = Command::new("bash");
        let end = end.args(["-euc", way]).env("PID", pid.to_string());
        assert!(end.env("MNT", &mount).status().unwrap().success());
        let stat = format!("/proc/{pid}/stat");
        until("the daemon ends", || {
            let state = fs::read_to_string(&stat).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
        c.cut();
        assert!(c.read("big") == bytes, "{word}");
    }
}

/// The least of all: files that were synced, and a daemon that was killed.
#[test]
fn what_was_written_and_synced_is_there_after_a_kill() {
    let mut c = Case::new();
    for n in 0..100 {
        c.put(&format!("f{n}"), n.to_string());
    }
    for n in 0..100 {
        c.sync(&format!("f{n}"));
    }
    c.fail(Failure::Kill);
    for n in 0..100 {
        assert_eq!(c.read(&format!("f{n}")), n.to_string().as_bytes());
    }
}

/// Once, the mount did not look at what the write asked for, and the kernel leaves it to the mount
/// where it caches nothing, as of files that a quota may limit.
#[test]
fn what_a_write_asks_to_be_durable_is_there_after_a_kill() {
    let bytes = Random(3).bytes(20_000);
    for options in [",commit=3600", ",commit=3600,direct_io"] {
        let mut c = Case::plain(options);
        let limit = ["quota", "set", "user:4001", "--hard", "100M"];
        succeed(hearth().args(limit).arg(c.root()));
        for name in ["data", "all", "source", "copy", "allocated"] {
            c.put(name, "");
            chown(c.at(name), Some(4001), Some(4001)).unwrap();
        }
        c.put("source", &bytes);
        c.sync("source");
        let open = |name: &str, flags: i32| {
            let mut options = File::options();
            let options = options.read(true).write(true).custom_flags(flags);
            options.open(c.at(name)).unwrap()
        };
        let flags = [ReadWriteFlags::DSYNC, ReadWriteFlags::SYNC];
        for (name, flags) in ["data", "all"].into_iter().zip(flags) {
            let parts = [IoSlice::new(&bytes)];
            let written = pwritev2(open(name, 0), &parts, 0, flags).unwrap();
            assert_eq!(written, bytes.len());
        }
        let (source, copy) = (open("source", 0), open("copy", libc::O_SYNC));
        let copied = copy_file_range(&source, None, &copy, None, bytes.len()).unwrap();
        assert_eq!(copied, bytes.len());
        let allocated = open("allocated", libc::O_DSYNC);
        fallocate(&allocated, FallocateFlags::empty(), 0, 20_000).unwrap();
        drop((source, copy, allocated));
        c.fail(Failure::Kill);
        let read = |name: &str| c.read(name);
        let there = ["data", "all", "copy"].map(|name| read(name) == bytes);
        let allocated = read("allocated") == [0; 20_000];
        assert_eq!((there, allocated), ([true; 3], true), "{options}");
    }
}

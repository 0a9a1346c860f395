//! `hearth umount`: what it waits for, and what it does not hide.

use crate::harness;

use crate::place::Place;
use harness::{mounts_below, pids_naming, program, refused, said, succeed};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A mount of another filesystem, taken away when this is dropped.
struct Other(PathBuf);

impl Other {
    fn mounted(words: &[&str], at: PathBuf) -> Other {
        succeed(program("mount").args(words).arg(&at));
        Other(at)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = said(program("umount").arg("-l").arg(&self.0));
    }
}

/// Regression: the daemon was waited for only where nothing else was mounted below.
#[test]
fn the_daemon_has_ended_also_where_something_else_was_mounted_below() {
    let place = Place::with_volume("");
    let at = place.at("m");
    let own = at.to_string_lossy().into_owned();
    for below in [&["-t", "tmpfs", "hearth-suite"][..], &["--bind", &own]] {
        let _below = Other::mounted(below, at.clone());
        place.mount("store:v", "");
        let bytes = vec![7; 16 << 20];
        std::fs::write(at.join("big"), &bytes).unwrap();
        place.done("umount m");
        assert_eq!(pids_naming(&at), [] as [u32; 0], "the daemon has ended");
        let info = place.done("info v");
        assert!(info.out.contains("clean"), "{info:?}");
        assert_eq!(mounts_below(&at).len(), 1, "what was below is left");
    }
}

/// What is mounted twice at one place is not waited for when one of both goes.
#[test]
fn a_mount_that_lies_on_itself_is_unmounted_once() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    let at = place.at("m");
    let own = at.to_string_lossy().into_owned();
    succeed(program("mount").args(["--bind", &own, &own]));
    place.done("umount m");
    assert_eq!(mounts_below(&at).len(), 1);
    std::fs::write(at.join("f"), "x").unwrap();
    place.unmount();
}

/// Regression: only the log of the daemon knew that the last changes were not durable.
#[test]
fn an_unmount_whose_last_changes_are_not_durable_fails_and_leaves_the_mount() {
    let place = Place::new();
    place.directory("disk");
    let _disk = Other::mounted(
        &["-t", "tmpfs", "-o", "size=300m", "disk"],
        place.at("disk"),
    );
    place.done("mkfs store:disk/v");
    place.mount("store:disk/v", "commit=3600");
    let (at, filler) = (place.at("m"), place.at("disk/filler"));
    std::fs::write(at.join("before"), "x").unwrap();
    place.done("sync m");
    // Others take the room.
    let full = std::fs::write(&filler, vec![1; 300 << 20]);
    assert_eq!(full.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    let _ = std::fs::write(at.join("big"), vec![7; 64 << 20]);
    let failed = place.say("umount m");
    let words = [
        "m: stays mounted",
        "not durable",
        "make room",
        "umount --lazy",
    ];
    refused("umount", &failed, 1, &words);
    assert_eq!(mounts_below(&at).len(), 1);
    assert_eq!(std::fs::read(at.join("before")).unwrap(), b"x");
    // With room all is well.
    std::fs::remove_file(&filler).unwrap();
    std::fs::write(at.join("after"), "y").unwrap();
    place.unmount();
    place.mount("store:disk/v", "");
    assert_eq!(std::fs::read(at.join("after")).unwrap(), b"y");
    place.unmount();
}

/// Not by `kill(1)`: a child closes its copies of all descriptors, and the kernel writes back what
/// was written to a file whenever one is closed.
fn told_to_end(daemon: u32) {
    let daemon = Pid::from_raw(daemon.try_into().unwrap()).unwrap();
    kill_process(daemon, Signal::TERM).unwrap();
}

/// Regression: what programs had written to files that they kept open was thrown away, and nothing
/// said so: the kernel had acknowledged it, and had not written it back.
#[test]
fn what_was_written_to_an_open_file_survives_the_end_of_the_daemon() {
    let place = Place::with_volume("");
    for options in ["", "no_writeback"] {
        place.mount("store:v", options);
        let bytes = vec![7; 6 << 20];
        let mut file = std::fs::File::create(place.at("m/open")).unwrap();
        let made = SystemTime::now();
        std::thread::sleep(Duration::from_millis(100));
        file.write_all(&bytes).unwrap();
        let [daemon] = pids_naming(&place.at("m"))[..] else {
            panic!("one daemon")
        };
        told_to_end(daemon);
        place.until_gone();
        let gone = file.write_all(b"more").unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ENOTCONN), "{options}");
        drop(file);
        place.mount("store:v", "");
        let found = std::fs::read(place.at("m/open")).unwrap();
        assert!(found == bytes, "{options}: {} bytes", found.len());
        let found = std::fs::metadata(place.at("m/open")).unwrap();
        let changed = found.modified().unwrap();
        assert!(changed > made + Duration::from_millis(50), "{options}");
        let log = std::fs::read_to_string(place.at("log")).unwrap();
        assert!(!log.contains("written last"), "{log}");
        place.unmount();
    }
}

/// Regression: with `no_open` the daemon asked the kernel for no pages, since it does not know
/// which files are open. What had been written to them last was gone, and nothing said so.
#[test]
fn what_was_written_without_an_open_that_the_daemon_sees_survives_its_end() {
    let place = Place::with_volume("");
    place.mount("store:v", "no_open");
    // So little that the kernel does not write it back by itself meanwhile.
    let bytes = vec![7; 30_000];
    let mut files = Vec::new();
    for number in 0..3 {
        let mut file = std::fs::File::create(place.at(&format!("m/open{number}"))).unwrap();
        file.write_all(&bytes).unwrap();
        files.push(file);
    }
    // What has no name any more is waited for by nobody.
    std::fs::remove_file(place.at("m/open0")).unwrap();
    let [daemon] = pids_naming(&place.at("m"))[..] else {
        panic!("one daemon")
    };
    told_to_end(daemon);
    place.until_gone();
    drop(files);
    place.mount("store:v", "");
    for number in 1..3 {
        let found = std::fs::read(place.at(&format!("m/open{number}"))).unwrap();
        assert!(found == bytes, "file {number}: {} bytes", found.len());
    }
    let log = std::fs::read_to_string(place.at("log")).unwrap();
    assert!(!log.contains("written last"), "{log}");
    place.unmount();
}

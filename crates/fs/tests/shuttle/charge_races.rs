//! What is charged, recorded and locked while files change owners, are forgotten and end: nothing
//! is left that belongs to nobody.

use hearth::heat::HeatRank;
use hearth::{Credentials, Errno, Process, Volume};
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::thread;

use crate::explore::{explore, task};

const SCHEDULES: usize = 400;
const OWNER: u32 = 7;
const PAGE: usize = 4096;

fn make(process: &Process, path: &str, pages: usize) -> i32 {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR;
    let fd = process.open(path, flags, 0o600).unwrap();
    process.write(fd, &vec![1; pages * PAGE]).unwrap();
    fd
}

#[test]
fn what_is_written_and_cut_while_the_owner_changes_is_the_last_owners() {
    explore(SCHEDULES, &["longer", "shorter"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        let fd = make(&process, "/f", 2);
        let writer = task(&volume, |_, process| {
            let fd = process.open("/f", libc::O_WRONLY, 0).unwrap();
            process.pwrite(fd, &[2; 2 * PAGE], 2 * PAGE as u64).unwrap();
        });
        let cutter = task(&volume, |_, process| process.truncate("/f", PAGE as u64));
        process.chown("/f", Some(OWNER), Some(OWNER)).unwrap();
        process.chown("/f", Some(OWNER + 1), None).unwrap();
        process.chown("/f", Some(OWNER), None).unwrap();
        writer.join().unwrap();
        cutter.join().unwrap().unwrap();
        let check = volume.quota().check().unwrap();
        assert!(check.is_clean(), "{check:?}");
        let attr = process.fstat(fd).unwrap();
        process.unlink("/f").unwrap();
        process.close(fd).unwrap();
        assert!(volume.quota().check().unwrap().is_clean());
        let report = volume.quota().report();
        let of_owner = report
            .iter()
            .find(|row| row.who == hearth::QuotaId::user(OWNER));
        assert!(
            of_owner.is_none_or(|row| row.bytes.used == 0),
            "{of_owner:?}"
        );
        match attr.size as usize / PAGE {
            4 => "longer",
            1 => "shorter",
            pages => panic!("{pages} pages"),
        }
    });
}

/// Records are folded, aged and listed while their files end.
#[test]
fn heat_that_ages_while_it_is_listed_and_its_files_end_leaves_no_record() {
    explore(SCHEDULES, &["some", "none"], || {
        let volume = Volume::builder().hot_track(true).build().unwrap();
        let process = volume.process(Credentials::root());
        let files = ["/a", "/b", "/c"].map(|path| (path, make(&process, path, 1)));
        let ageing = task(&volume, |volume, _| {
            volume.heat().age();
            volume.run_background_once();
        });
        let listing = task(&volume, |volume, _| {
            let heat = volume.heat();
            heat.top_ranges(HeatRank::Accesses, 9, None);
            heat.top_files(HeatRank::Accesses, 9, None).len()
        });
        for (path, fd) in files {
            process.pread(fd, &mut [0; 8], 0).unwrap();
            process.unlink(path).unwrap();
            process.close(fd).unwrap();
        }
        ageing.join().unwrap();
        let listed = listing.join().unwrap();
        volume.run_background_once();
        let gauges = volume.heat().gauges();
        assert_eq!((gauges.files, gauges.ranges), (0, 0));
        if listed > 0 { "some" } else { "none" }
    });
}

/// The description is shared: its lock goes with the last of the two descriptors, and who waits
/// gets it then.
#[test]
fn a_lock_of_a_forked_description_goes_with_the_last_close_and_wakes_who_waits() {
    explore(SCHEDULES, &["done"], || {
        let volume = Volume::memory();
        let process = volume.process(Credentials::root());
        let fd = make(&process, "/f", 1);
        process.flock(fd, libc::LOCK_EX).unwrap();
        let waiter = task(&volume, |_, process| {
            let fd = process.open("/f", libc::O_RDWR, 0).unwrap();
            process.flock(fd, libc::LOCK_EX).unwrap();
            process.close(fd).unwrap();
        });
        let child = process.fork();
        let closer = thread::spawn(move || child.close(fd));
        assert_eq!(process.close(fd), Ok(()));
        assert_eq!(closer.join().unwrap(), Ok(()));
        waiter.join().unwrap();
        "done"
    });
}

/// A table that grows, is copied and has a descriptor replaced at once: no open file is lost, and
/// none is left.
#[test]
fn a_fork_beside_dup2_and_opens_beyond_the_first_block_keeps_no_file() {
    explore(SCHEDULES, &["done"], || {
        let volume = Volume::memory();
        let process = Arc::new(volume.process(Credentials::root()));
        let fd = make(&process, "/f", 1);
        make(&process, "/g", 1);
        let [dup, open] = [Arc::clone(&process), Arc::clone(&process)];
        let dup = thread::spawn(move || {
            assert_eq!(dup.dup2(fd, 70), Ok(70));
            match dup.dup2(fd, 1) {
                Ok(1) | Err(Errno::EBUSY) => {}
                other => panic!("{other:?}"),
            }
        });
        let open = thread::spawn(move || {
            let fd = open.open("/f", libc::O_RDONLY, 0).unwrap();
            let high = open.dupfd(fd, 200, true).unwrap();
            assert_eq!(high, 200);
        });
        let child = process.fork();
        assert!(child.open_fds().contains(&fd));
        for fd in child.open_fds() {
            child.fstat(fd).unwrap();
        }
        dup.join().unwrap();
        open.join().unwrap();
        process.unlink("/f").unwrap();
        process.unlink("/g").unwrap();
        for process in [&child, &*process] {
            for fd in process.open_fds() {
                process.close(fd).unwrap();
            }
        }
        let room = process.statfs("/").unwrap();
        assert_eq!(room.files - room.ffree, 1);
        "done"
    });
}

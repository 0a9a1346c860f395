//! A volume that forgets beside those who look and those who remove.

use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Process, Volume};
use hearth_sync::primitive::{Arc, thread};

use crate::explore::explore;

const SCHEDULES: usize = 600;

struct Ground {
    backend: Arc<TestBackend>,
    volume: Volume,
    process: Arc<Process>,
}

/// A directory with a file, and a backend that has both.
fn ground() -> Ground {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder().backend(backend.clone()).build().unwrap();
    let process = Arc::new(volume.process(Credentials::root()));
    process.mkdir("/d", 0o700).unwrap();
    let flags = libc::O_CREAT | libc::O_RDWR;
    let fd = process.open("/d/f", flags, 0o600).unwrap();
    process.write(fd, b"abc").unwrap();
    process.close(fd).unwrap();
    Ground {
        backend,
        volume,
        process,
    }
}

/// Once, who found the directory without a table and then complete took the name for missing: a
/// load had come between.
#[test]
fn a_name_is_there_while_its_directory_is_loaded_and_forgotten() {
    explore(SCHEDULES, &["done"], || {
        let Ground {
            volume, process, ..
        } = ground();
        volume.reclaim(u64::MAX);
        let other = Arc::clone(&process);
        let loading = thread::spawn(move || {
            assert_eq!(other.read_dir("/d").unwrap().len(), 1);
            volume.reclaim(u64::MAX);
        });
        assert_eq!(process.stat("/d/f").map(|attr| attr.size), Ok(3));
        assert_eq!(process.read_dir("/d").unwrap().len(), 1);
        loading.join().unwrap();
        "done"
    });
}

#[test]
fn a_file_that_is_removed_while_it_is_reclaimed_leaves_nothing() {
    explore(SCHEDULES, &["done"], || {
        let ground = ground();
        let process = Arc::clone(&ground.process);
        let removing = thread::spawn(move || process.unlink("/d/f").unwrap());
        ground.volume.reclaim(u64::MAX);
        removing.join().unwrap();
        ground.volume.reclaim(u64::MAX);
        assert_eq!(ground.process.stat("/d/f").err(), Some(Errno::ENOENT));
        let room = ground.process.statfs("/").unwrap();
        assert_eq!((ground.backend.inodes(), room.files - room.ffree), (2, 2));
        assert!(!ground.volume.awaits_returns());
        "done"
    });
}

/// Either the last close or the reclaim ends it.
#[test]
fn a_file_without_a_name_that_is_closed_while_it_is_reclaimed_leaves_nothing() {
    explore(SCHEDULES, &["done"], || {
        let ground = ground();
        let fd = ground.process.open("/d/f", libc::O_RDWR, 0).unwrap();
        let process = Arc::clone(&ground.process);
        let removing = thread::spawn(move || {
            process.unlink("/d/f").unwrap();
            process.close(fd).unwrap();
        });
        ground.volume.reclaim(u64::MAX);
        removing.join().unwrap();
        ground.volume.reclaim(u64::MAX);
        let room = ground.process.statfs("/").unwrap();
        assert_eq!((ground.backend.inodes(), room.files - room.ffree), (2, 2));
        assert!(!ground.volume.awaits_returns());
        "done"
    });
}

/// A removal that does not end the file may come between the look whether the backend has it and
/// its eviction: then it comes back, and the last name goes beside that.
#[test]
fn a_file_that_loses_its_names_one_by_one_while_it_is_reclaimed_leaves_nothing() {
    explore(SCHEDULES, &["done"], || {
        let ground = ground();
        let names = ["/d/f", "/d/g", "/d/h"];
        for name in &names[1..] {
            ground.process.link(names[0], name).unwrap();
        }
        ground.volume.sync().unwrap();
        let process = Arc::clone(&ground.process);
        let removing = thread::spawn(move || names.map(|name| process.unlink(name).unwrap()));
        ground.volume.reclaim(u64::MAX);
        removing.join().unwrap();
        ground.volume.reclaim(u64::MAX);
        let room = ground.process.statfs("/").unwrap();
        assert_eq!((ground.backend.inodes(), room.files - room.ffree), (2, 2));
        assert!(!ground.volume.awaits_returns());
        "done"
    });
}

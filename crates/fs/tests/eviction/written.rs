//! Files that are in use and written while they are reclaimed.

use super::ends::{Doing, begin, make};
use super::nodes::counted;
use hearth::{Credentials, Process};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: u64 = 4096;

/// Fails unless page `index` of the file is full of `value`.
fn check_page(process: &Process, fd: i32, index: u64, value: u8) {
    let mut page = [0; PAGE as usize];
    let read = process.pread(fd, &mut page, index * PAGE);
    assert_eq!(read, Ok(PAGE as usize), "page {index}");
    assert!(page == [value; PAGE as usize], "page {index}");
}

/// Once, anything of a file that the backend had yet to get kept all of its pages in memory.
#[test]
fn pages_leave_memory_although_more_of_their_file_is_recorded_all_the_time() {
    let (backend, volume, root) = begin();
    make(&root, "/f", 64);
    let before = counted(&volume);
    // Whenever the backend gets contents, more was recorded before those can be evicted.
    let (elsewhere, sizes) = (volume.clone(), Arc::new(AtomicU64::new(64 * PAGE)));
    let grown = Arc::clone(&sizes);
    backend.set(move |doing| {
        if doing == Doing::Write {
            let (volume, size) = (elsewhere.clone(), grown.fetch_add(PAGE, Relaxed) + PAGE);
            let grow = move || {
                let process = volume.process(Credentials::root());
                process.truncate("/f", size).expect("it is there");
            };
            std::thread::spawn(grow).join().expect("it grows");
        }
    });
    let freed = volume.reclaim(64 * PAGE);
    assert!(sizes.load(Relaxed) > 64 * PAGE, "more was recorded");
    assert!(freed >= 60 * PAGE, "{freed} bytes left memory");
    assert_eq!(before - counted(&volume), freed);
    let fd = root.open("/f", libc::O_RDONLY, 0).expect("it is there");
    (0..64).for_each(|page| check_page(&root, fd, page, 7));
    check_page(&root, fd, 64, 0);
}

#[test]
fn of_a_file_in_use_the_pages_that_the_backend_lacks_stay_and_others_go() {
    let (backend, volume, root) = begin();
    make(&root, "/f", 40);
    volume.sync().expect("the backend has room");
    let fd = root.open("/f", libc::O_RDWR, 0).expect("it is there");
    for page in 30..50 {
        let new = [8; PAGE as usize];
        root.pwrite(fd, &new, page * PAGE).expect("it is open");
    }
    backend.keep_all(true);
    let before = counted(&volume);
    volume.reclaim(u64::MAX);
    let freed = before - counted(&volume);
    assert!((30 * PAGE..40 * PAGE).contains(&freed), "{freed} bytes");
    (0..30).for_each(|page| check_page(&root, fd, page, 7));
    (30..50).for_each(|page| check_page(&root, fd, page, 8));
    backend.keep_all(false);
    volume.reclaim(u64::MAX);
    assert!(before - counted(&volume) >= 45 * PAGE, "all can go");
    (0..30).for_each(|page| check_page(&root, fd, page, 7));
    (30..50).for_each(|page| check_page(&root, fd, page, 8));
}

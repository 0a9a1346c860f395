//! Commits that threads wait for beside commits that front ends are told of.

use crate::explore::explore;
use hearth::backend::{Backend, TestBackend};
use hearth::{Caller, Credentials, Errno, Process, Vfs, Volume};
use hearth_sync::primitive::{Arc, Condvar, Mutex, thread};
use std::time::Duration;

const SCHEDULES: usize = 600;

/// Calls a sync in the way of a front end, and waits for what it is told.
fn sync_and_be_told(volume: &Volume, process: &Process, path: &str) -> Result<(), Errno> {
    let vfs = volume.nonblocking_vfs();
    let ino = process.stat(path)?.ino;
    let Ok(file) = vfs.open(&Caller::ROOT, ino, libc::O_RDWR) else {
        panic!("{path} cannot be opened");
    };
    let Some(point) = vfs.begin_fsync(&file) else {
        return vfs.block_on(|vfs| vfs.fsync(&file, false));
    };
    let told = Arc::new((Mutex::new(None), Condvar::new()));
    let tells = Arc::clone(&told);
    let then = move |result| {
        *tells.0.lock() = Some(result);
        tells.1.notify_one();
    };
    vfs.when_durable(point, Box::new(then));
    let mut result = told.0.lock();
    while result.is_none() {
        told.1.wait(&mut result);
    }
    vfs.release(&file, None);
    result.unwrap()
}

/// Shuttle finds a caller whom nobody tells: the schedule ends in a deadlock.
#[test]
fn whoever_waits_for_a_commit_is_told_of_one_that_has_what_he_did() {
    explore(SCHEDULES, &["done"], || {
        let backend = Arc::new(TestBackend::new());
        let builder = Volume::builder().commit_interval(Duration::from_secs(1));
        let volume = builder.backend(backend.clone()).build().unwrap();
        let callers: Vec<_> = (0..3)
            .map(|caller| {
                let (backend, volume) = (backend.clone(), volume.clone());
                thread::spawn(move || {
                    let process = volume.process(Credentials::root());
                    let path = format!("/f{caller}");
                    let flags = libc::O_CREAT | libc::O_RDWR;
                    let fd = process.open(&path, flags, 0o600).unwrap();
                    match caller {
                        0 => process.fsync(fd).unwrap(),
                        _ => sync_and_be_told(&volume, &process, &path).unwrap(),
                    }
                    let kept = backend
                        .load_entry(hearth::ROOT, &path.as_bytes()[1..])
                        .unwrap();
                    assert!(kept.is_some(), "{path} is not there");
                    process.close(fd).unwrap();
                })
            })
            .collect();
        callers.into_iter().for_each(|c| c.join().unwrap());
        volume.close().unwrap();
        "done"
    });
}

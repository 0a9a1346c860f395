//! Calls of the library inside a callback of the library: none waits for what may wait for the end
//! of the callback.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hearth::backend::TestBackend;
use hearth::{Credentials, Errno, Fd, Process, QuotaError, Volume};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

/// What `call` returns in a callback of `p`, which lists a directory of its own for that. Fails if
/// it does not come back.
fn in_callback<R: Send + 'static>(
    p: &Arc<Process>,
    call: impl Fn(&Process, Fd) -> R + Send + 'static,
) -> R {
    let (p, (tell, told)) = (Arc::clone(p), channel());
    std::thread::spawn(move || {
        let dir = p.open("/", libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let mut each = |_: hearth::DirEntry<'_>| {
            tell.send(call(&p, dir)).unwrap();
            false
        };
        p.getdents(dir, &mut each).unwrap();
        p.close(dir).unwrap();
    });
    let in_time = told.recv_timeout(Duration::from_secs(20));
    in_time.expect("a call in a callback comes back")
}

/// A process on a volume in memory, and one on a durable volume.
fn on_both() -> [Arc<Process>; 2] {
    let backend = Arc::new(TestBackend::new());
    let durable = Volume::builder().backend(backend).build().unwrap();
    [Volume::memory(), durable].map(|volume| Arc::new(volume.process(Credentials::root())))
}

/// Once, such a call waited for the listing that had called it, for ever.
#[test]
fn the_offset_of_a_listing_is_refused_in_its_callback() {
    for p in on_both() {
        assert_eq!(
            in_callback(&p, |p, dir| p.telldir(dir)),
            Err(Errno::EDEADLK)
        );
        let nested = in_callback(&p, |p, dir| p.getdents(dir, &mut |_| true));
        assert_eq!(nested, Err(Errno::EDEADLK));
    }
}

/// Another descriptor may be in use by a thread that waits for a cut, and the cut for the callback.
#[test]
fn an_offset_that_another_thread_holds_is_refused_in_a_callback() {
    for p in on_both() {
        let other = p.open("/", libc::O_RDONLY | libc::O_DIRECTORY, 0).unwrap();
        let (begin, begun) = channel();
        let (end, ended) = channel::<()>();
        let holder = Arc::clone(&p);
        let holding = std::thread::spawn(move || {
            let mut each = |_: hearth::DirEntry<'_>| {
                begin.send(()).unwrap();
                ended.recv().unwrap();
                false
            };
            holder.getdents(other, &mut each)
        });
        begun.recv().unwrap();
        let sought = in_callback(&p, move |p, _| p.lseek(other, 0, libc::SEEK_SET));
        end.send(()).unwrap();
        assert_eq!(holding.join().unwrap(), Ok(()));
        assert_eq!(sought, Err(Errno::EDEADLK));
        let sought = in_callback(&p, move |p, _| p.lseek(other, 0, libc::SEEK_SET));
        assert_eq!(sought, Ok(0), "nobody has it");
    }
}

/// Once, it waited for the end of the callback that it was called in.
#[test]
fn a_tree_is_not_made_a_project_in_a_callback() {
    for p in on_both() {
        p.mkdir("/a", 0o755).unwrap();
        let set = |p: &Process| p.volume().quota().set_project_tree("/a", 7);
        let refused = in_callback(&p, move |p, _| set(p));
        let QuotaError::Path { errno, .. } = refused.unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(errno, Errno::EDEADLK);
        assert!(set(&p).is_ok(), "behind the callback");
    }
}

/// The holder of the lock may wait for a cut, and the cut for the callback.
#[test]
fn a_file_lock_of_another_is_not_waited_for_in_a_callback() {
    for p in on_both() {
        let [one, two] = [(); 2].map(|()| p.open("/f", NEW, 0o644).unwrap());
        p.flock(one, libc::LOCK_EX).unwrap();
        let wait = move |p: &Process, _| p.flock(two, libc::LOCK_EX);
        assert_eq!(in_callback(&p, wait), Err(Errno::EDEADLK));
        p.flock(one, libc::LOCK_UN).unwrap();
        assert_eq!(in_callback(&p, wait), Ok(()), "nobody has it");
    }
}

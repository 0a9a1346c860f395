//! Extended attributes beside a backend: more of them than may be set, and what they count for.

use hearth::backend::{Backend, Record, TestBackend};
use hearth::{Credentials, Errno, Process, Volume};
use std::sync::Arc;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;
const BIG: usize = 65_536;

fn make(root: &Process, path: &str) {
    let fd = root.open(path, NEW, 0o600).expect("a new name");
    root.close(fd).expect("it is open");
}

/// A store may have been written by a version without the bound.
#[test]
fn more_attributes_than_may_be_set_stay_readable_and_become_fewer() {
    let backend = Arc::new(TestBackend::new());
    let open = |backend: &Arc<TestBackend>| {
        let volume = Volume::builder().backend(backend.clone()).build();
        let volume = volume.expect("a new backend has nothing that could fail");
        let root = volume.process(Credentials::root());
        (volume, root)
    };
    let (volume, root) = open(&backend);
    make(&root, "/f");
    let (ino, generation) = root
        .stat("/f")
        .map(|f| (f.ino, f.generation))
        .expect("made");
    drop((root, volume));
    let name = |n: usize| format!("user.{n:02}");
    let of = |n: usize| (name(n).into_bytes().into(), vec![n as u8; BIG].into());
    let brought = Record::Xattrs {
        ino,
        generation,
        version: 9,
        xattrs: (0..12).map(of).collect(),
    };
    backend
        .commit(1_000, vec![brought])
        .expect("no fault is set");
    let (_volume, root) = open(&backend);
    let set = |n: usize, len: usize| root.setxattr("/f", name(n), &vec![0; len], 0);
    assert_eq!(
        root.getxattr("/f", name(11)).expect("it is there"),
        [11; BIG]
    );
    assert_eq!(set(12, 1), Err(Errno::ENOSPC));
    assert_eq!(set(3, BIG), Ok(()), "no more than before");
    assert_eq!(set(3, 5), Ok(()), "less than before");
    assert_eq!(set(3, 6), Err(Errno::ENOSPC));
    for n in 4..12 {
        assert_eq!(root.removexattr("/f", name(n)), Ok(()));
    }
    assert_eq!(set(12, BIG), Ok(()));
}

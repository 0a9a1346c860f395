//! Extended attributes of what is in use: they leave memory, and come back as they were.

use super::ends::{Doing, Hooked, begin as begin_hooked};
use super::nodes::{begin, counted};
use hearth::{Credentials, Errno, Process, Volume};
use hearth_testing::random::Random;
use hearth_testing::threads::SetOnDrop;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;
const LARGE: usize = 60_000;

fn set(root: &Process, path: &str, name: &[u8], value: &[u8]) {
    root.setxattr(path, name, value, 0).expect("there is room");
}

fn reclaim(volume: &Volume) {
    // The second time all that was changed is at the backend.
    volume.reclaim(u64::MAX);
    volume.reclaim(u64::MAX);
}

/// Once, 1,200 open files kept 576 MB in a memory of 16 MiB.
#[test]
fn attributes_of_open_files_leave_memory_and_come_back() {
    let (volume, root) = begin();
    let value = |n: u8| vec![n; LARGE];
    let fd = root.open("/f", NEW, 0o640).expect("a new name");
    let directory = {
        root.mkdir("/d", 0o700).expect("a new name");
        root.open("/d", libc::O_RDONLY | libc::O_DIRECTORY, 0)
            .expect("it is there")
    };
    reclaim(&volume);
    let before = counted(&volume);
    for n in 0..5 {
        set(&root, "/f", format!("user.{n}").as_bytes(), &value(n));
    }
    set(&root, "/d", b"user.d", &value(9));
    set(&root, "/", b"trusted.root", &value(8));
    let blocks = root.fstat(fd).expect("it is open").blocks;
    assert!(counted(&volume) > before + 7 * LARGE as u64);
    reclaim(&volume);
    let left = counted(&volume) - before;
    assert!(left < 1_000, "{left} bytes are left");
    // They are there for all who ask.
    assert_eq!(root.fstat(fd).expect("it is open").blocks, blocks);
    assert_eq!(root.fgetxattr(fd, b"user.3"), Ok(value(3)));
    assert_eq!(root.fgetxattr(directory, b"user.d"), Ok(value(9)));
    assert_eq!(root.getxattr("/", b"trusted.root"), Ok(value(8)));
    assert_eq!(root.fgetxattr(fd, b"user.none"), Err(Errno::ENODATA));
    reclaim(&volume);
    let names = root.listxattr("/f").expect("it is there");
    assert_eq!(names, b"user.0\0user.1\0user.2\0user.3\0user.4\0");
    // A change keeps the others.
    reclaim(&volume);
    root.chmod("/f", 0o600).expect("it is there");
    root.fsetxattr(fd, b"user.3", b"short", 0).expect("room");
    reclaim(&volume);
    root.removexattr("/f", b"user.0").expect("it is there");
    assert_eq!(root.removexattr("/f", b"user.0"), Err(Errno::ENODATA));
    reclaim(&volume);
    assert_eq!(root.fgetxattr(fd, b"user.3"), Ok(b"short".to_vec()));
    assert_eq!(root.fgetxattr(fd, b"user.4"), Ok(value(4)));
    assert_eq!(root.fgetxattr(fd, b"user.0"), Err(Errno::ENODATA));
    // Also of one that has no name any more.
    root.unlink("/f").expect("it is there");
    reclaim(&volume);
    assert_eq!(root.fgetxattr(fd, b"user.1"), Ok(value(1)));
    reclaim(&volume);
    for fd in [fd, directory] {
        root.close(fd).expect("it is open");
    }
    root.rmdir("/d").expect("it is empty");
    root.removexattr("/", b"trusted.root").expect("it is there");
    reclaim(&volume);
    assert!(volume.quota().check().expect("it ends").is_clean());
}

/// What a permission or a write asks for stays.
#[test]
fn acls_and_capabilities_of_open_files_stay() {
    let (volume, root) = begin();
    let fd = root.open("/f", NEW, 0o640).expect("a new name");
    let capability = [1, 0, 0, 2].repeat(5);
    set(&root, "/f", b"security.capability", &capability);
    set(&root, "/f", b"user.large", &[7; LARGE]);
    reclaim(&volume);
    root.pwrite(fd, b"new", 0).expect("it is open");
    let gone = root.fgetxattr(fd, b"security.capability");
    assert_eq!(gone, Err(Errno::ENODATA), "a write takes it away");
    reclaim(&volume);
    let large = root.fgetxattr(fd, b"user.large");
    assert_eq!(large.map(|value| value.len()), Ok(LARGE));
}

/// What the backend has yet to get stays, however often it is looked at.
#[test]
fn attributes_that_the_backend_lacks_stay() {
    let (backend, volume, root) = begin_hooked();
    let fd = root.open("/f", NEW, 0o640).expect("a new name");
    set(&root, "/f", b"user.a", &[1; LARGE]);
    reclaim(&volume);
    set(&root, "/f", b"user.a", &[2; LARGE]);
    backend.keep_all(true);
    let before = counted(&volume);
    reclaim(&volume);
    assert!(counted(&volume) + 1_000 > before);
    assert_eq!(root.fgetxattr(fd, b"user.a"), Ok(vec![2; LARGE]));
    backend.keep_all(false);
    reclaim(&volume);
    assert!(counted(&volume) + LARGE as u64 / 2 < before);
    assert_eq!(root.fgetxattr(fd, b"user.a"), Ok(vec![2; LARGE]));
}

/// They came back, were changed and left again while the backend was asked: what it gave is old.
#[test]
fn attributes_that_change_while_they_are_fetched_are_fetched_again() {
    let (backend, volume, root) = begin_hooked();
    let fd = root.open("/f", NEW, 0o640).expect("a new name");
    set(&root, "/f", b"user.a", &[1; LARGE]);
    reclaim(&volume);
    let (elsewhere, mut is_first) = (volume.clone(), true);
    backend.set(move |doing| {
        if doing == Doing::Load && std::mem::take(&mut is_first) {
            let volume = elsewhere.clone();
            let change = move || {
                let root = volume.process(Credentials::root());
                set(&root, "/f", b"user.a", &[2; LARGE]);
                reclaim(&volume);
            };
            std::thread::spawn(change).join().expect("it changes");
        }
    });
    let value = root.fgetxattr(fd, b"user.a").expect("it is there");
    assert!(value == [2; LARGE], "the old value, of {}", value[0]);
}

/// One thread changes and reads the attributes of an open file, of which it has a model, others
/// read them, and one throws out what can go.
#[test]
fn attributes_that_come_and_go_beside_changes_are_those_of_the_model() {
    const STEPS: usize = 3_000;
    let backend = Arc::new(Hooked::default());
    let volume = Volume::builder().backend(backend).build();
    let volume = volume.expect("a new backend has nothing that could fail");
    let (ended, freed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let end = SetOnDrop(&ended);
        let root = volume.process(Credentials::root());
        let fd = root.open("/f", NEW, 0o644).expect("a new name");
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    freed.fetch_add(volume.reclaim(u64::MAX), Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let root = volume.process(Credentials::root());
            while !ended.load(Relaxed) {
                // One value and no mixture.
                if let Ok(value) = root.getxattr("/f", b"user.0") {
                    assert!(value.iter().all(|byte| *byte == value[0]));
                }
            }
        });
        let (mut model, mut random) = (BTreeMap::new(), Random(7));
        for step in 0..STEPS {
            if step % 4 == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
            let name = format!("user.{}", random.below(4)).into_bytes();
            match random.below(4) {
                0 => {
                    let value = vec![step as u8; 200 + random.below(2_000) as usize];
                    root.fsetxattr(fd, &name, &value, 0).expect("room");
                    model.insert(name, value);
                }
                1 => {
                    let removed = root.removexattr("/f", &name).is_ok();
                    assert_eq!(removed, model.remove(&name).is_some(), "step {step}");
                }
                2 => {
                    let names = root.listxattr("/f").expect("it is there");
                    let known = model.keys().flat_map(|name| [&name[..], b"\0"].concat());
                    assert_eq!(names, known.collect::<Vec<u8>>(), "step {step}");
                }
                _ => {
                    let value = root.fgetxattr(fd, &name).ok();
                    assert_eq!(value.as_ref(), model.get(&name), "step {step}");
                }
            }
        }
        drop(end);
    });
    let freed = freed.into_inner();
    assert!(freed > 100_000, "{freed} bytes left memory");
    assert!(volume.quota().check().expect("it ends").is_clean());
}

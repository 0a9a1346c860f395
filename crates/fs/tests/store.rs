//! The model test on a volume whose backend is the store, with everything forgotten between any two
//! operations, and with the volume ended and opened again in the middle.

#[path = "model/driver.rs"]
mod driver;

use driver::Library;
use hearth::{Credentials, Volume};
use hearth_model::strategy::{Abilities, run_scripts};
use hearth_model::{Op, Outcome, System, compare};
use hearth_store::backend::simulated::SimulatedStore;
use hearth_store::backend::{Limits, StoreBackend};
use hearth_store::disk::simulated::SimulatedDisk;
use proptest::prelude::*;
use std::sync::Arc;

const ABILITIES: Abilities = Abilities {
    ranges: true,
    projects: true,
    direct: true,
};
const SCRIPTS: u32 = 600;

fn volume(backend: &Arc<StoreBackend>) -> Volume {
    Volume::builder()
        .backend(Arc::clone(backend))
        .memory_budget(1 << 20)
        .build()
        .expect("the store opens")
}

/// A library that forgets everything now and then.
struct Forgetful {
    library: Library,
    backend: Arc<StoreBackend>,
    state: u64,
}

impl System for Forgetful {
    fn apply(&mut self, p: usize, op: &Op) -> Outcome {
        self.state = self
            .state
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(99);
        if (self.state >> 33).is_multiple_of(3) {
            self.library.volume().reclaim(u64::MAX);
        }
        if (self.state >> 33).is_multiple_of(8) {
            while hearth_backend::Backend::tidy(&*self.backend) {}
        }
        self.library.apply(p, op)
    }
}

fn check(seed: u64, steps: &[(usize, Op)]) -> Option<String> {
    let backend = Arc::new(StoreBackend::memory().expect("a new store"));
    let mut forgetful = Forgetful {
        library: Library::new(volume(&backend)),
        backend: Arc::clone(&backend),
        state: seed,
    };
    if let Err(difference) = compare(&mut forgetful, steps, 16) {
        return Some(difference.to_string());
    }
    if backend.strays() > 0 {
        return Some(format!(
            "{} records named what is not there",
            backend.strays()
        ));
    }
    let checked = forgetful.library.volume().quota().check();
    let checked = checked.expect("accounting is on");
    (!checked.is_clean()).then(|| format!("{checked:?}"))
}

#[test]
fn a_volume_on_a_store_that_forgets_everything_equals_the_model() {
    let config = ProptestConfig::with_cases(SCRIPTS);
    run_scripts(config, (ABILITIES, 20..100), |seed, steps| {
        check(seed, steps).map_or(Ok(()), Err)
    });
}

#[test]
fn what_was_synced_is_there_when_the_volume_is_opened_again() {
    let backend = Arc::new(StoreBackend::memory().expect("a new store"));
    let first = volume(&backend);
    let root = first.process(Credentials::root());
    root.mkdir("/d", 0o751).expect("a new name");
    for size in [0usize, 1, 4096, 70_000, 1 << 20] {
        let path = format!("/d/{size}");
        let fd = root
            .open(&*path, libc::O_CREAT | libc::O_RDWR, 0o640)
            .expect("a new name");
        let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        assert_eq!(root.write(fd, &bytes), Ok(size));
        root.close(fd).expect("it is open");
    }
    root.symlink("to/nowhere", "/d/link").expect("a new name");
    first.close().expect("everything is kept");
    drop((root, first));
    let second = volume(&backend);
    let root = second.process(Credentials::root());
    for size in [0usize, 1, 4096, 70_000, 1 << 20] {
        let path = format!("/d/{size}");
        let attr = root.stat(&*path).expect("it is there");
        assert_eq!((attr.size, attr.perm), (size as u64, 0o640));
        let fd = root.open(&*path, libc::O_RDONLY, 0).expect("it is there");
        let mut bytes = vec![0; size];
        assert_eq!(root.read(fd, &mut bytes), Ok(size));
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, &byte)| byte == (at % 251) as u8)
        );
        root.close(fd).expect("it is open");
    }
    assert_eq!(
        root.stat("/d").map(|attr| (attr.perm, attr.nlink)),
        Ok((0o751, 2))
    );
    assert!(second.quota().check().expect("accounting is on").is_clean());
}

#[test]
fn more_than_the_log_holds_is_synced_at_once() {
    let disk = SimulatedDisk::new(1);
    SimulatedStore::make(&disk, 32).expect("a new store");
    let store = SimulatedStore::open(&disk, Limits::default()).expect("it opens");
    let first = volume(&store.backend);
    let root = first.process(Credentials::root());
    let bytes: Vec<u8> = (0..40_000).map(|at| (at % 251) as u8).collect();
    for number in 0..40 {
        let path = format!("/{number}");
        let fd = root.open(&*path, libc::O_CREAT | libc::O_RDWR, 0o640);
        let fd = fd.expect("a new name");
        assert_eq!(root.write(fd, &bytes), Ok(bytes.len()));
        root.close(fd).expect("it is open");
    }
    first
        .sync()
        .expect("1.6 MB fit the disk, and the log of 512 KiB");
    for number in 0..6000 {
        root.mkdir(format!("/d{number}"), 0o755)
            .expect("a new name");
    }
    first.sync().expect("6,000 directories fit as well");
    first.abandon();
    drop((root, first, store));
    let disk = disk.crashed(1);
    let store = SimulatedStore::open(&disk, Limits::default()).expect("it opens");
    let second = volume(&store.backend);
    let root = second.process(Credentials::root());
    assert_eq!(root.read_dir("/").map(|all| all.len()), Ok(6040));
    let fd = root.open("/39", libc::O_RDONLY, 0).expect("it is there");
    let mut found = vec![0; bytes.len() + 1];
    assert_eq!(root.read(fd, &mut found), Ok(bytes.len()));
    assert!(found[..bytes.len()] == bytes);
}

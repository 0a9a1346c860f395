//! Inodes that end, or are forgotten, while others look for them.

use hearth::backend::{
    Allocation, Backend, Extent, Inode, PageSource, Record, Restart, TestBackend,
};
use hearth::{
    Attr, Caller, Credentials, Errno, Miss, Process, ROOT, Result, Target, VfsError, VfsResult,
    Volume,
};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const PAGE: usize = 4096;
const LONG: Duration = Duration::from_secs(60);
const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

/// What a backend is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It learns that an inode is gone.
    Forget,
    /// It gets contents.
    Write,
    /// It returns inodes that were asked for ahead of need.
    Bring,
    /// It returns an inode that was asked for.
    Load,
}

type Hook = Box<dyn FnMut(Doing) + Send>;

/// A backend that lets a test do something first.
#[derive(Default)]
pub struct Hooked {
    pub backend: TestBackend,
    hook: Mutex<Option<Hook>>,
    /// An inode that it has lost.
    lost: Mutex<Option<u64>>,
    /// How often it was asked for several inodes.
    pub batches: AtomicU64,
    /// How often it was asked for one inode, one name, or a list of names.
    pub singles: [AtomicU64; 3],
    /// It has no room for a commit.
    keeps_all: AtomicBool,
}

impl Hooked {
    pub fn set(&self, hook: impl FnMut(Doing) + Send + 'static) {
        *self.hook.lock().expect("nobody panicked") = Some(Box::new(hook));
    }

    /// Whether it has no room for a commit from now on.
    pub fn keep_all(&self, keeps_all: bool) {
        self.keeps_all.store(keeps_all, Relaxed);
    }

    /// Not while the hook runs: what it does may come here.
    fn before(&self, doing: Doing) {
        let taken = self.hook.lock().expect("nobody panicked").take();
        if let Some(mut hook) = taken {
            hook(doing);
            self.hook
                .lock()
                .expect("nobody panicked")
                .get_or_insert(hook);
        }
    }
}

impl Backend for Hooked {
    fn is_durable(&self) -> bool {
        true
    }
    fn restart(&self) -> Result<Option<Restart>> {
        self.backend.restart()
    }
    fn load_inode(&self, ino: u64) -> Result<Option<Inode>> {
        self.singles[0].fetch_add(1, Relaxed);
        let is_lost = *self.lost.lock().expect("nobody panicked") == Some(ino);
        let loaded = match is_lost {
            true => Ok(None),
            false => self.backend.load_inode(ino),
        };
        self.before(Doing::Load);
        loaded
    }
    fn load_inodes(&self, range: Range<u64>) -> Result<Vec<(Inode, Allocation)>> {
        self.batches.fetch_add(1, Relaxed);
        let mut loaded = self.backend.load_inodes(range)?;
        let lost = *self.lost.lock().expect("nobody panicked");
        loaded.retain(|(inode, _)| Some(inode.ino) != lost);
        self.before(Doing::Bring);
        Ok(loaded)
    }
    fn load_entry(&self, dir: u64, name: &[u8]) -> Result<Option<Target>> {
        self.singles[1].fetch_add(1, Relaxed);
        self.backend.load_entry(dir, name)
    }
    fn load_directory(&self, dir: u64) -> Result<Vec<(Box<[u8]>, Target)>> {
        self.singles[2].fetch_add(1, Relaxed);
        self.backend.load_directory(dir)
    }
    fn load_allocation(&self, ino: u64, pages: Range<u64>) -> Result<Allocation> {
        self.backend.load_allocation(ino, pages)
    }
    fn load_pages(
        &self,
        ino: u64,
        pages: Range<u64>,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<()> {
        self.backend.load_pages(ino, pages, take)
    }
    fn write_pages(
        &self,
        ino: u64,
        generation: u32,
        pages: &dyn PageSource,
    ) -> Result<Vec<Extent>> {
        self.backend.write_pages(ino, generation, pages)
    }
    fn commit(&self, epoch: u64, records: Vec<Record>) -> Result<()> {
        let any = |is: fn(&Record) -> bool| records.iter().any(is);
        let full = self.keeps_all.load(Relaxed).then_some(Errno::ENOSPC);
        self.backend.set_fault(Some(Box::new(move |call| {
            full.filter(|_| call == "commit")
        })));
        if any(|record| matches!(record, Record::Gone { .. })) {
            self.before(Doing::Forget);
        }
        if any(|record| matches!(record, Record::Contents { .. })) {
            self.before(Doing::Write);
        }
        self.backend.commit(epoch, records)
    }
    fn room(&self) -> Option<(u64, u64)> {
        None
    }
    fn tidy(&self) -> bool {
        false
    }
    fn close(&self) -> Result<()> {
        self.backend.close()
    }
}

fn volume(backend: &Arc<Hooked>) -> Volume {
    let volume = Volume::builder().backend(backend.clone()).build();
    volume.expect("a new backend has nothing that could fail")
}

pub fn begin() -> (Arc<Hooked>, Volume, Process) {
    let backend = Arc::new(Hooked::default());
    let volume = volume(&backend);
    let root = volume.process(Credentials::root());
    (backend, volume, root)
}

pub fn make(process: &Process, path: &str, pages: usize) {
    let fd = process.open(path, NEW, 0o600).expect("a new name");
    for page in 0..pages {
        let at = (page * PAGE) as u64;
        process.pwrite(fd, &[7; PAGE], at).expect("there is room");
    }
    process.close(fd).expect("it is open");
}

/// Bytes that count for the budget.
fn resident(process: &Process) -> u64 {
    process.volume().gauges().budgeted_bytes
}

pub fn used(process: &Process) -> u64 {
    let room = process.statfs("/").expect("the root is there");
    room.files - room.ffree
}

/// Once, two that reclaimed at the same time both took away what one of them had dropped.
#[test]
fn what_several_reclaim_at_once_is_taken_away_once() {
    let (_, volume, root) = begin();
    volume.reclaim(u64::MAX);
    let before = resident(&root);
    for round in 0..20 {
        for file in 0..50 {
            make(&root, &format!("/{round}-{file}"), 4);
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| volume.reclaim(u64::MAX));
            }
        });
        volume.reclaim(u64::MAX);
        assert_eq!(resident(&root), before, "round {round}");
    }
}

#[test]
fn what_the_backend_has_no_room_for_stays_in_memory() {
    let (backend, volume, root) = begin();
    volume.reclaim(u64::MAX);
    let before = resident(&root);
    make(&root, "/f", 8);
    backend.keep_all(true);
    volume.reclaim(u64::MAX);
    assert!(resident(&root) >= before + 8 * PAGE as u64, "all is here");
    backend.keep_all(false);
    volume.reclaim(u64::MAX);
    volume.reclaim(u64::MAX);
    assert_eq!(resident(&root), before);
    let mut page = [0; PAGE];
    let fd = root.open("/f", libc::O_RDONLY, 0).expect("it is there");
    assert_eq!(root.pread(fd, &mut page, 7 * PAGE as u64), Ok(PAGE));
    assert_eq!(page, [7; PAGE]);
}

/// Once, it came back from the record that the backend was about to drop, and stayed.
#[test]
fn an_inode_that_ends_is_not_brought_back_meanwhile() {
    let (backend, volume, root) = begin();
    make(&root, "/f", 1);
    let ino = root.stat("/f").expect("it is there").ino;
    // Its record is at backend.
    volume.reclaim(u64::MAX);
    root.stat("/f").expect("it is there");
    let (found, finding) = mpsc::channel();
    let vfs = volume.vfs();
    backend.set(move |doing| {
        if doing == Doing::Forget {
            let (found, vfs) = (found.clone(), vfs.clone());
            std::thread::spawn(move || found.send(vfs.getattr(ino).map(|attr| attr.nlink)));
            // Time to find the record; it has to wait, so nothing else can be waited for.
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let before = used(&root);
    root.unlink("/f").expect("it is there");
    volume.sync().expect("the backend fails nothing");
    let found = finding.recv_timeout(LONG).expect("it ends");
    assert_eq!(found, Err(Errno::ESTALE));
    volume.reclaim(u64::MAX);
    assert_eq!((backend.backend.inodes(), used(&root)), (1, before - 1));
}

/// Once, that was `ESTALE` for a name which was there at every moment.
#[test]
fn a_name_that_another_file_gets_while_its_inode_is_brought_is_looked_up_again() {
    let (_, volume, root) = begin();
    make(&root, "/f", 1);
    make(&root, "/g", 2);
    volume.reclaim(u64::MAX);
    // The entry is found and the inode is not: a listing brings names alone.
    root.read_dir("/").expect("the root is there");
    let vfs = volume.nonblocking_vfs();
    let miss = loop {
        let miss = missed(vfs.lookup(&Caller::ROOT, ROOT, b"f"));
        if format!("{miss:?}").contains("Named") {
            break miss;
        }
        volume.fetch(&miss).expect("the backend has it");
    };
    root.rename("/g", "/f").expect("both are there");
    volume.fetch(&miss).expect("it was another's name");
    assert_eq!(root.stat("/f").map(|attr| attr.size), Ok(2 * PAGE as u64));
}

#[test]
fn an_entry_whose_inode_the_backend_has_lost_is_stale() {
    let (backend, volume, root) = begin();
    make(&root, "/f", 1);
    let ino = root.stat("/f").expect("it is there").ino;
    volume.reclaim(u64::MAX);
    *backend.lost.lock().expect("nobody panicked") = Some(ino);
    assert_eq!(root.stat("/f"), Err(Errno::ESTALE));
    *backend.lost.lock().expect("nobody panicked") = None;
    assert_eq!(root.stat("/f").map(|attr| attr.ino), Ok(ino));
}

/// Once, that was `ESTALE`: what was above had gone, and so had the directory, elsewhere.
#[test]
fn a_directory_that_moves_while_the_one_above_is_brought_has_another_one_above() {
    let (_, volume, root) = begin();
    for path in ["/a", "/b", "/a/d"] {
        root.mkdir(path, 0o700).expect("a new name");
    }
    let inside = volume.process(Credentials::root());
    inside.chdir("/a/d").expect("it is there");
    let d = root.stat("/a/d").expect("it is there").ino;
    volume.reclaim(u64::MAX);
    let miss = missed(volume.nonblocking_vfs().lookup(&Caller::ROOT, d, b".."));
    root.rename("/a/d", "/b/d").expect("it is there");
    root.rmdir("/a").expect("it is empty");
    volume.fetch(&miss).expect("it is not above any more");
    let above = root.stat("/b").map(|attr| attr.ino);
    assert_eq!(inside.stat("..").map(|attr| attr.ino), above);
}

/// Once, whoever knew the number brought back what had been given back already.
#[test]
fn what_the_backend_does_not_forget_stays_ended_and_is_forgotten_at_the_next_sync() {
    let (backend, volume, root) = begin();
    let before = used(&root);
    make(&root, "/f", 1);
    let ino = root.stat("/f").expect("it is there").ino;
    volume.reclaim(u64::MAX);
    backend.keep_all(true);
    root.unlink("/f").expect("it is there");
    assert_eq!(volume.vfs().getattr(ino), Err(Errno::ESTALE));
    assert_eq!((backend.backend.inodes(), used(&root)), (2, before));
    assert_eq!(volume.sync(), Err(Errno::ENOSPC));
    backend.keep_all(false);
    assert_eq!(volume.sync(), Ok(()));
    assert_eq!((backend.backend.inodes(), used(&root)), (1, before));
}

/// Once, the inode was written backend without a name, and stayed charged for ever.
#[test]
fn a_file_that_loses_its_name_while_it_is_reclaimed_ends() {
    let backend = Arc::new(Hooked::default());
    let volume = volume(&backend);
    let root = Arc::new(volume.process(Credentials::root()));
    let before = used(&root);
    make(&root, "/f", 2);
    let other = Arc::clone(&root);
    let (mut has_written, mut has_removed) = (false, false);
    let elsewhere = move |work: fn(&Process)| {
        let (process, (ended, end)) = (Arc::clone(&other), mpsc::channel());
        std::thread::spawn(move || {
            work(&process);
            ended.send(())
        });
        end.recv_timeout(LONG).expect("nobody is in its way");
    };
    let (removed, removing) = mpsc::channel();
    backend.set(move |doing| match doing {
        Doing::Write if !has_written => {
            has_written = true;
            elsewhere(|process| {
                let fd = process.open("/f", libc::O_RDWR, 0).expect("it is there");
                process.pwrite(fd, &[8; 10], 0).expect("it has the page");
                process.close(fd).expect("it is open");
            });
        }
        Doing::Write if !has_removed => {
            has_removed = true;
            elsewhere(|process| process.unlink("/f").expect("it is there"));
            removed.send(()).expect("the test waits");
        }
        _ => {}
    });
    volume.reclaim(u64::MAX);
    removing.try_recv().expect("it was removed meanwhile");
    volume.reclaim(u64::MAX);
    assert_eq!((backend.backend.inodes(), used(&root)), (1, before));
    assert!(!volume.awaits_returns());
}

/// Once, a second volume gave out numbers that the backend had already, and its root had no
/// entries.
#[test]
fn a_volume_on_a_backend_that_has_files_gives_new_ones_other_numbers() {
    let backend = Arc::new(Hooked::default());
    let first = volume(&backend);
    let process = first.process(Credentials::root());
    process.mkdir("/d", 0o700).expect("a new name");
    for file in 0..10 {
        make(&process, &format!("/d/{file}"), 1);
    }
    let links = process.stat("/").expect("the root is there").nlink;
    first.sync().expect("the backend fails nothing");
    drop((process, first));
    let second = volume(&backend);
    let process = second.process(Credentials::root());
    assert_eq!(process.stat("/").map(|attr| attr.nlink), Ok(links));
    for file in 10..20 {
        make(&process, &format!("/d/{file}"), 2);
    }
    second.reclaim(u64::MAX);
    for file in 0..20 {
        let size = process.stat(format!("/d/{file}")).map(|attr| attr.size);
        let pages = 1 + u64::from(file >= 10);
        assert_eq!(size, Ok(pages * PAGE as u64), "{file}");
    }
    assert_eq!(backend.backend.inodes(), 22);
}

fn missed(found: VfsResult<Attr>) -> Miss {
    match found {
        Err(VfsError::Miss(miss)) => miss,
        other => panic!("it is in memory: {other:?}"),
    }
}

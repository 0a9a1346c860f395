//! What a kernel in front may acknowledge by itself is charged before: through the vfs it uses.

use super::{PAGE, Site, site};
use hearth::{Caller, Errno, OpenFile, QuotaId, VolumeVfs, WriteAt};
use hearth_testing::threads::SetOnDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const WHO: u32 = 1000;

/// A file of [`WHO`], by number.
fn file_of(site: &Site, path: &str) -> u64 {
    let user = site.user(WHO);
    let fd = super::file(&user, path);
    user.fstat(fd).unwrap().ino
}

fn open(vfs: &VolumeVfs, ino: u64, flags: i32) -> Arc<OpenFile> {
    vfs.open(&Caller::ROOT, ino, flags).unwrap()
}

fn read(vfs: &VolumeVfs, file: &OpenFile, page: u64, pages: u64) -> Result<usize, Errno> {
    let mut bytes = vec![1; (pages * PAGE) as usize];
    vfs.read_for_cache(file, page * PAGE, &mut bytes)
}

fn write(vfs: &VolumeVfs, ino: u64, page: u64) -> Result<usize, Errno> {
    let bytes = [7; PAGE as usize];
    vfs.write_node(&Caller::ROOT, ino, WriteAt::At(page * PAGE), &bytes, false)
}

fn fallocate(site: &Site, mode: i32, page: u64, pages: u64) -> Result<(), Errno> {
    let fd = site.root.open("/d/f", libc::O_RDWR, 0).unwrap();
    let done = site.root.fallocate(fd, mode, page * PAGE, pages * PAGE);
    site.root.close(fd).unwrap();
    done
}

/// A sparse file of 20 pages under a limit of `pages`.
fn sparse(site: &Site, pages: u64) -> u64 {
    site.hard(QuotaId::user(WHO), pages * PAGE, 100);
    let ino = file_of(site, "/d/f");
    site.root.truncate("/d/f", 20 * PAGE).unwrap();
    ino
}

#[test]
fn only_writers_of_files_under_a_limit_pass_each_write_on() {
    let site = site();
    let vfs = site.volume.vfs();
    let ino = file_of(&site, "/d/f");
    let before = open(&vfs, ino, libc::O_RDWR);
    assert!(!vfs.charges_first(&before), "there is no limit");
    site.hard(QuotaId::group(WHO), 10 * PAGE, 100);
    let reader = open(&vfs, ino, libc::O_RDONLY);
    assert!(!vfs.charges_first(&reader), "nobody writes");
    let writer = open(&vfs, ino, libc::O_RDWR);
    assert!(vfs.charges_first(&writer));
    let beside = open(&vfs, ino, libc::O_RDONLY);
    assert!(
        vfs.charges_first(&beside),
        "its pages are not to be in the cache"
    );
    for file in [&before, &reader, &writer, &beside] {
        vfs.release(file, None);
    }
    let later = open(&vfs, ino, libc::O_RDONLY);
    assert!(!vfs.charges_first(&later), "nobody writes any more");
    site.volume.quota().clear(QuotaId::group(WHO)).unwrap();
    let free = open(&vfs, ino, libc::O_RDWR);
    assert!(!vfs.charges_first(&free), "the limit is gone");
}

#[test]
fn a_hole_that_was_read_for_the_cache_can_be_written_although_the_quota_is_full_since() {
    let site = site();
    let (vfs, ino) = (site.volume.vfs(), sparse(&site, 8));
    let file = open(&vfs, ino, libc::O_RDWR);
    assert!(vfs.charges_first(&file));
    assert_eq!(read(&vfs, &file, 0, 4), Ok(4 * PAGE as usize));
    assert_eq!(
        read(&vfs, &file, 2, 3),
        Ok(3 * PAGE as usize),
        "one of them is new"
    );
    assert_eq!(site.used(QuotaId::user(WHO)).0, 5 * PAGE);
    site.check();
    // Another file takes the rest.
    let other = file_of(&site, "/d/g");
    assert!((0..3).all(|page| write(&vfs, other, page).is_ok()));
    assert_eq!(write(&vfs, other, 3), Err(Errno::EDQUOT));
    assert_eq!(
        read(&vfs, &file, 4, 2),
        Err(Errno::EDQUOT),
        "page 5 has no room"
    );
    for page in 0..5 {
        assert_eq!(write(&vfs, ino, page), Ok(PAGE as usize));
        assert_eq!(site.used(QuotaId::user(WHO)).0, 8 * PAGE);
    }
    assert_eq!(write(&vfs, ino, 5), Err(Errno::EDQUOT));
    site.check();
}

#[test]
fn what_was_promised_moves_with_the_file_and_comes_back_with_the_last_close() {
    let site = site();
    let (vfs, ino) = (site.volume.vfs(), sparse(&site, 8));
    let (one, two) = (open(&vfs, ino, libc::O_RDWR), open(&vfs, ino, libc::O_RDWR));
    assert!(vfs.charges_first(&one) && vfs.charges_first(&two));
    read(&vfs, &one, 0, 6).unwrap();
    write(&vfs, ino, 1).unwrap();
    site.root.chown("/d/f", Some(2000), None).unwrap();
    assert_eq!(site.used(QuotaId::user(WHO)).0, 0);
    assert_eq!(site.used(QuotaId::user(2000)).0, 6 * PAGE);
    assert_eq!(site.used(QuotaId::group(WHO)).0, 6 * PAGE);
    site.check();
    vfs.release(&one, None);
    assert_eq!(
        site.used(QuotaId::user(2000)).0,
        6 * PAGE,
        "another may still write"
    );
    vfs.release(&two, None);
    assert_eq!(site.used(QuotaId::user(2000)).0, PAGE);
    assert_eq!(site.root.stat("/d/f").unwrap().blocks, 8);
    site.check();
}

#[test]
fn an_allocation_takes_what_is_promised_and_charges_nothing_twice() {
    let site = site();
    let (vfs, ino) = (site.volume.vfs(), sparse(&site, 8));
    let file = open(&vfs, ino, libc::O_RDWR);
    assert!(vfs.charges_first(&file));
    read(&vfs, &file, 0, 6).unwrap();
    // Pages 2 to 7: four are promised, and two are all that is free.
    let fallocate = |mode, page, pages| fallocate(&site, mode, page, pages);
    fallocate(0, 2, 6).expect("there is room");
    assert_eq!(site.used(QuotaId::user(WHO)).0, 8 * PAGE);
    site.check();
    assert_eq!(fallocate(0, 0, 9), Err(Errno::EDQUOT), "one too many");
    site.check();
    fallocate(libc::FALLOC_FL_ZERO_RANGE, 0, 2).expect("both are promised");
    assert_eq!(site.root.stat("/d/f").unwrap().blocks, 8 * PAGE / 512);
    vfs.release(&file, None);
    assert_eq!(site.used(QuotaId::user(WHO)).0, 8 * PAGE);
    site.check();
}

#[test]
fn what_was_promised_behind_a_cut_comes_back_at_once() {
    let site = site();
    let (vfs, ino) = (site.volume.vfs(), sparse(&site, 20));
    let file = open(&vfs, ino, libc::O_RDWR);
    assert!(vfs.charges_first(&file));
    read(&vfs, &file, 0, 8).unwrap();
    write(&vfs, ino, 0).unwrap();
    write(&vfs, ino, 6).unwrap();
    site.root.truncate("/d/f", 4 * PAGE - 1).unwrap();
    assert_eq!(site.used(QuotaId::user(WHO)).0, 4 * PAGE, "one is written");
    site.check();
    // What moves is promised no longer: the kernel is told to read it again.
    let fallocate = |mode, page, pages| fallocate(&site, mode, page, pages);
    fallocate(libc::FALLOC_FL_COLLAPSE_RANGE, 2, 1).unwrap();
    assert_eq!(site.used(QuotaId::user(WHO)).0, 2 * PAGE);
    fallocate(libc::FALLOC_FL_INSERT_RANGE, 0, 5).unwrap();
    assert_eq!(site.used(QuotaId::user(WHO)).0, PAGE);
    assert_eq!(read(&vfs, &file, 0, 7), Ok(7 * PAGE as usize));
    assert_eq!(site.used(QuotaId::user(WHO)).0, 7 * PAGE);
    fallocate(0, 0, 7).expect("six are promised, and one is there");
    assert_eq!(site.used(QuotaId::user(WHO)).0, 7 * PAGE);
    site.check();
    vfs.release(&file, None);
    site.check();
}

#[test]
fn what_was_promised_in_a_punched_hole_comes_back_at_once() {
    let site = site();
    let (vfs, ino) = (site.volume.vfs(), sparse(&site, 20));
    let file = open(&vfs, ino, libc::O_RDWR);
    assert!(vfs.charges_first(&file));
    read(&vfs, &file, 0, 8).unwrap();
    assert_eq!(site.used(QuotaId::user(WHO)).0, 8 * PAGE);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(&site, punch, 2, 3).unwrap();
    assert_eq!(site.used(QuotaId::user(WHO)).0, 5 * PAGE);
    // Of a page that is punched in part the kernel keeps the rest.
    let fd = site.root.open("/d/f", libc::O_RDWR, 0).unwrap();
    for (off, len) in [(1, 2 * PAGE - 2), (100, 50), (PAGE + 1, 10)] {
        site.root.fallocate(fd, punch, off, len).unwrap();
        assert_eq!(site.used(QuotaId::user(WHO)).0, 5 * PAGE);
    }
    site.check();
    vfs.release(&file, None);
    assert_eq!(site.used(QuotaId::user(WHO)).0, 0);
    site.check();
}

#[test]
fn a_reader_is_never_refused_and_is_promised_what_is_free() {
    let site = site();
    let (vfs, ino) = (site.volume.vfs(), sparse(&site, 2));
    let writer = open(&vfs, ino, libc::O_RDWR);
    let reader = open(&vfs, ino, libc::O_RDONLY);
    assert!(vfs.charges_first(&writer) && vfs.charges_first(&reader));
    assert_eq!(read(&vfs, &reader, 0, 2), Ok(2 * PAGE as usize));
    assert_eq!(site.used(QuotaId::user(WHO)).0, 2 * PAGE);
    assert_eq!(read(&vfs, &reader, 2, 2), Ok(2 * PAGE as usize));
    assert_eq!(read(&vfs, &writer, 2, 2), Err(Errno::EDQUOT));
    vfs.release(&writer, None);
    assert_eq!(site.used(QuotaId::user(WHO)).0, 0);
    assert_eq!(read(&vfs, &reader, 0, 2), Ok(2 * PAGE as usize));
    assert_eq!(
        site.used(QuotaId::user(WHO)).0,
        0,
        "nobody can write what it brought"
    );
}

/// Whoever read a page for the cache while he is open can write it, whatever runs beside him.
#[test]
fn promises_are_kept_in_a_race_of_writers_owners_and_closes() {
    let site = site();
    let vfs = site.volume.vfs();
    let inos: Vec<u64> = (0..3).map(|n| file_of(&site, &format!("/d/{n}"))).collect();
    for n in 0..3 {
        site.root.truncate(format!("/d/{n}"), 64 * PAGE).unwrap();
    }
    for who in [
        QuotaId::user(WHO),
        QuotaId::user(WHO + 1),
        QuotaId::group(WHO),
    ] {
        site.hard(who, 70 * PAGE, 100);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&done);
        let workers: Vec<_> = (0..6_u64)
            .map(|thread| {
                let (vfs, inos) = (&vfs, &inos);
                scope.spawn(move || {
                    for round in 0..400 {
                        let ino = inos[((thread + round) % 3) as usize];
                        let file = open(vfs, ino, libc::O_RDWR);
                        assert!(vfs.charges_first(&file));
                        let page = (thread * 11 + round * 7) % 60;
                        if read(vfs, &file, page, 3).is_ok() {
                            for page in [page + 1, page, page + 2] {
                                assert_eq!(write(vfs, ino, page), Ok(PAGE as usize));
                            }
                        }
                        vfs.release(&file, None);
                    }
                })
            })
            .collect();
        let (site, done) = (&site, &done);
        scope.spawn(move || {
            let mut round = 0;
            while !done.load(Relaxed) {
                round += 1;
                let path = format!("/d/{}", round % 3);
                let owner = Some(WHO + round % 2);
                let _ = site.root.chown(&*path, owner, None);
                for record in site.volume.quota().report() {
                    let over = |hard| record.bytes.used > hard;
                    let forced = record.who.kind == hearth::QuotaKind::User;
                    assert!(forced || !record.bytes.hard.is_some_and(over), "{record:?}");
                }
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
    });
    site.check();
    let pages: u64 = (0..3)
        .map(|n| site.root.stat(format!("/d/{n}")).unwrap().blocks / 8)
        .sum();
    assert_eq!(
        site.used(QuotaId::group(WHO)).0,
        pages * PAGE,
        "nothing is promised any more"
    );
}

/// A page that is being written when it is read for the cache is either promised first, and the
/// write takes that, or allocated.
#[test]
fn nothing_is_promised_to_a_page_that_a_write_beside_it_allocates() {
    let site = site();
    let vfs = site.volume.vfs();
    site.hard(QuotaId::user(WHO), 100 * PAGE, 100);
    let fresh = |round: u64| {
        let path = format!("/d/{round}");
        let ino = file_of(&site, &path);
        site.root.truncate(&*path, 8 * PAGE).unwrap();
        (ino, path)
    };
    for round in 0..2000 {
        let (ino, path) = fresh(round);
        let file = open(&vfs, ino, libc::O_RDWR);
        assert!(vfs.charges_first(&file));
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                (0..8).for_each(|page| _ = write(&vfs, ino, page).unwrap());
            });
            barrier.wait();
            (0..8).for_each(|page| _ = read(&vfs, &file, page, 1).unwrap());
        });
        assert_eq!(site.used(QuotaId::user(WHO)).0, 8 * PAGE, "round {round}");
        let fd = site.root.open(&*path, libc::O_RDWR, 0).unwrap();
        site.root.fallocate(fd, 0, 0, 8 * PAGE).unwrap();
        site.root.close(fd).unwrap();
        site.check();
        vfs.release(&file, None);
        site.root.unlink(&*path).unwrap();
    }
}

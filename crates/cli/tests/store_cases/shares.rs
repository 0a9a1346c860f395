//! Room that is shared: between data and names, with compaction, with what was allocated, with the
//! inodes and descriptors of the machine.

use crate::case::{Case, Failure, factor};
use crate::harness::{Random, shell, succeed};
use crate::stored;
use hearth_testing::disk::{attach, make_image};
use hearth_testing::place::Place;
use hearth_testing::rounds::Service;
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, setxattr, statvfs};
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn free(at: &Path) -> u64 {
    let room = statvfs(at).unwrap();
    room.f_bavail * room.f_frsize
}

fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::StorageFull
}

/// Writes noise until there is no room, and syncs.
fn fill(path: &Path) -> u64 {
    soon("a name", || File::create(path).map(drop));
    let mut file = File::create(path).unwrap();
    let block = Random(5).bytes(MIB);
    let mut taken = 0;
    loop {
        if let Err(error) = file.write_all(&block) {
            assert!(is_full(&error), "{error}");
            break;
        }
        taken += MIB as u64;
        if taken.is_multiple_of(16 << 20) && file.sync_data().is_err() {
            break;
        }
    }
    let _ = file.sync_all();
    taken
}

/// Tries until it works, for some seconds.
fn soon(what: &str, mut done: impl FnMut() -> Result<()>) {
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(error) = done() {
        assert!(Instant::now() < end, "{what}: {error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// SR25: compaction filled the disk that had been cleaned a little.
#[test]
fn sr25_the_collector_stays_inside_the_room_and_gives_way_to_others() {
    let c = Case::on_a_small_disk();
    let disk = c.kept().parent().unwrap().to_owned();
    for n in 0..24 {
        c.put(&format!("f{n}"), Random(n).bytes(4 * MIB));
    }
    c.sync(".");
    // Half of each segment dies, so all of them are worth rewriting, on a disk that is full.
    let foreign = disk.join("foreign");
    let ballast = File::create(&foreign).unwrap();
    fallocate(
        &ballast,
        FallocateFlags::empty(),
        0,
        free(&disk) - (24 << 20),
    )
    .unwrap();
    for n in (0..24).step_by(2) {
        c.unlink(&format!("f{n}"));
    }
    let _ = File::open(c.root()).unwrap().sync_all();
    std::thread::sleep(Duration::from_secs(2));
    for n in (1..24).step_by(2) {
        assert!(c.read(&format!("f{n}")) == Random(n).bytes(4 * MIB), "f{n}");
    }
    drop(ballast);
    fs::remove_file(foreign).unwrap();
    soon("a write", || {
        fs::write(c.at("after"), "x")?;
        File::open(c.at("after"))?.sync_all()
    });
    let left = || {
        c.segments()
            .iter()
            .map(|path| fs::metadata(path).map_or(0, |m| m.size()))
            .sum::<u64>()
    };
    soon("the room of what is dead", || match left() {
        0..=70_000_000 => Ok(()),
        left => Err(Error::other(format!("{left} bytes of segments"))),
    });
    assert!(
        !c.segments()
            .iter()
            .any(|path| path.to_string_lossy().contains('#'))
    );
    c.check();
}

/// SR27: room for names was used up by data, or the other way round, and removing needs some.
#[test]
fn sr27_names_and_data_share_one_room_that_comes_back() {
    let mut c = Case::on_a_small_disk();
    let before = free(c.root());
    fill(&c.at("big"));
    let mut made = 0;
    let error = loop {
        let path = c.at(&format!("n{made}"));
        let done = File::create(&path)
            .and_then(|_| Ok(setxattr(&path, "user.x", &[7; 2000], XattrFlags::empty())?));
        match done {
            Err(error) => break error,
            Ok(()) if made == 20_000 => panic!("names of no end fit on a full disk"),
            Ok(()) => made += 1,
        }
    };
    assert!(is_full(&error), "{error}");
    for name in c.names(".") {
        c.unlink(&name);
    }
    c.sync(".");
    soon("the room", || match free(c.root()) {
        now if now > before / 10 * 9 => Ok(()),
        now => Err(Error::other(format!("{now} of {before}"))),
    });
    // Reversed: names first, then a file that fits what `df` says.
    for n in 0..factor() * 3_000 {
        c.put(&format!("m{n}"), "");
    }
    let share = fill(&c.at("big")) as f64 / free_with(&c, "big") as f64;
    assert!((0.9..1.1).contains(&share), "{share}");
    c.unlink("m0");
    c.fail(Failure::Kill);
    c.put("works", "x");
}

/// What was free before this file was there.
fn free_with(c: &Case, name: &str) -> u64 {
    fs::metadata(c.at(name)).unwrap().len() + free(c.root())
}

/// SR28: allocating said yes and allocated nothing.
#[test]
fn sr28_the_first_write_into_what_was_allocated_finds_room() {
    let mut c = Case::on_a_small_disk();
    let before = free(c.root());
    let part = |percent: u64| before / 100 * percent / 4096 * 4096;
    let allocate = |c: &Case, name: &str, percent| {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(c.at(name));
        Ok::<(), Error>(fallocate(file?, FallocateFlags::empty(), 0, part(percent))?)
    };
    // As on ext4, what of it fitted stays allocated.
    let refuse = |c: &Case| {
        let no = allocate(c, "none", 30).unwrap_err();
        assert!(is_full(&no), "{no}");
        c.unlink("none");
        c.sync(".");
    };
    allocate(&c, "f", 60).unwrap();
    // Again it takes nothing.
    allocate(&c, "f", 60).unwrap();
    let size = fs::metadata(c.at("f")).unwrap();
    assert_eq!((size.len(), size.blocks() * 512), (part(60), part(60)));
    assert!(
        free(c.root()) < before / 100 * 45,
        "{} of {before}",
        free(c.root())
    );
    allocate(&c, "g", 30).unwrap();
    refuse(&c);
    c.sync(".");
    c.fail(Failure::Kill);
    refuse(&c);
    fill(&c.at("h"));
    let file = File::options().write(true).open(c.at("f")).unwrap();
    let block = Random(9).bytes(MIB);
    for at in (0..part(60)).step_by(MIB) {
        let length = MIB.min((part(60) - at) as usize);
        file.write_all_at(&block[..length], at).unwrap();
    }
    file.sync_all().unwrap();
    c.fail(Failure::Kill);
    let bytes = c.read("f");
    assert!(bytes.chunks(MIB).all(|part| part == &block[..part.len()]));
    // What was allocated and is given up is free again.
    let low = free(c.root());
    c.unlink("g");
    c.sync(".");
    soon("the room of g", || match free(c.root()) {
        // The logs take room as well that they lacked while the disk was full.
        now if now > low + part(15) => Ok(()),
        now => Err(Error::other(format!("{now}, before {low}"))),
    });
}

/// SR29: the inodes of the disk below ran out.
#[test]
fn sr29_few_files_below_and_when_their_inodes_run_out_it_is_a_full_disk() {
    let place = Place::new("inodes").unwrap();
    let image = place.path().join("image");
    let [disk, mount] = ["disk", "mount"].map(|name| place.directory(name).unwrap());
    make_image(&image, 512 << 20, false).unwrap();
    succeed(&mut shell(place.path(), "mkfs.ext4 -q -F -N 1500 image"));
    attach(&image, &disk, false).unwrap();
    let kept = disk.join("s");
    let mut daemon = stored::daemon(&kept, &mount);
    daemon.start().unwrap();
    for n in 0..5_000 {
        fs::write(mount.join(format!("f{n}")), "some bytes").unwrap();
    }
    File::open(&mount).unwrap().sync_all().unwrap();
    let used = statvfs(&disk).unwrap();
    let used = used.f_files - used.f_ffree;
    assert!(used < 600, "{used} inodes for 5,000 files");
    let mut more = 0;
    while File::create(disk.join(format!("x{more}"))).is_ok() {
        more += 1;
    }
    let big = mount.join("big");
    let error =
        fs::write(&big, Random(1).bytes(4 * MIB)).and_then(|()| File::open(&big)?.sync_all());
    let error = error.unwrap_err();
    assert!(is_full(&error), "{error}");
    for n in 0..100 {
        fs::remove_file(mount.join(format!("f{n}"))).unwrap();
    }
    for n in 0..more {
        fs::remove_file(disk.join(format!("x{n}"))).unwrap();
    }
    soon("a sync", || File::open(&big)?.sync_all());
    daemon.stop().unwrap();
    daemon.start().unwrap();
    assert!(fs::read(&big).unwrap() == Random(1).bytes(4 * MIB));
    assert_eq!(fs::read_dir(&mount).unwrap().count(), 4_901);
    daemon.stop().unwrap();
}

/// SR30: more files were opened than the process may have.
#[test]
fn sr30_few_descriptors_are_enough_for_many_cold_files() {
    let c = Case::plain(",memory=16M");
    let most = factor() * 600;
    for n in 0..most {
        c.put(&format!("f{n}"), Random(n).bytes(20_000));
        if n % 40 == 0 {
            c.sync(&format!("f{n}"));
        }
    }
    let kept = c.kept().to_owned();
    let (mut c, mount) = (c, Place::new("mount").unwrap());
    c.daemon().stop().unwrap();
    let at = mount.directory("m").unwrap();
    let line = format!(
        "ulimit -n 256; exec {} mount -f -o transport=dev,memory=16M {} {}",
        env!("CARGO_BIN_EXE_hearth"),
        stored::source(&kept),
        at.display()
    );
    let mut daemon = hearth_testing::rounds::Daemon::new(&at, move || {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &line]);
        bash
    });
    daemon.start().unwrap();
    let descriptors = || {
        let pid = daemon.id().unwrap();
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
    };
    let most_seen = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..16)
            .map(|task| {
                let at = &at;
                scope.spawn(move || {
                    let mut random = Random(task);
                    for _ in 0..60 {
                        let n = random.below(most);
                        let bytes = fs::read(at.join(format!("f{n}"))).unwrap();
                        assert!(bytes == Random(n).bytes(20_000), "f{n}");
                    }
                })
            })
            .collect();
        for n in 0..20 {
            fs::write(at.join(format!("new{n}")), Random(n).bytes(2 * MIB)).unwrap();
            File::open(at.join(format!("new{n}")))
                .unwrap()
                .sync_all()
                .unwrap();
        }
        let seen = descriptors();
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
        seen
    });
    assert!(most_seen < 200, "{most_seen} descriptors");
    daemon.stop().unwrap();
}

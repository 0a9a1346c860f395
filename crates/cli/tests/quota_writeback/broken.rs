//! What the kernel has acknowledged, or a host below, and a disk that breaks then refuses: `fsync`
//! says so, the loss is told, what a close holds comes back, and the daemon goes on.

use super::harness::{self, Below, Mounted, Transport, hearth, program, said, succeed, until};
use super::lost::{close, events, failed};
use super::mapping::Mapping;
use super::{PAGE, file_of, open, page, used};
use hearth_testing::disk::SlowDisk;
use hearth_testing::forgetting::{Fault, Forgetting, Options};
use hearth_testing::place::Place;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

harness::on_both_transports!(
    stores_through_a_mapping_that_a_broken_host_refuses_are_told,
    stores_through_a_mapping_that_a_host_refuses_once_are_all_stored,
    stores_through_a_mapping_that_a_host_refuses_since_it_is_read_only_are_told,
    a_host_that_has_lost_what_it_took_is_told_by_fsync,
    what_a_host_that_is_gone_loses_is_told_of_an_unknown_owner,
    what_a_store_on_a_broken_disk_loses_is_told,
);

const EIO: Option<i32> = Some(Errno::IO.raw_os_error());

/// A directory that does wrong what it is told to.
struct Faulty {
    disk: Forgetting,
    // Dropped last: the disk lies in it.
    _place: Place,
}

impl Faulty {
    /// One that keeps everything at once.
    fn new() -> Faulty {
        let place = Place::new("faulty").expect("a directory");
        let [below, at] = ["below", "at"].map(|name| place.directory(name).expect("a directory"));
        let options = Options {
            is_forgetful: false,
            ..Options::default()
        };
        let disk = Forgetting::mount(&below, &at, options).expect("a mount");
        Faulty {
            disk,
            _place: place,
        }
    }
}

/// The bytes of a file that are told as lost, each with this errno, of user 54321.
fn told(mounted: &Mounted, path: &str, errno: &str) -> u64 {
    let all = events(mounted, "write-lost");
    let of = all.iter().filter(|event| event["path"] == path);
    of.map(|event: &Value| {
        assert_eq!(event["errno"], errno, "{event}");
        assert_eq!(event["id"], 54_321, "{event}");
        event["lost"].as_u64().expect("bytes")
    })
    .sum()
}

fn is_logged(mounted: &Mounted, what: &str, path: &str) -> bool {
    let (what, path) = (
        format!("user:54321 write-lost {what} inode="),
        format!("path={path:?}"),
    );
    let log = mounted.log();
    log.lines()
        .any(|line| line.contains(&what) && line.contains(&path))
}

/// Bytes that the log says were lost: in one line or, if a second ends meanwhile, in two.
fn logged(mounted: &Mounted, errno: &str, path: &str) -> u64 {
    let what = format!("user:54321 write-lost errno={errno} lost=");
    let path = format!("path={path:?}");
    let log = mounted.log();
    let lines = log.lines().filter(|line| line.contains(&path));
    let lost = lines.filter_map(|line| line.split_once(&what)?.1.split(' ').next());
    lost.filter_map(|bytes| bytes.parse::<u64>().ok()).sum()
}

/// Whether another process gets the lock at once.
fn is_unlocked(path: &Path) -> bool {
    let mut take = program("flock");
    said(take.args(["-n", "-x"]).arg(path).arg("true")).success()
}

/// A file of so many pages, and a mapping of all of it.
fn mapped(mounted: &Mounted, pages: u64) -> (File, Mapping) {
    let file = file_of(mounted, "f", 54_321);
    for n in 0..pages {
        file.write_all_at(&page(1), n * PAGE).expect("a good disk");
    }
    file.sync_all().expect("a good disk");
    let mapping = Mapping::of(&file, pages * PAGE);
    (file, mapping)
}

fn stores_through_a_mapping_that_a_broken_host_refuses_are_told(transport: Transport) {
    let faulty = Faulty::new();
    let mounted = Mounted::over(transport, faulty.disk.path(), "quota=wait,passthrough=off");
    let pages = 12;
    let (file, mut mapping) = mapped(&mounted, pages);
    rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("a free file");
    faulty.disk.set_fault(Fault::Broken);
    for n in 0..pages {
        mapping.store(n, 2);
    }
    let other = open(&mounted, "f");
    assert_eq!(failed(file.sync_all()), EIO);
    assert_eq!(told(&mounted, "/f", "EIO"), pages * PAGE);
    until("the log says all of it", || {
        logged(&mounted, "EIO", "/f") == pages * PAGE
    });

    // A close that fails lets go all the same.
    mapping.store(0, 3);
    assert_eq!(close(file), Err(Errno::IO));
    assert_eq!(told(&mounted, "/f", "EIO"), (pages + 1) * PAGE);
    drop(mapping);
    until("the lock has ended", || is_unlocked(&mounted.at("f")));
    assert_eq!(failed(other.sync_all()), EIO, "nobody had told it");
    drop(other);

    faulty.disk.set_fault(Fault::None);
    let again = open(&mounted, "f");
    again.write_all_at(&page(4), 0).expect("the disk is well");
    again.sync_all().expect("the disk is well");
    let mut mapping = Mapping::of(&again, pages * PAGE);
    mapping.store(1, 4);
    again.sync_all().expect("the disk is well");
    let stored = std::fs::read(faulty.disk.path().join("f")).expect("a file");
    let tags: Vec<u8> = stored.chunks(PAGE as usize).map(|page| page[0]).collect();
    assert_eq!((tags[..2].to_vec(), tags.len()), (vec![4, 4], 12));
    drop((again, mapping));
    std::fs::remove_file(mounted.at("f")).expect("a file that is there");
    until("its room is back", || used(&mounted, 54_321) == 0);
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
}

/// The request fails as a whole; each of its pages is tried once more by itself.
fn stores_through_a_mapping_that_a_host_refuses_once_are_all_stored(transport: Transport) {
    let faulty = Faulty::new();
    let mounted = Mounted::over(transport, faulty.disk.path(), "passthrough=off");
    let (file, mut mapping) = mapped(&mounted, 12);
    let writes = faulty.disk.counts().writes;
    faulty.disk.set_fault(Fault::Once);
    for n in 0..12 {
        mapping.store(n, 2);
    }
    file.sync_all().expect("all of it is stored");
    assert!(faulty.disk.counts().writes > writes + 1, "one was refused");
    let stored = std::fs::read(faulty.disk.path().join("f")).expect("a file");
    assert!(stored == [2; 12 * PAGE as usize]);
    assert_eq!(events(&mounted, "write-lost"), [] as [Value; 0]);
}

/// A filesystem that has become read-only because of an error of its own.
fn stores_through_a_mapping_that_a_host_refuses_since_it_is_read_only_are_told(
    transport: Transport,
) {
    let below = Below::ext4();
    let mounted = Mounted::over(transport, below.path(), "passthrough=off");
    let (file, mut mapping) = mapped(&mounted, 3);
    let mut remount = program("mount");
    remount.args(["-o", "remount,errors=remount-ro"]);
    succeed(remount.arg(below.path()));
    let device = below.path().metadata().expect("a directory").dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).expect("a device");
    let name = link
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let trigger = format!("/sys/fs/ext4/{name}/trigger_fs_error");
    std::fs::write(&trigger, "a test").expect("ext4 takes an error");
    for n in 0..3 {
        mapping.store(n, 2);
    }
    assert_eq!(failed(file.sync_all()), Some(Errno::ROFS.raw_os_error()));
    assert_eq!(told(&mounted, "/f", "EROFS"), 3 * PAGE);
    until("the log says it", || {
        is_logged(&mounted, "errno=EROFS lost=12288", "/f")
    });
    let mut bytes = [0; 1];
    file.read_exact_at(&mut bytes, 0).expect("reads go on");
}

/// ext4 takes a write into the page cache, and the disk refuses it later. How much is lost nobody
/// says.
fn a_host_that_has_lost_what_it_took_is_told_by_fsync(transport: Transport) {
    let options = Options {
        is_forgetful: false,
        ..Options::default()
    };
    let disk = SlowDisk::new(64 << 20, options).expect("a disk");
    let mounted = Mounted::over(transport, disk.path(), "passthrough=off");
    let file = file_of(&mounted, "f", 54_321);
    file.write_all_at(&[1; 64 * PAGE as usize], 0)
        .expect("a good disk");
    file.sync_all().expect("a good disk");
    // Nothing of ext4's own is left that the next write could be.
    rustix::fs::syncfs(File::open(disk.path()).expect("a directory")).expect("a good disk");
    file.write_all_at(&[2; 64 * PAGE as usize], 0)
        .expect("ext4 takes it");
    disk.set_fault(Fault::Once);
    assert_eq!(failed(file.sync_all()), EIO);
    let lost = events(&mounted, "write-lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    let told = [
        &lost[0]["errno"],
        &lost[0]["lost"],
        &lost[0]["id"],
        &lost[0]["path"],
    ];
    let wanted = ["EIO".into(), Value::Null, 54_321.into(), "/f".into()];
    assert_eq!(told, wanted.each_ref());
    until("the log says it", || {
        is_logged(&mounted, "errno=EIO lost=unknown", "/f")
    });
    let text = succeed(hearth().args(["quota", "events"]).arg(mounted.path()));
    assert!(text.contains("errno=EIO lost=unknown"), "{text}");
    file.write_all_at(&[3; 64 * PAGE as usize], 0)
        .expect("the disk is well");
    file.sync_all().expect("the disk is well");
    assert_eq!(events(&mounted, "write-lost").len(), 1);
}

/// Not of user 0, who would be somebody.
fn what_a_host_that_is_gone_loses_is_told_of_an_unknown_owner(transport: Transport) {
    let mut faulty = Faulty::new();
    let mounted = Mounted::over(transport, faulty.disk.path(), "passthrough=off");
    let (file, mut mapping) = mapped(&mounted, 3);
    let ino = file.metadata().expect("attributes").ino();
    faulty.disk.cut(None).expect("the mount is taken away");
    for n in 0..3 {
        mapping.store(n, 2);
    }
    let errno = failed(file.sync_all());
    assert!(
        errno == EIO || errno == Some(Errno::NOTCONN.raw_os_error()),
        "{errno:?}"
    );
    // The control files went with the root.
    let line = format!(" lost={} inode={ino} generation=", 3 * PAGE);
    until("the log says it", || {
        let is_it = |text: &str| {
            let told = text.split_once(" user:unknown write-lost errno=");
            told.is_some_and(|(_, told)| told.contains(&line))
        };
        mounted.log().lines().any(is_it)
    });
}

/// The store is read-only from then on, until it is mounted again.
fn what_a_store_on_a_broken_disk_loses_is_told(transport: Transport) {
    let faulty = Faulty::new();
    let kept = faulty.disk.path().join("s");
    let mounted = Mounted::stored_in(transport, &kept, "create,commit=3600");
    let (many, few) = (512 * PAGE, 3 * PAGE);
    let files = [("large", many), ("small", few), ("untouched", few)];
    let open: Vec<File> = files
        .iter()
        .map(|(name, bytes)| {
            let file = file_of(&mounted, name, 54_321);
            file.write_all_at(&vec![1; *bytes as usize], 0)
                .expect("a good disk");
            file.sync_all().expect("a good disk");
            file
        })
        .collect();
    faulty.disk.set_fault(Fault::Broken);
    for (file, (_, bytes)) in open.iter().zip(files).take(2) {
        file.write_all_at(&vec![2; bytes as usize], 0)
            .expect("collected");
    }
    for file in open.iter().take(2) {
        assert_eq!(failed(file.sync_all()), EIO);
    }
    let named = |path: &str| {
        let all = events(&mounted, "write-lost").into_iter();
        let of: Vec<Value> = all.filter(|event| event["path"] == path).collect();
        of.iter().for_each(|event| {
            assert_eq!(
                (&event["errno"], &event["id"]),
                (&"EIO".into(), &54_321.into())
            )
        });
        of
    };
    for path in ["/large", "/small"] {
        until("it is told", || !named(path).is_empty());
        until("the log says it", || {
            mounted.log().lines().any(|line| {
                line.contains("user:54321 write-lost errno=EIO")
                    && line.contains(&format!("path={path:?}"))
            })
        });
    }
    // What comes now is refused as it is written back.
    let file = File::options().write(true).open(mounted.at("untouched"));
    assert!(file.is_err(), "read-only");
    let [_, _, untouched] = <[File; 3]>::try_from(open).expect("three");
    rustix::fs::flock(&untouched, FlockOperation::LockExclusive).expect("a free file");
    assert!(!is_unlocked(&mounted.at("untouched")));
    let before = named("/untouched").len();
    assert_eq!(before, 0);
    untouched.write_all_at(&page(3), 0).expect("collected");
    assert_eq!(close(untouched), Err(Errno::IO));
    assert_eq!(told(&mounted, "/untouched", "EIO"), PAGE);
    until("the lock has ended", || {
        is_unlocked(&mounted.at("untouched"))
    });
    let mut checked = hearth();
    succeed(checked.args(["quota", "check"]).arg(mounted.path()));

    faulty.disk.set_fault(Fault::None);
    mounted.unmount();
    mounted.mount_again(transport, "create");
    for (name, bytes) in files {
        let file = super::open(&mounted, name);
        let mut kept = vec![9; bytes as usize];
        file.read_exact_at(&mut kept, 0)
            .expect("as long as it was synced");
        assert!(
            kept.iter().all(|&byte| byte == 1),
            "{name}: what was synced"
        );
        file.write_all_at(&page(4), 0).expect("the disk is well");
        file.sync_all().expect("the disk is well");
    }
}

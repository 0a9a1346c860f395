//! What the kernel has acknowledged and cannot be stored: limits that were forced while it
//! collected writes, a full volume, a full disk of the host. The errno is right, the loss is told,
//! and nothing waits for the FLUSH that a close which fails does not send.

use super::harness::{self, Below, Mounted, Transport, hearth, program, said, succeed, until};
use super::mapping::Mapping;
use super::{PAGE, file_of, open, page, used};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

harness::on_both_transports!(
    what_fits_only_in_part_when_it_is_written_back_is_an_error_of_every_sync,
    pages_behind_one_that_is_lost_are_stored,
    each_limit_shows_its_own_errno_when_pages_are_written_back,
    a_loss_is_told_in_the_log_and_as_an_event_with_the_name_of_the_file,
    a_close_that_fails_lets_go_of_locks_and_of_the_room_of_the_file,
    stores_through_a_mapping_that_a_full_host_refuses_are_told,
    stores_through_a_mapping_that_a_quota_of_a_host_directory_refuses_are_told,
);

/// Sets a limit, also while the kernel collects writes that it will lose.
fn force(mounted: &Mounted, who: &str, bytes: u64) {
    let mut set = hearth();
    set.args(["quota", "set", who, "--hard"]);
    succeed(
        set.arg(bytes.to_string())
            .arg("--force")
            .arg(mounted.path()),
    );
}

fn free(mounted: &Mounted, who: &str) {
    let mut set = hearth();
    succeed(
        set.args(["quota", "set", who, "--hard", "none"])
            .arg(mounted.path()),
    );
}

fn syncfs(place: &Path) -> rustix::io::Result<()> {
    rustix::fs::syncfs(File::open(place).expect("a directory"))
}

/// `close(2)` with its result.
pub(super) fn close(file: File) -> rustix::io::Result<()> {
    // SAFETY: the descriptor was the file's own.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }
}

pub(super) fn failed(result: std::io::Result<()>) -> Option<i32> {
    result
        .expect_err("not all of it can be stored")
        .raw_os_error()
}

pub(super) fn events(mounted: &Mounted, what: &str) -> Vec<Value> {
    let mut events = hearth();
    let text = succeed(
        events
            .args(["quota", "events", "--json"])
            .arg(mounted.path()),
    );
    let all = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    all.filter(|event: &Value| event["what"] == what).collect()
}

/// A kernel takes a part that is stored for the whole, so a part was lost without a word: 12 pages
/// of 20, and `fsync` and `close` succeeded.
fn what_fits_only_in_part_when_it_is_written_back_is_an_error_of_every_sync(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let quota = Some(Errno::DQUOT.raw_os_error());
    for (n, sync) in ["fsync", "fdatasync", "syncfs", "close"]
        .into_iter()
        .enumerate()
    {
        let (id, name) = (1000 + n as u32, sync);
        let (file, other) = (file_of(&mounted, name, id), open(&mounted, name));
        let volume = File::open(mounted.path()).expect("a directory");
        file.write_all_at(&page(1), 0).expect("no limit yet");
        file.sync_all().expect("no limit yet");
        force(&mounted, &format!("user:{id}"), 8 * PAGE);
        file.write_all_at(&[2; 20 * PAGE as usize], PAGE)
            .expect("collected");
        match sync {
            "fsync" => assert_eq!(failed(file.sync_all()), quota),
            "fdatasync" => assert_eq!(failed(file.sync_data()), quota),
            // Linux 6.18 does not wait for what a FUSE daemon has yet to answer.
            "syncfs" => until("syncfs says it", || {
                rustix::fs::syncfs(&volume) == Err(Errno::DQUOT)
            }),
            // Linux has a flag for ENOSPC and one for everything else.
            _ => assert_eq!(close(file.try_clone().expect("a copy")), Err(Errno::IO)),
        }
        // Whoever has it open is told, once, whoever asked before.
        assert_eq!(failed(other.sync_all()), quota, "{sync}");
        other.sync_all().expect("it was told");
        assert_eq!(rustix::fs::syncfs(&volume).is_err(), sync != "syncfs");
        assert_eq!(used(&mounted, id), 8 * PAGE, "{sync}: as far as it fits");
        drop((file, other));
        free(&mounted, &format!("user:{id}"));
    }
    assert_eq!(events(&mounted, "write-lost").len(), 4);
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
}

/// One request has pages that need a block and pages that have theirs.
fn pages_behind_one_that_is_lost_are_stored(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let file = file_of(&mounted, "f", 1000);
    for n in [0, 2, 3, 5] {
        file.write_all_at(&page(1), n * PAGE).expect("no limit yet");
    }
    file.sync_all().expect("no limit yet");
    force(&mounted, "user:1000", 4 * PAGE);
    file.write_all_at(&[2; 6 * PAGE as usize], 0)
        .expect("collected");
    let full = Some(Errno::DQUOT.raw_os_error());
    assert_eq!(failed(file.sync_all()), full);
    // Past the cache, which has all of it still.
    let mut options = File::options();
    let direct = options
        .read(true)
        .custom_flags(OFlags::DIRECT.bits() as i32);
    let stored = direct.open(mounted.at("f")).expect("a file that is there");
    let mut bytes = vec![9; 6 * PAGE as usize];
    stored.read_exact_at(&mut bytes, 0).expect("six pages");
    let tags: Vec<u8> = bytes.chunks(PAGE as usize).map(|page| page[0]).collect();
    assert_eq!(
        tags,
        [2, 0, 2, 2, 0, 2],
        "but for the two that have no room"
    );
    let lost = events(&mounted, "write-lost");
    assert_eq!(lost[0]["lost"], 2 * PAGE, "{lost:?}");
}

fn each_limit_shows_its_own_errno_when_pages_are_written_back(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let limits = [
        ("user:1000", Errno::DQUOT),
        ("group:1000", Errno::DQUOT),
        ("project:7", Errno::NOSPC),
        // As where a volume without a size has filled half of the memory.
        ("volume", Errno::NOSPC),
    ];
    for (n, (who, errno)) in limits.into_iter().enumerate() {
        let tree = mounted.at(n.to_string());
        std::fs::create_dir(&tree).expect("a directory");
        let mut project = hearth();
        succeed(project.args(["quota", "project"]).arg(&tree).arg("7"));
        let file = file_of(&mounted, &format!("{n}/f"), 1000);
        file.write_all_at(&page(1), 0).expect("no limit yet");
        file.sync_all().expect("no limit yet");
        let report = std::fs::read_to_string(mounted.at(".hearth/quota/report.json"));
        let report: Value = serde_json::from_str(&report.expect("a report")).expect("JSON");
        let records = report["records"].as_array().expect("records");
        let named = |record: &&Value| {
            let kind = record["kind"].as_str().expect("a kind");
            who == kind || who == format!("{kind}:{}", record["id"])
        };
        let record = records.iter().find(named).expect("a record");
        let before = record["bytes"]["used"].as_u64().expect("a number");
        force(&mounted, who, before + 2 * PAGE);
        // Lowered once more: below what is used.
        force(&mounted, who, PAGE);
        file.write_all_at(&[2; 9 * PAGE as usize], PAGE)
            .expect("collected");
        assert_eq!(failed(file.sync_all()), Some(errno.raw_os_error()), "{who}");
        assert_eq!(syncfs(mounted.path()), Err(errno), "{who}");
        if who != "volume" {
            free(&mounted, who);
        }
        let lost = events(&mounted, "write-lost");
        let told = lost.last().expect("an event");
        let name = if errno == Errno::DQUOT {
            "EDQUOT"
        } else {
            "ENOSPC"
        };
        assert_eq!(
            (&told["errno"], &told["lost"]),
            (&name.into(), &(9 * PAGE).into())
        );
        assert_eq!(told["path"], format!("/{n}/f"), "{who}");
    }
}

fn a_loss_is_told_in_the_log_and_as_an_event_with_the_name_of_the_file(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    std::fs::create_dir(mounted.at("d")).expect("a directory");
    // Many parts of a large file are one line, and two files are two.
    let files = [("d/large one", 8 << 20), ("d/small", 3 * PAGE)];
    // Of nobody who has a name.
    let open: Vec<File> = files
        .map(|(name, _)| file_of(&mounted, name, 54_321))
        .into();
    open[0].write_all_at(&page(1), 0).expect("no limit yet");
    open[0].sync_all().expect("no limit yet");
    force(&mounted, "user:54321", PAGE);
    for (file, (_, bytes)) in open.iter().zip(files) {
        file.write_all_at(&vec![2; bytes as usize], PAGE)
            .expect("collected");
    }
    for file in &open {
        assert_eq!(failed(file.sync_all()), Some(Errno::DQUOT.raw_os_error()));
    }
    let told = |bytes: u64, path: &str| {
        format!("user:54321 write-lost errno=EDQUOT lost={bytes} inode=")
            + &format!("? path=\"/{path}\" bytes=4096 limit=4096")
    };
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| {
            let (before, after) = line.split_once(" inode=")?;
            let (_, before) = before.split_once(" user:")?;
            let (_, after) = after.split_once(" path=")?;
            Some(format!("user:{before} inode=? path={after}"))
        });
        lines.collect()
    };
    let summed = |text: &str| {
        let all = lines(text);
        files
            .iter()
            .all(|(name, bytes)| all.contains(&told(*bytes, name)))
    };
    let shown = || succeed(hearth().args(["quota", "events"]).arg(mounted.path()));
    // Unless somebody looked in between, which divides the sum.
    let parts = lines(&shown());
    assert!(parts.len() <= 6, "{parts:?}");
    if parts.len() == 2 {
        assert!(summed(&shown()), "{parts:?}");
        until("the log says it", || summed(&mounted.log()));
    }
    for (name, bytes) in files {
        let path = format!("/{name}");
        let of: Vec<Value> = events(&mounted, "write-lost")
            .into_iter()
            .filter(|event| event["path"] == path)
            .collect();
        let sum: u64 = of
            .iter()
            .map(|event| event["lost"].as_u64().expect("bytes"))
            .sum();
        assert_eq!(sum, bytes, "{of:?}");
        let quoted = format!("write-lost errno=EDQUOT lost={} inode=", of[0]["lost"]);
        until("the log says it", || {
            let log = mounted.log();
            let named = |line: &str| line.contains(&quoted) && line.contains(&format!("{path:?}"));
            log.lines().any(named)
        });
    }
}

fn a_close_that_fails_lets_go_of_locks_and_of_the_room_of_the_file(transport: Transport) {
    // Others look into all mounts, as `hearth mount` does, and each look is a flush.
    let mut tries = 0..5;
    assert!(
        tries.any(|_| closes_without_a_flush(transport)),
        "a flush came with it each time"
    );
}

/// Closes a file with locks, which fails, and whose flush does not come. False if one came.
fn closes_without_a_flush(transport: Transport) -> bool {
    let mounted = Mounted::new(transport, "");
    let file = file_of(&mounted, "f", 1000);
    file.write_all_at(&page(1), 0).expect("no limit yet");
    file.sync_all().expect("no limit yet");
    rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive).expect("a free file");
    rustix::fs::flock(&file, FlockOperation::LockExclusive).expect("a free file");
    let locks = || {
        let mut locks = hearth();
        let json = succeed(
            locks
                .arg("locks")
                .arg("--files")
                .arg("--json")
                .arg(mounted.path()),
        );
        let report: Value = serde_json::from_str(&json).expect("JSON");
        report["locks"].as_array().expect("locks").len()
    };
    assert_eq!(locks(), 2);
    force(&mounted, "user:1000", PAGE);
    let mut looks = 0.0;
    // Each look at the statistics is a flush too, which is counted a moment after its answer, as
    // are those of earlier commands. So several looks in a row have to say the same.
    let mut flushes = || {
        let mut count = || {
            looks += 1.0;
            mounted.stat("hearth_op_seconds_count{op=\"flush\"}") - looks
        };
        let (mut last, mut same) = (f64::NAN, 0);
        while same < 50 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let now = count();
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        last
    };
    let before = flushes();
    file.write_all_at(&[2; 4 * PAGE as usize], PAGE)
        .expect("collected");
    assert_eq!(close(file), Err(Errno::IO));
    let has_none = flushes() == before;
    until("the locks have ended", || locks() == 0);
    // Another process has it at once.
    let mut take = program("flock");
    let taken = said(take.args(["-n", "-x"]).arg(mounted.at("f")).arg("true"));
    assert!(taken.success(), "{taken:?}");
    std::fs::remove_file(mounted.at("f")).expect("a file that is there");
    until("its room is back", || used(&mounted, 1000) == 0);
    free(&mounted, "user:1000");
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
    has_none
}

/// A kernel that collects no writes collects these. A part was taken for the whole here as well.
fn stores_through_a_mapping_that_a_full_host_refuses_are_told(transport: Transport) {
    let below = Below::tmpfs_with("size=1M");
    let mounted = Mounted::over(transport, below.path(), "passthrough=off");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mounted.at("f"))
        .expect("a new file");
    let pages = 400;
    file.set_len(pages * PAGE).expect("a hole");
    let mut mapping = Mapping::of(&file, pages * PAGE);
    for n in 0..pages {
        mapping.store(n, 1);
    }
    assert_eq!(failed(file.sync_all()), Some(Errno::NOSPC.raw_os_error()));
    let room = rustix::fs::statvfs(below.path()).expect("a filesystem");
    assert_eq!(room.f_bfree, 0, "as far as it fits");
    let of = |event: &Value| {
        assert_eq!(
            (&event["errno"], &event["path"]),
            (&"ENOSPC".into(), &"/f".into())
        );
        event["lost"].as_u64().expect("bytes")
    };
    let lost: u64 = events(&mounted, "write-lost").iter().map(of).sum();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&below.at("f").metadata().expect("a file"));
    assert_eq!(lost, pages * PAGE - blocks * 512);
    until("the log says it", || {
        mounted.log().contains("user:0 write-lost errno=ENOSPC")
    });
}

/// A file that has some of its pages: those are written, wherever the others end.
fn stores_through_a_mapping_that_a_quota_of_a_host_directory_refuses_are_told(
    transport: Transport,
) {
    let below = Below::tmpfs();
    let mounted = Mounted::over(transport, below.path(), "quota=wait,passthrough=off");
    let file = file_of(&mounted, "f", 54_321);
    let pages = 12;
    for n in [1, 8, 11] {
        file.write_all_at(&page(1), n * PAGE).expect("no limit");
    }
    file.sync_all().expect("nothing that can fail");
    force(&mounted, "user:54321", 5 * PAGE);
    let mut mapping = Mapping::of(&file, pages * PAGE);
    for n in 0..pages {
        mapping.store(n, 2);
    }
    assert_eq!(failed(file.sync_all()), Some(Errno::DQUOT.raw_os_error()));
    let lost = events(&mounted, "write-lost");
    let sum: u64 = lost
        .iter()
        .map(|event| event["lost"].as_u64().expect("bytes"))
        .sum();
    assert_eq!(sum, (pages - 5) * PAGE, "{lost:?}");
    assert_eq!(
        (&lost[0]["errno"], &lost[0]["id"]),
        (&"EDQUOT".into(), &54_321.into())
    );
    assert_eq!(used(&mounted, 54_321), 5 * PAGE);
    let stored = std::fs::read(below.at("f")).expect("twelve pages");
    for n in [1, 8, 11] {
        assert_eq!(stored[(n * PAGE) as usize], 2, "page {n} has its block");
    }
}

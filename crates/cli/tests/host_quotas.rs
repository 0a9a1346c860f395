//! Quotas over directories of the host: limits hold for what goes through the mount, from however
//! many threads, and what is used is known again after a clean end and after a crash.

#![allow(clippy::unwrap_used)]

mod harness;
mod quotas;

use harness::{Below, Mounted, Transport, hearth, said, succeed, until};
use quotas::{done, quota, refused, used, user_shell};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BLOCK: u64 = 4096;
const THREADS: u64 = 64;
const USER: u32 = 1234;

fn over(below: &Below, options: &str) -> Mounted {
    let state = below.path().with_file_name("state");
    let options = format!("{options},state={}", state.display());
    Mounted::over(Transport::Dev, below.path(), &options)
}

/// A mount with a directory `d` for everybody.
fn counted(below: &Below) -> Mounted {
    let mounted = over(below, "quota=wait");
    mounted.shell("mkdir d; chmod 1777 d");
    mounted
}

/// What the files in a directory have allocated below.
fn allocated(directory: &Path) -> (u64, u64) {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let blocks = files.map(|file| file.metadata().unwrap().blocks());
    blocks.fold((0, 0), |(bytes, n), blocks| (bytes + 512 * blocks, n + 1))
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::QuotaExceeded | ErrorKind::StorageFull
    )
}

#[test]
fn limits_of_users_groups_and_projects_hold_and_say_why() {
    let below = Below::tmpfs();
    let mounted = counted(&below);
    let user = |script: &str| user_shell(USER, &mounted.at("d"), script);
    done(
        &mounted,
        &format!("set user:{USER} --hard 64KiB --inodes-hard 5 @"),
    );
    let write = user("head -c 100000 /dev/zero > f; stat -c %s f");
    assert!(write.err.contains("Disk quota exceeded"), "{write:?}");
    assert_eq!(write.out, "65536\n", "a write is done as far as it fits");
    // Overwriting, cutting, renaming and removing work at the limit; what is freed is there at
    // once.
    let more = user(
        "dd if=/dev/zero of=f bs=65536 count=1 conv=notrunc && mv f g && \
                     truncate -s 4096 g && head -c 61440 /dev/zero > h && rm g h && \
                     head -c 65536 /dev/zero > f && ln f g && echo done",
    );
    assert_eq!(more.out, "done\n", "{more:?}");
    let many = user("for i in 1 2 3 4 5 6; do mkdir d$i || break; echo $i; done");
    assert_eq!(many.out, "1\n2\n3\n4\n", "{many:?}");
    assert_eq!(used(&mounted, &format!("user:{USER}")), (65536, 5));
    // A group, by chgrp of root.
    done(&mounted, "set group:77 --hard 1MiB @");
    mounted.shell("chgrp 77 d/f");
    assert_eq!(used(&mounted, "group:77"), (65536, 1));
    // A project: a full device, and df tells its size.
    mounted.shell("mkdir p; head -c 8192 /dev/zero > p/before");
    done(&mounted, "project @/p 7");
    done(&mounted, "set project:7 --hard 40KiB --inodes-hard 4 @");
    assert_eq!(used(&mounted, "project:7"), (8192, 2));
    let error = fs::write(mounted.at("p/big"), vec![1; 100_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(allocated(&below.at("p")).0, 40960);
    let df = mounted.shell("df --output=size,avail -B1 p | tail -n 1");
    assert_eq!(df.split_whitespace().collect::<Vec<_>>(), ["40960", "0"]);
    let out = fs::hard_link(mounted.at("d/f"), mounted.at("p/in")).unwrap_err();
    assert_eq!(out.kind(), ErrorKind::CrossesDevices);
    assert!(fs::rename(mounted.at("d/f"), mounted.at("p/in")).is_err());
    // An open file without a name counts until its last close.
    let held = File::open(mounted.at("p/big")).unwrap();
    fs::remove_file(mounted.at("p/big")).unwrap();
    assert_eq!(used(&mounted, "project:7"), (40960, 3));
    done(&mounted, "check @");
    drop(held);
    until("the file is free", || {
        used(&mounted, "project:7") == (8192, 2)
    });
    done(&mounted, "check @");
    mounted.unmount();
}

#[test]
fn preallocated_sparse_and_copied_blocks_are_charged_once() {
    let below = Below::ext4();
    let mounted = counted(&below);
    mounted.shell("mkdir p");
    done(&mounted, "project @/p 9");
    done(&mounted, "set project:9 --hard 1MiB @");
    let at = |name: &str| mounted.at(format!("p/{name}"));
    // All of the limit is allocated ahead, and then written.
    mounted.shell("fallocate -l 1M p/whole");
    assert_eq!(used(&mounted, "project:9").0, 1 << 20);
    let whole = OpenOptions::new().write(true).open(at("whole")).unwrap();
    for block in (0..256).rev() {
        whole.write_all_at(&[1; 4096], block * BLOCK).unwrap();
    }
    assert_eq!(used(&mounted, "project:9").0, 1 << 20);
    assert!(is_full(
        &File::create(at("one"))
            .unwrap()
            .write_all(b"x")
            .unwrap_err()
    ));
    mounted.shell("fallocate -p -o 4096 -l 8192 p/whole");
    assert_eq!(used(&mounted, "project:9").0, (1 << 20) - 8192);
    // A hole costs nothing, a byte in it a block; a copy is charged as far as it fits.
    whole.set_len(4096).unwrap();
    mounted.shell("truncate -s 1G p/sparse");
    let sparse = OpenOptions::new().write(true).open(at("sparse")).unwrap();
    sparse.write_all_at(b"x", 500 << 20).unwrap();
    assert_eq!(used(&mounted, "project:9").0, 8192);
    fs::write(mounted.at("source"), vec![7; 2 << 20]).unwrap();
    let copied = fs::copy(mounted.at("source"), at("copy"));
    assert!(is_full(&copied.unwrap_err()));
    drop((whole, sparse));
    assert_eq!(allocated(&below.at("p")).0, 1 << 20);
    done(&mounted, "check @");
    mounted.unmount();
}

#[test]
fn sixty_four_threads_stop_at_the_limits_on_tmpfs() {
    race(&Below::tmpfs(), 0);
}

#[test]
fn sixty_four_threads_stop_at_the_limits_on_ext4() {
    race(&Below::ext4(), 0);
}

#[test]
fn sixty_four_threads_stop_at_the_limits_on_xfs() {
    // XFS allocates ahead of open files; that is not the user's.
    race(&Below::xfs(), 64 << 20);
}

#[test]
fn sixty_four_threads_stop_at_the_limits_on_btrfs() {
    race(&Below::btrfs(), 0);
}

/// 64 threads write into a project until each is refused, remove half of what they wrote, and write
/// again; then they make files until each is refused. `ahead`: what `du` may show beyond.
fn race(below: &Below, ahead: u64) {
    let mounted = counted(below);
    mounted.shell("mkdir p");
    done(&mounted, "project @/p 8");
    let limit = 8 << 20;
    done(&mounted, &format!("set project:8 --hard {limit} @"));
    let (inside, outside) = (mounted.at("p"), below.at("p"));
    for round in 0..3 {
        each(|thread| fill(&inside, thread, round));
        let (bytes, _) = allocated(&outside);
        assert!(bytes <= limit + ahead, "round {round}: {bytes} of {limit}");
        mounted.shell("sync -f .");
        let (bytes, files) = allocated(&outside);
        // An extent block of each fragmented file comes with its write-back.
        let late = files * BLOCK + ahead;
        assert!(bytes <= limit + late, "round {round}: {bytes} of {limit}");
        assert!(
            bytes + 16 * BLOCK >= limit,
            "round {round}: {bytes} of {limit}"
        );
        each(|thread| {
            let _ = fs::remove_file(inside.join(format!("{thread}.{}", thread % 2)));
        });
    }
    let (_, now) = used(&mounted, "project:8");
    done(
        &mounted,
        &format!("set project:8 --hard none --inodes-hard {} @", now + 1000),
    );
    let made = AtomicU64::new(0);
    each(|thread| {
        for name in 0.. {
            let path = inside.join(format!("new.{thread}.{name}"));
            match File::create_new(path) {
                Ok(_) => made.fetch_add(1, Relaxed),
                Err(error) if is_full(&error) => return,
                Err(error) => panic!("{error}"),
            };
        }
    });
    assert_eq!(
        made.into_inner(),
        1000,
        "to the last inode, and not one more"
    );
    done(&mounted, "check @");
    mounted.kill();
    harness::succeed(harness::program("umount").arg("-l").arg(mounted.path()));
    let state = below.path().with_file_name("state");
    mounted.mount_again(
        Transport::Dev,
        &format!("quota=wait,state={}", state.display()),
    );
    assert_eq!(used(&mounted, "project:8").1, now + 1000);
    done(&mounted, "check @");
    mounted.unmount();
}

/// Another state directory has no limits, so that is not what is advised first.
#[test]
fn a_state_that_an_unmounted_daemon_still_uses_is_refused_with_its_process() {
    let below = Below::tmpfs();
    let state = below.path().with_file_name("state");
    let options = format!("quota=wait,state={}", state.display());
    let mounted = Mounted::over(Transport::Dev, below.path(), &options);
    let daemon = mounted.daemon();
    let held = File::create(mounted.at("held")).unwrap();
    harness::succeed(harness::program("umount").arg("-l").arg(mounted.path()));
    let mut again = harness::hearth();
    again.args(["mount", "-o", &options]);
    let said = harness::said(again.arg(below.path()).arg(mounted.path()));
    let process = format!("in use by process {daemon}, which serves this directory");
    for word in [&*process, "end what still uses", "without the limits"] {
        assert!(said.err.contains(word), "{said:?}");
    }
    drop(held);
    mounted.unmount_has_ended();
}

fn each(run: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let run = &run;
            scope.spawn(move || run(thread));
        }
    });
}

/// Appends, writes in holes and small files, until there is no room.
fn fill(directory: &Path, thread: u64, round: u64) {
    let open = |name: String| {
        let mut options = OpenOptions::new();
        options.create(true).append(name.ends_with('0')).write(true);
        options.open(directory.join(name)).unwrap()
    };
    let mut appended = open(format!("{thread}.0"));
    let sparse = open(format!("{thread}.1"));
    let mut at = round * BLOCK;
    loop {
        let bytes = vec![1; 1 + ((thread * 977 + at) % 20_000) as usize];
        let written = appended.write(&bytes);
        let written = written.and_then(|_| sparse.write_at(&[2; 100], at));
        if let Err(error) = written {
            assert!(is_full(&error), "{error}");
            return;
        }
        at += 2 * BLOCK;
    }
}

#[test]
fn usage_is_kept_over_a_clean_end_and_counted_again_after_a_kill() {
    let below = Below::ext4();
    fs::create_dir(below.at("d")).unwrap();
    for name in 0..100 {
        let path = below.at(format!("d/{name}"));
        fs::write(&path, vec![1; 5000]).unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
    }
    let who = format!("user:{USER}");
    let state = below.path().with_file_name("state");
    let again = |mounted: &Mounted, options: &str| {
        let options = format!("{options},state={}", state.display());
        mounted.mount_again(Transport::Dev, &options);
    };
    let mounted = over(&below, "quota=wait");
    assert_eq!(used(&mounted, &who), (100 * 8192, 100));
    done(&mounted, &format!("set {who} --hard 1MiB --soft 100KiB @"));
    done(&mounted, "project @/d 5");
    mounted.unmount();
    // Not walked: what is made behind is not seen, and told by a check.
    fs::write(below.at("behind"), vec![1; 5000]).unwrap();
    again(&mounted, "quota=wait");
    assert_eq!(used(&mounted, &who), (100 * 8192, 100));
    assert_eq!(used(&mounted, "project:5"), (100 * 8192, 101));
    let record = quotas::record(&mounted, &who);
    assert_eq!(record["bytes"]["hard"], 1 << 20);
    let said = quota(&mounted, "check @");
    assert!(!said.success() && said.out.contains("8192"), "{said:?}");
    done(&mounted, "check --repair @");
    done(&mounted, "check @");
    // Counted again, beside: changes meanwhile count once.
    mounted.shell("rm d/1; head -c 5000 /dev/zero > d/new");
    mounted.kill();
    harness::succeed(harness::program("umount").arg("-l").arg(mounted.path()));
    again(&mounted, "quota=background");
    mounted.shell("rm d/2; for i in 1 2 3; do head -c 9000 /dev/zero > d/more$i; done; mv d e");
    until("the walk ends", || quota(&mounted, "check @").success());
    assert_eq!(
        used(&mounted, "project:5"),
        (98 * 8192 + 8192 + 3 * 12288, 103)
    );
    assert_eq!(quotas::record(&mounted, &who)["bytes"]["hard"], 1 << 20);
    mounted.unmount();
}

#[test]
fn what_cannot_be_kept_is_refused_with_the_remedy() {
    let below = Below::tmpfs();
    let place = below.outside("mnt");
    let mount = |options: &str| {
        let mut mount = hearth();
        mount
            .args(["mount", "-o", options])
            .arg(below.path())
            .arg(&place);
        said(&mut mount)
    };
    let inside = format!("quota=wait,state={}", below.at("state").display());
    refused("state", &mount(&inside), 1, &["state", "-o state=DIR"]);
    assert!(
        fs::read_dir(below.path()).unwrap().next().is_none(),
        "nothing is put there"
    );
    refused(
        "quota=never",
        &mount("quota=never"),
        2,
        &["wait, background or off"],
    );
    let both = mount("quota=wait,observe");
    refused("observe", &both, 2, &["observe"]);
    let both = mount("quota=wait,passthrough=on");
    refused("passthrough", &both, 2, &["passthrough=on"]);
}

/// Once, the small volume in memory beside the directory was reported, with limits of its own.
#[test]
fn a_directory_without_quotas_is_said_to_keep_none() {
    let below = Below::tmpfs();
    for options in ["", "observe", "quota=off", "quota=wait,noquota"] {
        let mounted = Mounted::over(Transport::Dev, below.path(), options);
        for typed in [
            "report @",
            "report --json @",
            "check @",
            "check --repair @",
            "get @",
            "get volume @",
            "set volume --hard 1M --inodes-hard 5 @",
        ] {
            let words = ["keeps no quotas", "-o quota=wait"];
            refused(typed, &quota(&mounted, typed), 1, &words);
        }
        let report = fs::read_to_string(mounted.at(".hearth/quota/report.json")).unwrap();
        let report = quotas::json(&report);
        assert_eq!(report["records"], serde_json::json!([]), "{options}");
        assert_eq!(report["kinds"][0]["kept"], false, "{options}");
        mounted.unmount();
    }
}

/// Once, `passthrough on` was said where each open goes through the daemon.
#[test]
fn why_nothing_is_passed_through_is_said() {
    let below = Below::tmpfs();
    let info = |mounted: &Mounted| succeed(hearth().arg("info").arg(mounted.path()));
    let mounted = over(&below, "quota=wait");
    let said = info(&mounted);
    assert!(said.contains("passthrough quotas have to see"), "{said}");
    mounted.unmount();
    let mounted = over(&below, "hot_track");
    let said = info(&mounted);
    assert!(
        said.contains("passthrough heat by range has to see"),
        "{said}"
    );
    succeed(hearth().args(["heat", "off"]).arg(mounted.path()));
    let said = info(&mounted);
    assert!(said.contains("passthrough on\n"), "{said}");
    mounted.unmount();
    let mounted = over(&below, "hot_track,heat=opens");
    let said = info(&mounted);
    assert!(said.contains("passthrough on\n"), "{said}");
    mounted.unmount();
}

/// Once, the whole directory was counted, and a state directory left, before the mount was refused.
#[test]
fn what_can_be_refused_is_refused_before_anything_is_counted() {
    let below = Below::tmpfs();
    let full = below.outside("full");
    fs::write(full.join("x"), "").unwrap();
    let state = full.with_file_name("no-state");
    let options = format!("quota=wait,state={}", state.display());
    for (source, place, words) in [
        (below.path(), &*full, &["not empty"][..]),
        (
            Path::new("/proc"),
            &below.outside("mnt"),
            &["/proc: is on proc", "leave quotas out"],
        ),
    ] {
        let mut mount = hearth();
        mount.args(["mount", "-o", &options]).arg(source).arg(place);
        refused("quota=wait", &said(&mut mount), 1, words);
        assert!(!state.exists(), "{}", source.display());
    }
}

/// Once, a limit of bytes alone was refused, as `docs/coming-from-quotas.md` shows it, and later
/// the limits were gone with the mount.
/// Once, it was free when its last name went, and could be read as long as it was held.
#[test]
fn a_file_without_a_name_counts_until_its_last_descriptor_by_o_path_is_closed() {
    let below = Below::tmpfs();
    let mounted = counted(&below);
    let user = |script: &str| user_shell(USER, &mounted.at("d"), script);
    user("head -c 65536 /dev/zero > f");
    let flags = libc::O_PATH;
    let held = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(mounted.at("d/f"));
    user("rm f");
    let who = format!("user:{USER}");
    assert_eq!(used(&mounted, &who), (65536, 1));
    drop(held.unwrap());
    until("its room is free", || used(&mounted, &who) == (0, 0));
}

/// btrfs writes the block in which a file ended when it grows. Once, that was free of charge, and a
/// file of such blocks had no end.
#[test]
fn growing_from_the_middle_of_a_block_stops_at_the_limit_on_btrfs() {
    let below = Below::btrfs();
    let mounted = counted(&below);
    done(&mounted, &format!("set user:{USER} --hard 64KiB @"));
    let user = |script: &str| user_shell(USER, &mounted.at("d"), script);
    let grown = user(
        "n=0; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
           truncate -s $((i * 4096 + 1)) f && n=$i; done 2>/dev/null; echo $n",
    );
    // The first size makes no block.
    assert_eq!(grown.out, "17\n", "{grown:?}");
    let beyond = user(
        "put() { printf x | dd of=g seek=9000 bs=1 conv=notrunc 2>&1; }; put; rm f; \
         truncate -s 1 g; put > /dev/null; truncate -s 50000 g; stat -c %s g",
    );
    assert!(beyond.out.contains("quota exceeded"), "{beyond:?}");
    assert!(beyond.out.ends_with("50000\n"), "{beyond:?}");
    let _synced = mounted.shell("sync -f .");
    let (bytes, files) = allocated(below.path().join("d").as_path());
    assert_eq!(used(&mounted, &format!("user:{USER}")), (bytes, files));
}

#[test]
fn the_volume_over_a_directory_has_the_limits_that_are_named_and_keeps_them() {
    let below = Below::tmpfs();
    let mounted = counted(&below);
    let state = below.path().with_file_name("state");
    let again = |mounted: &Mounted| {
        mounted.unmount();
        let options = format!("quota=wait,state={}", state.display());
        mounted.mount_again(Transport::Dev, &options);
    };
    let hard = |resource: &str| quotas::record(&mounted, "volume")[resource]["hard"].clone();
    done(&mounted, "set volume --hard 64KiB @");
    assert_eq!(
        (hard("bytes").as_u64(), hard("inodes").as_u64()),
        (Some(65536), None)
    );
    again(&mounted);
    assert_eq!(
        (hard("bytes").as_u64(), hard("inodes").as_u64()),
        (Some(65536), None)
    );
    let error = fs::write(mounted.at("d/f"), vec![1; 100_000]).unwrap_err();
    assert!(is_full(&error), "{error}");
    done(&mounted, "set volume --hard none --inodes-hard 3 @");
    again(&mounted);
    assert_eq!(
        (hard("bytes").as_u64(), hard("inodes").as_u64()),
        (None, Some(3))
    );
    fs::write(mounted.at("d/f"), vec![1; 100_000]).unwrap();
    assert!(is_full(&fs::write(mounted.at("d/g"), "").unwrap_err()));
    let soft = quota(&mounted, "set volume --soft 1M @");
    refused("soft", &soft, 1, &["hard limits only"]);
    mounted.unmount();
}

/// Once, each was refused since a question is written, and nobody saw who uses how much.
#[test]
fn a_mount_with_ro_tells_use_limits_and_heat() {
    let below = Below::tmpfs();
    fs::write(below.at("f"), vec![1; 8192]).unwrap();
    chown(below.at("f"), Some(USER), None).unwrap();
    let mounted = over(&below, "quota=wait");
    let set = format!("set user:{USER} --hard 1M @");
    done(&mounted, &set);
    let report = done(&mounted, "report @");
    mounted.unmount();
    let mounted = over(&below, "quota=wait,hot_track,ro");
    assert_eq!(used(&mounted, &format!("user:{USER}")), (8192, 1));
    assert_eq!(used(&mounted, "user:77"), (0, 0));
    let said_now = done(&mounted, "report @");
    // Each report has a head with the mount point.
    let is_head = |line: &&str| line.starts_with("***");
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !is_head(line));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(lines(&said_now), lines(&report));
    fs::read(mounted.at("f")).unwrap();
    let top = succeed(hearth().args(["heat", "top"]).arg(mounted.path()));
    assert!(top.contains("hottest by"), "{top}");
    succeed(hearth().arg("sync").arg(mounted.path()));
    refused(&set, &quota(&mounted, &set), 1, &["mounted with ro", "rw"]);
    mounted.unmount();
    let mounted = over(&below, "ro");
    let none = quota(&mounted, "report @");
    refused("report", &none, 1, &["keeps no quotas", "quota=wait"]);
    mounted.unmount();
}

/// Once, the 34 GiB of the filesystem below were shown as never used of 3 MB that were served.
#[test]
fn what_a_directory_holds_is_what_the_ledger_says() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("in")).unwrap();
    fs::write(below.at("in/f"), vec![1; 8192]).unwrap();
    fs::write(below.at("beside"), vec![1; 1 << 20]).unwrap();
    let state = below.path().with_file_name("state");
    let options = format!("hot_track,state={}", state.display());
    let histogram = |mounted: &Mounted| {
        let mut histogram = hearth();
        histogram.args(["heat", "histogram"]).arg(mounted.path());
        succeed(&mut histogram)
    };
    let counted = format!("quota=wait,{options}");
    let mounted = Mounted::over(Transport::Dev, &below.at("in"), &counted);
    assert_eq!(mounted.stat("hearth_inodes"), 2.0);
    assert_eq!(mounted.stat("hearth_page_bytes"), 8192.0);
    let shown = histogram(&mounted);
    assert!(shown.contains("never used          8 KiB"), "{shown}");
    mounted.unmount();
    let mounted = Mounted::over(Transport::Dev, &below.at("in"), &options);
    let shown = histogram(&mounted);
    assert!(!shown.contains("never used"), "{shown}");
    let mut top = hearth();
    let shown = succeed(top.args(["top", "--once", "--json"]).arg(mounted.path()));
    assert!(shown.contains("\"of_filesystem_below\":true"), "{shown}");
    mounted.unmount();
}

/// Of options that contradict each other the last one holds, as of `ro` and `rw`.
#[test]
fn of_quota_and_noquota_the_last_one_holds() {
    let below = Below::tmpfs();
    for (options, is_kept) in [
        ("quota,noquota", false),
        ("noquota,quota", true),
        ("quota=background,quota=off", false),
        ("quota=off,quota", true),
        ("noquota,quota=wait", true),
    ] {
        let mounted = over(&below, options);
        let report = quota(&mounted, "report @");
        assert_eq!(report.success(), is_kept, "{options}: {report:?}");
        mounted.unmount();
    }
}

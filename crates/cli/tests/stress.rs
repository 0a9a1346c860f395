//! Load generators that check what they read: fs_mark, dbench, stress-ng, fio.

mod harness;

use harness::{Mounted, Transport, program, seed, succeed};

harness::on_both_transports!(
    fs_mark_makes_all_its_files,
    dbench_runs_with_four_clients,
    stress_ng_verifies_every_file_stressor,
    stress_ng_verifies_while_every_request_is_suspended,
    fio_reads_back_what_it_wrote,
);

/// All of the class `filesystem` that are about one: not those of bind mounts, binder, events, I/O
/// priorities and /proc. Each checks its own work (`--verify`). Together they would leave the last
/// on a busy machine no time at all.
const STRESSORS: [&str; 5] = [
    "--access 1 --chattr 1 --chmod 1 --chown 1 --copy-file 1 --copy-file-bytes 128m --dentry 1 \
     --dir 1 --dirdeep 1 --dirmany 1",
    "--chdir 1 --chdir-dirs 256 --dnotify 1 --dup 1 --fallocate 1 --fallocate-bytes 16m \
     --fanotify 1 --fcntl 1 --file-ioctl 1 --filename 1 --flock 1 --fpunch 1",
    "--fsize 1 --fstat 1 --getdent 1 --handle 1 --hdd 1 --hdd-bytes 16m --inode-flags 1 \
     --inotify 1 --io 1 --iomix 1 --iomix-bytes 16m",
    "--lease 1 --link 1 --locka 1 --lockf 1 --lockofd 1 --mknod 1 --open 1 --readahead 1 \
     --readahead-bytes 16m --rename 1 --revio 1",
    "--seek 1 --sendfile 1 --splice 1 --symlink 1 --sync-file 1 --touch 1 --utime 1 --xattr 1",
];
/// The kernel has no FIEMAP and no fs-verity for any FUSE filesystem.
const ABSENT: &str = "--fiemap 1 --verity 1";

fn fs_mark_makes_all_its_files(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let log = mounted.outside("fs_mark").join("log");
    mounted.shell("mkdir d");
    let mut fs_mark = program("fs_mark");
    fs_mark
        // A directory each: two threads that begin in different seconds may draw the same names.
        .args("-d d/a -d d/b -n 1000 -s 4096 -S 1 -L 2 -k -l".split(' '))
        .arg(log);
    let out = succeed(fs_mark.current_dir(mounted.path()));
    assert!(out.contains("Files/sec"), "{out}");
    let files = mounted.shell("find d -type f -size 4096c | wc -l");
    assert_eq!(
        files.trim(),
        "4000",
        "2 threads, 2 rounds, 1,000 files each:\n{out}"
    );
}

fn dbench_runs_with_four_clients(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let out = mounted.shell("dbench -c /usr/share/dbench/client.txt -t 5 -D . 4");
    let line = out.lines().rfind(|line| line.starts_with("Throughput"));
    assert!(line.is_some_and(|line| line.contains("4 clients")), "{out}");
    // It goes on after a call that answered what its script does not expect, and says so. Without
    // its semaphore, for which it takes the first of a machine to be none, its clients begin one
    // after the other.
    let wrong = out.lines().find(|line| {
        (line.contains("expected") || line.contains("failed")) && !line.contains("semaphore")
    });
    assert_eq!(wrong, None, "{out}");
}

fn stress_ng_verifies_every_file_stressor(transport: Transport) {
    stress(transport, "", 3);
}

fn stress_ng_verifies_while_every_request_is_suspended(transport: Transport) {
    stress(transport, "park=every", 2);
}

fn stress(transport: Transport, options: &str, seconds: u32) {
    let mounted = Mounted::new(transport, options);
    for stressors in STRESSORS {
        let out = stress_ng(&mounted, &format!("{stressors} -t {seconds}"));
        assert!(out.contains("successful run completed"), "{out}");
        assert!(!out.contains("skipp"), "{out}");
        let names = stressors.split("--");
        for stressor in names.filter_map(|word| word.trim().strip_suffix(" 1")) {
            // It may need all its time to begin with, and seek has its own below. One that came to
            // the processor when the time was up is not in the table: it has its time by itself.
            if operations(&out, stressor).is_none() {
                let alone = stress_ng(&mounted, &format!("--{stressor} 1 -t 10"));
                assert!(operations(&alone, stressor).is_some(), "{out}{alone}");
            }
        }
    }
    let out = stress_ng(&mounted, &format!("{ABSENT} -t 1"));
    assert_eq!(out.matches("skipping").count(), 2, "{out}");
    // seek sees a size that is out of date: it runs until it has done something, however long.
    let out = stress_ng(&mounted, "--seek 1 --seek-ops 2000");
    let seeks = operations(&out, "seek");
    assert!(seeks.is_some_and(|count| count >= 2000), "{out}");
}

/// How many operations a stressor says that it did.
fn operations(out: &str, stressor: &str) -> Option<u64> {
    let name = format!("] {stressor} ");
    let count = |line: &str| {
        line.split_once(&name)?
            .1
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    out.lines().find_map(count)
}

fn stress_ng(mounted: &Mounted, what: &str) -> String {
    let mut stress_ng = program("stress-ng");
    stress_ng
        .args(what.split_whitespace())
        .args("--verify --metrics-brief --stdout --temp-path .".split(' '))
        .args(["--seed", &seed().to_string()]);
    succeed(stress_ng.current_dir(mounted.path()))
}

fn fio_reads_back_what_it_wrote(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    for (name, how) in [
        ("sequential", "--rw=write --bs=128k --ioengine=psync"),
        ("random", "--rw=randwrite --bs=4k --ioengine=psync"),
        ("mapped", "--rw=randwrite --bs=4k --ioengine=mmap"),
        ("direct", "--rw=randrw --bs=16k --ioengine=psync --direct=1"),
    ] {
        let mut fio = program("fio");
        fio.args([
            &format!("--name={name}"),
            "--size=32m",
            "--numjobs=2",
            "--verify=crc32c",
        ]);
        fio.args(["--verify_fatal=1", "--do_verify=1", "--group_reporting"]);
        fio.args(how.split(' '))
            .arg(format!("--randseed={}", seed()));
        let out = succeed(fio.current_dir(mounted.path()));
        assert!(out.contains("err= 0"), "{out}");
    }
}

//! Load generators that check what they read: fs_mark, dbench, stress-ng, fio.

mod harness;

use harness::{Mount, TRANSPORTS, seed};

/// Every stressor checks its own work (`--verify`); seek among them, which once found a stale size
/// under the writeback cache.
const STRESSORS: &str = "\
    --dentry 1 --dir 1 --dirdeep 1 --dirmany 1 --hdd 1 --hdd-bytes 16m --rename 1 --link 1 \
    --symlink 1 --fallocate 1 --fallocate-bytes 16m --utime 1 --xattr 1 --seek 1 --sync-file 1 \
    --flock 1 --lockf 1 --fcntl 1 --filename 1 --open 1 --iomix 1 --iomix-bytes 16m --fstat 1 \
    --chmod 1 --chown 1 --copy-file 1 --copy-file-bytes 128m --getdent 1 --access 1 --mknod 1 \
    --readahead 1 --readahead-bytes 16m --fpunch 1 --lease 1 --locka 1 --lockofd 1 --acl 1 \
    --metamix 1 --metamix-bytes 16m";

#[test]
fn fs_mark_writes_its_files() {
    for transport in TRANSPORTS {
        let mount = Mount::start(transport, &[]);
        let out = mount.shell(120, "fs_mark -d d -n 2000 -s 4096 -t 2 -S 0 -L 2 -k -l ../fsmark.log");
        assert!(out.contains("Files/sec"), "{out}");
        let files = mount.shell(60, "find d -type f -size 4096c | wc -l");
        assert_eq!(files.trim(), "8000");
        mount.finish();
    }
}

#[test]
fn dbench_runs_with_four_clients() {
    for transport in TRANSPORTS {
        let mount = Mount::start(transport, &[]);
        let out = mount.shell(120, "dbench -c /usr/share/dbench/client.txt -t 8 -D . 4");
        let line = out.lines().rfind(|line| line.starts_with("Throughput"));
        assert!(line.is_some_and(|line| line.contains("4 clients")), "{out}");
        mount.finish();
    }
}

#[test]
fn stress_ng_verifies_every_file_stressor() {
    for transport in TRANSPORTS {
        let mount = Mount::start(transport, &[]);
        let seed = seed();
        let out = mount.shell(
            240,
            &format!(
                "stress-ng --temp-path . {STRESSORS} --sequential 1 --verify -t 1 \
                 --seed {seed} --metrics-brief 2>&1"
            ),
        );
        assert!(out.contains("successful run completed"), "{out}");
        let seek = out.lines().find(|line| line.contains(" seek "));
        assert!(seek.is_some(), "the seek stressor did not run:\n{out}");
        mount.finish();
    }
}

#[test]
fn stress_ng_verifies_all_stressors_at_once() {
    let mount = Mount::start("uring", &[]);
    let seed = seed();
    let out = mount.shell(
        240,
        &format!("stress-ng --temp-path . {STRESSORS} --verify -t 20 --seed {seed} 2>&1"),
    );
    assert!(out.contains("successful run completed"), "{out}");
    mount.finish();
}

#[test]
fn fio_reads_back_what_it_wrote() {
    for transport in TRANSPORTS {
        let mount = Mount::start(transport, &[]);
        for (name, how) in [
            ("sequential", "--rw=write --bs=128k --ioengine=psync"),
            ("random", "--rw=randwrite --bs=4k --ioengine=psync"),
            ("mmap", "--rw=randwrite --bs=4k --ioengine=mmap"),
            ("direct", "--rw=randrw --bs=16k --ioengine=psync --direct=1"),
        ] {
            let out = mount.shell(
                120,
                &format!(
                    "fio --name={name} --size=48m --numjobs=2 {how} --verify=crc32c \
                     --verify_fatal=1 --do_verify=1 --group_reporting --randseed={}",
                    seed()
                ),
            );
            assert!(out.contains("err= 0"), "{out}");
        }
        mount.finish();
    }
}

//! What requests that a rate limit delays hold in the daemon.

use super::harness::{self, Mounted, Transport};
use super::shown::tenant;
use super::tenants::{done, project};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

harness::on_both_transports!(writes_that_a_ceiling_delays_take_little_memory);

/// Regression: each write that was delayed kept its data: a gigabyte for a thousand threads that
/// write from one buffer.
fn writes_that_a_ceiling_delays_take_little_memory(transport: Transport) {
    const WRITERS: u64 = 160;
    // One request, wherever the data begins in its page.
    const WRITE: usize = (1 << 20) - 4096;
    let mounted = Mounted::new(transport, "direct_io");
    drop(project(&mounted, 7, WRITE));
    let file = File::options().write(true).open(mounted.at("p7/file"));
    let (file, data) = (file.unwrap(), vec![8; WRITE]);
    let charged = || tenant(&mounted, "project:7")["charged_bytes"].as_u64();
    let before = (anonymous(&mounted), charged().unwrap());
    done(&mounted, "limit project:7 --bw 1M @");
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| scope.spawn(|| file.write_at(&data, 0)))
            .collect();
        while charged().unwrap() < before.1 + WRITERS * WRITE as u64 {
            thread::sleep(Duration::from_millis(10));
        }
        let held = anonymous(&mounted).saturating_sub(before.0) >> 20;
        let ended = writers.iter().filter(|writer| writer.is_finished()).count();
        done(&mounted, "limit project:7 --bw none @");
        for writer in writers {
            assert_eq!(
                writer.join().unwrap().unwrap(),
                WRITE,
                "all of it is written"
            );
        }
        assert!(held < 64, "{held} MiB");
        assert!(ended < WRITERS as usize / 2, "{ended} have not waited");
    });
    assert_eq!(std::fs::read(mounted.at("p7/file")).unwrap(), data);
}

/// Bytes of memory of the daemon that are no file's.
fn anonymous(mounted: &Mounted) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", mounted.daemon())).unwrap();
    let mut lines = status.lines();
    let line = lines
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    let kib = line.trim().trim_end_matches("kB").trim();
    kib.parse::<u64>().unwrap() << 10
}

//! The process that looks into mounts never outlives the one that asks it.

use super::server::{Server, get};
use super::typed;
use crate::harness::{Mounted, Transport, hearth, pids_naming, program, succeed, until};
use std::fs;
use std::time::{Duration, Instant};

/// How long the worker of these tests would wait for a mount.
const TIMEOUT: &str = "--timeout=50s";

/// Whether a worker waits for a mount right now.
fn is_asking(worker: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{worker}/task")) else {
        return false;
    };
    let names = tasks.flatten().map(|task| task.path().join("comm"));
    let mut names = names.filter_map(|name| fs::read_to_string(name).ok());
    names.any(|name| name.trim_end() == "hearth-ask")
}

fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that nobody has waited for has ended.
    !stat.is_empty() && !stat.contains(") Z ")
}

fn send(signal: &str, pid: u32) {
    succeed(program("kill").args([signal, &pid.to_string()]));
}

#[test]
fn a_worker_ends_with_the_server_that_asks_it_however_that_ends() {
    for signal in ["-TERM", "-INT", "-KILL"] {
        for is_busy in [false, true] {
            let mounted = Mounted::new(Transport::Dev, "");
            let daemon = mounted.daemon();
            let server = Server::start(&["--listen", "127.0.0.1:0", TIMEOUT, typed(&mounted)]);
            assert!(server.page().contains("hearth_up"));
            let (worker, place) = (server.worker(), server.place().to_owned());
            let scrape = is_busy.then(|| {
                send("-STOP", daemon);
                // Cut off in the middle: whatever comes of it is right.
                std::thread::spawn(move || {
                    std::panic::catch_unwind(|| get(&place, "GET /metrics HTTP/1.1\r\n\r\n"))
                })
            });
            if is_busy {
                until("the worker waits for the mount", || is_asking(worker));
            }
            let begin = Instant::now();
            send(signal, server.pid());
            until("the worker has ended", || !is_there(worker));
            let took = begin.elapsed();
            send("-CONT", daemon);
            assert!(
                took < Duration::from_secs(20),
                "{signal} {is_busy}: {took:?}"
            );
            let _ = scrape.map(std::thread::JoinHandle::join);
        }
    }
}

#[test]
fn a_page_that_is_printed_once_leaves_no_process_behind() {
    let mounted = Mounted::new(Transport::Dev, "");
    let daemon = mounted.daemon();
    for _ in 0..10 {
        succeed(hearth().args(["metrics", typed(&mounted)]));
        assert_eq!(pids_naming(mounted.path()), [daemon]);
    }
}

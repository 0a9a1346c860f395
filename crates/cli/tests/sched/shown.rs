//! What `hearth sched` shows of a mount, to people and to programs.

use super::harness::{self, Mounted, Transport, hearth};
use super::tenants::{done, project};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

harness::on_both_transports!(
    what_was_set_and_done_is_shown,
    a_parked_request_ends_on_the_core_that_took_it,
);

pub fn report(mounted: &Mounted) -> Value {
    serde_json::from_str(&done(mounted, "@ --json")).unwrap()
}

pub fn tenant(mounted: &Mounted, who: &str) -> Value {
    let report = report(mounted);
    let mut tenants = report["tenants"].as_array().unwrap().iter();
    tenants
        .find(|tenant| tenant["tenant"] == who)
        .cloned()
        .unwrap_or(Value::Null)
}

fn what_was_set_and_done_is_shown(transport: Transport) {
    let mounted = Mounted::new(transport, "direct_io");
    let file = project(&mounted, 7, 4096);
    for _ in 0..100 {
        file.read_exact_at(&mut [0; 10], 0).unwrap();
    }
    done(&mounted, "weight project:7 250 @");
    done(&mounted, "weight user:daemon 50 @");
    done(&mounted, "limit user:daemon --iops 5k --bw 200M @");
    done(&mounted, "limit user:daemon --iops 6k @");

    let seen = tenant(&mounted, "project:7");
    // Whoever met a request of another tenant waited for it; nobody for a ceiling.
    let waits = seen["wait_ns"].as_array().unwrap().iter();
    let waited: u64 = waits.map(|cell| cell[1].as_u64().unwrap()).sum();
    let at_once = seen["at_once"].as_u64().unwrap();
    assert!(at_once >= 90, "{seen}");
    assert_eq!(seen["requests"], at_once + waited, "{seen}");
    assert_eq!(
        (&seen["weight"], &seen["wait_p50_ns"], &seen["throttled_ns"]),
        (&250.into(), &0.into(), &0.into())
    );
    assert!(seen["share"].as_f64() > Some(0.0), "{seen}");
    let daemon = tenant(&mounted, "user:1");
    assert_eq!(
        (&daemon["iops"], &daemon["bw"]),
        (&6_000.into(), &(200 << 20).into())
    );
    assert_eq!(tenant(&mounted, "user:0")["weight"], 100);

    let report = report(&mounted);
    let cores = report["cores"].as_array().unwrap();
    let served = cores.iter().filter_map(|core| core["served"].as_u64());
    // However many cores they came to.
    assert!(cores.len() > 1 && served.sum::<u64>() > 100, "{cores:?}");
    assert!(
        cores
            .iter()
            .all(|core| core["run_ns"].is_array() && core["wait_ns"].is_array())
    );

    let text = done(&mounted, "@");
    assert_eq!(
        text.lines().next().unwrap().split_whitespace().next(),
        Some("core")
    );
    let line = text
        .lines()
        .find(|line| line.ends_with("user:daemon"))
        .unwrap();
    assert!(
        line.contains("6000") && line.contains("209715200"),
        "{line}"
    );
    let raw = std::fs::read_to_string(mounted.at(".hearth/sched")).unwrap();
    assert!(
        raw.contains("project:7") && raw.contains("user:1\n"),
        "{raw}"
    );
}

/// Every request is suspended and resumed; the clients wait, so no desk has more than it can do.
fn a_parked_request_ends_on_the_core_that_took_it(transport: Transport) {
    const READS: u64 = 3_000;
    let mounted = Mounted::new(transport, "direct_io,park=every,workers=2");
    let file = project(&mounted, 7, 4096);
    let sum = |report: &Value, what: &str| -> u64 {
        let cores = report["cores"].as_array().unwrap().iter();
        cores.map(|core| core[what].as_u64().unwrap()).sum()
    };
    // Those that help take from a desk that is behind: whose thread had no processor for 1 ms.
    // Beside other programs that may be so once, and not three times.
    let few = (0..3).any(|_| {
        let before = report(&mounted);
        for _ in 0..READS {
            file.read_exact_at(&mut [0; 10], 0).unwrap();
        }
        let after = report(&mounted);
        let moved = |what| sum(&after, what) - sum(&before, what);
        assert!(moved("switches") >= READS, "{after}");
        assert_eq!(moved("given"), moved("stolen"), "{after}");
        assert!(moved("steals") <= moved("stolen"), "{after}");
        moved("given") <= READS / 20
    });
    assert!(few, "{}", report(&mounted));
    let seen = tenant(&mounted, "project:7");
    let wait = |name: &str| seen[name].as_u64().unwrap();
    assert!(
        wait("requests") >= READS && wait("at_once") <= READS / 20,
        "{seen}"
    );
    assert!(0 < wait("wait_p50_ns"), "{seen}");
    assert!(wait("wait_p50_ns") <= wait("wait_p99_ns"), "{seen}");
    assert!(wait("wait_p99_ns") <= wait("wait_max_ns"), "{seen}");
    if transport == Transport::Uring {
        // The ring of the processor that the reader is on, and no other.
        on_one_processor_its_desk_does_it_all(&mounted, &file, READS);
    }
}

fn on_one_processor_its_desk_does_it_all(mounted: &Mounted, file: &File, reads: u64) {
    let switches = || -> Vec<u64> {
        let report = report(mounted);
        let cores = report["cores"].as_array().unwrap().iter();
        cores
            .map(|core| core["switches"].as_u64().unwrap())
            .collect()
    };
    let before = switches();
    let mut first = CpuSet::new();
    first.set(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            sched_setaffinity(None, &first).unwrap();
            for _ in 0..reads {
                file.read_exact_at(&mut [0; 10], 0).unwrap();
            }
        });
    });
    let rose = switches().into_iter().zip(before);
    let rose: Vec<u64> = rose.map(|(after, before)| after - before).collect();
    let most = rose.iter().max().unwrap();
    assert!(*most >= reads * 19 / 20, "{rose:?}");
}

#[test]
fn watching_prints_again_until_it_is_interrupted() {
    let mounted = Mounted::new(Transport::Dev, "");
    let mut watch = hearth();
    watch.args(["sched", "--watch"]).arg(mounted.path());
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(2500));
    // Not SIGINT: who runs the tests in the background has it ignored.
    let _ = Command::new("kill")
        .args(["-TERM", &watch.id().to_string()])
        .status();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut watch.stdout.take().unwrap(), &mut text).unwrap();
    watch.wait().unwrap();
    let tables = text.matches("core driven").count();
    assert!((2..=3).contains(&tables), "{text}");
}

#[test]
fn watching_for_programs_prints_one_object_after_the_other() {
    let mounted = Mounted::new(Transport::Dev, "");
    let mut watch = hearth();
    watch
        .args(["sched", "--watch", "--json"])
        .arg(mounted.path());
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(watch.stdout.take().unwrap());
    let reports = serde_json::Deserializer::from_reader(said).into_iter::<Value>();
    for report in reports.take(2) {
        let report = report.unwrap();
        assert!(report["cores"].is_array() && report["tenants"].is_array());
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
}

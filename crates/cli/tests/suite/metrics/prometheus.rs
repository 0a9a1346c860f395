//! A real Prometheus scrapes a busy mount: each query of the board and each alert has an answer.

use super::alerts::folder;
use super::board::Board;
use super::server::{Server, get};
use super::{documented, typed};
use crate::harness::{Mounted, Transport, hearth, succeed, tool, until};
use hearth_testing::threads::SetOnDrop;
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A server of Prometheus, ended when it is dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(directory: &Path, scraped: &str) -> Prometheus {
        let rules = folder().join("hearth.rules.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [\"{}\"]\n\
             scrape_configs:\n\
             - {{job_name: hearth, static_configs: [{{targets: [\"{scraped}\"]}}]}}\n",
            rules.display()
        );
        let file = directory.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        // Nobody else is given this port in the moment between.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = Command::new(tool("prometheus"));
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdin(Stdio::null());
        let child = command.spawn().expect("prometheus starts");
        let prometheus = Prometheus { child, address };
        until("prometheus listens", || {
            std::net::TcpStream::connect(&prometheus.address).is_ok()
        });
        prometheus
    }

    /// The data of an answer of its interface, null if it has none yet.
    fn ask(&self, path: &str) -> Value {
        let reply = get(&self.address, &format!("GET {path} HTTP/1.0\r\n\r\n"));
        let (_, body) = reply.split_once("\r\n\r\n").expect("a head");
        let json: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        assert!(json["status"] != "error", "{path}: {body}");
        json["data"].clone()
    }

    /// Whether a query has an answer with a number in it.
    fn answers(&self, query: &str) -> bool {
        let data = self.ask(&format!("/api/v1/query?query={}", encoded(query)));
        let rows = data["result"].as_array().into_iter().flatten();
        let is_number = |row: &Value| row["value"][1].as_str().is_some_and(|v| v != "NaN");
        rows.filter(|row| is_number(row)).count() > 0
    }

    /// The expressions of the alerts, once all were evaluated well.
    fn alerts(&self) -> Vec<String> {
        let mut alerts = Vec::new();
        until("every alert is evaluated", || {
            let data = self.ask("/api/v1/rules?type=alert");
            let groups = data["groups"].as_array().into_iter().flatten();
            let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
            let rules: Vec<&Value> = rules.collect();
            let bad = |rule: &&Value| rule["health"] == "err";
            assert!(!rules.iter().any(bad), "{rules:?}");
            alerts = rules
                .iter()
                .map(|rule| rule["query"].as_str().unwrap().to_owned())
                .collect();
            rules.len() > 10 && rules.iter().all(|rule| rule["health"] == "ok")
        });
        alerts
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Perhaps it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// An alert as a comparison that answers 0 or 1, also while it does not hold.
fn answered(alert: &str) -> String {
    let word = |word: &str| match word {
        "==" | "!=" | "<" | ">" | "<=" | ">=" => format!("{word} bool"),
        _ => word.to_owned(),
    };
    alert.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Two tenants, limits, a lock profile.
fn prepare(mounted: &Mounted) {
    let hearth_program = hearth();
    let program = hearth_program.get_program().to_str().unwrap();
    mounted.shell(&format!(
        "mkdir p; echo exact > .hearth/locks
         {program} quota project p 7
         {program} quota set project:7 --soft 4KiB --hard 64MiB --inodes-hard 5000 .
         dd if=/dev/zero of=p/above bs=8K count=1 status=none"
    ));
}

/// What programs do, once.
fn work(mounted: &Mounted) {
    for directory in ["", "p/"] {
        let name = |name: &str| mounted.at(format!("{directory}{name}"));
        std::fs::write(name("a"), "text").unwrap();
        assert_eq!(std::fs::read(name("a")).unwrap(), b"text");
        std::fs::rename(name("a"), name("b")).unwrap();
        std::fs::read_dir(name("")).unwrap().count();
        std::fs::remove_file(name("b")).unwrap();
        std::fs::metadata(name("none")).unwrap_err();
    }
}

#[test]
fn every_query_of_the_board_and_every_alert_has_an_answer_from_a_busy_mount() {
    let mounted = Mounted::new(Transport::Dev, "create,quota,hot_track");
    prepare(&mounted);
    let server = Server::start(&[typed(&mounted), "--listen", "127.0.0.1:0"]);
    let prometheus = Prometheus::start(&mounted.outside("prometheus"), server.place());
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetOnDrop(&end);
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                work(&mounted);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        for query in Board::read().queries("10s") {
            until(&query, || prometheus.answers(&query));
        }
        for alert in prometheus.alerts() {
            let query = answered(&alert);
            assert_ne!(query, alert, "an alert compares");
            until(&query, || prometheus.answers(&query));
        }
        assert!(!prometheus.answers("hearth_no_such_metric"));
        documented(&server.page());
    });
    succeed(Command::new("sync").arg("-f").arg(mounted.path()));
}

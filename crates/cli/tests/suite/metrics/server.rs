//! A server under test, and the least of a client.

use crate::harness::{hearth, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `hearth metrics --listen`, ended when it is dropped.
pub struct Server {
    child: Child,
    /// `unix:PATH` or `127.0.0.1:PORT`.
    place: String,
}

impl Server {
    /// Starts it with what is typed behind `hearth metrics`, and waits until it listens.
    pub fn start(typed: &[&str]) -> Server {
        let mut command = hearth();
        command.arg("metrics").args(typed).stdout(Stdio::piped());
        let mut child = command.spawn().expect("hearth starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let place = line
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("{line:?}"));
        let place = place.trim_end().trim_start_matches("http://");
        let place = place.trim_end_matches("/metrics").to_owned();
        Server { child, place }
    }

    /// Where it listens.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process that looks into mounts for it, after a first scrape.
    pub fn worker(&self) -> u32 {
        let mut worker = None;
        // It is the child of the thread that served the scrape, and then of another one: it is in
        // neither list if that thread ends between a look at the one and at the other.
        until("there is a worker", || {
            worker = self.children().split_whitespace().next().map(str::to_owned);
            worker.is_some()
        });
        worker.expect("a worker").parse().expect("a number")
    }

    /// The children of its threads.
    fn children(&self) -> String {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let lists = tasks.expect("it runs").flatten();
        let lists = lists.map(|task| task.path().join("children"));
        lists
            .filter_map(|list| std::fs::read_to_string(list).ok())
            .collect()
    }

    /// What a scrape gets.
    pub fn page(&self) -> String {
        let reply = get(&self.place, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{reply}");
        let length = format!("Content-Length: {}\r\n", body.len());
        assert!(head.contains(&length), "{length} {head}");
        body.to_owned()
    }

    /// Asks it to end, which it has to do well.
    pub fn end(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Perhaps it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request; all that comes back.
pub fn get(place: &str, request: &str) -> String {
    match place.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path).expect("a connection");
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            exchange(stream, request)
        }
        None => {
            let stream = TcpStream::connect(place).expect("a connection");
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            exchange(stream, request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    reply
}

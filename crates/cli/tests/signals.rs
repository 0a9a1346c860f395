//! Signals to those who wait for an answer of the mount.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::{Mounted, Transport, until};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

harness::on_both_transports!(
    a_signal_ends_the_wait_for_a_lock,
    a_signal_that_comes_before_the_daemon_has_the_request_ends_the_wait,
);

/// Says that it has the file, and wants the lock when it is told to.
const WANTS_LOCK: &str = "exec 9< \"$0\"; echo open; read -r; exec flock 9";

struct Client(Child);

impl Client {
    /// It has the file `f` open.
    fn begin(mounted: &Mounted) -> Client {
        let mut bash = Command::new("bash");
        bash.args(["-c", WANTS_LOCK]).arg(mounted.at("f"));
        bash.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = Client(bash.spawn().unwrap());
        let mut said = String::new();
        let out = client.0.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut said).unwrap();
        assert_eq!(said, "open\n");
        client
    }

    /// It wants the lock, and waits in the kernel for the answer.
    fn wants_lock(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let stack = format!("/proc/{}/stack", self.0.id());
        until("the client waits for a lock", || {
            std::fs::read_to_string(&stack).is_ok_and(|stack| stack.contains("fuse_setlk"))
        });
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// The signal that has ended it.
    fn end(&mut self) -> Option<i32> {
        let mut status = None;
        until("the client ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().signal()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// A file with a lock that stays.
fn locked(mounted: &Mounted) -> File {
    let file = File::create(mounted.at("f")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

fn a_signal_ends_the_wait_for_a_lock(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let _holder = locked(&mounted);
    for signal in [Signal::TERM, Signal::KILL] {
        let mut client = Client::begin(&mounted);
        client.wants_lock();
        client.send(signal);
        assert_eq!(client.end(), Some(signal.as_raw()));
    }
}

/// Linux sends no INTERRUPT over io_uring when the signal comes before the ring's thread has taken
/// the request: the client would wait until the lock is free, and nobody could kill it.
fn a_signal_that_comes_before_the_daemon_has_the_request_ends_the_wait(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let _holder = locked(&mounted);
    // No program is started while it is stopped: that closes files of the mount.
    let daemon = mounted.daemon() as i32;
    let tell_daemon = |what| kill_process(Pid::from_raw(daemon).unwrap(), what).unwrap();
    for signal in [Signal::TERM, Signal::KILL] {
        let mut client = Client::begin(&mounted);
        tell_daemon(Signal::STOP);
        client.wants_lock();
        client.send(signal);
        let status = format!("/proc/{}/status", client.0.id());
        until("the signal has come", || {
            std::fs::read_to_string(&status)
                .map_or(true, |status| !status.contains("State:\tS (sleeping)"))
        });
        tell_daemon(Signal::CONT);
        assert_eq!(client.end(), Some(signal.as_raw()));
    }
}

//! The processes of a race. Each is this very program, started again, and lives for many rounds.

use super::log::Log;
use super::notes::{End, read};
use super::task::{Talk, Task};
use super::worker::Worker;
use super::{GROUPS, RACERS, bus};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

const VARIABLE: &str = "HEARTH_RACER";
/// What a racer says when it has done what it was told.
const DONE: &str = "done";

/// All of them.
pub(crate) struct Crew(Vec<Racer>);

struct Racer {
    child: Child,
    talk: Talk,
}

impl Crew {
    pub(crate) fn start() -> Crew {
        Crew((0..RACERS).map(|_| Racer::start()).collect())
    }

    /// Everybody races in his own way.
    pub(crate) fn race(&mut self, tasks: &[Task]) -> (Vec<Log>, Vec<End>) {
        assert_eq!(tasks.len(), self.0.len());
        for (racer, task) in self.0.iter_mut().zip(tasks) {
            racer.talk.say(&[format!("race {}", task.line())]);
        }
        self.collect()
    }

    /// Everybody takes what there is.
    pub(crate) fn demand(&mut self) -> (Vec<Log>, Vec<End>) {
        self.tell("demand");
        self.collect()
    }

    /// Everybody removes what is his.
    pub(crate) fn clean(&mut self) {
        self.tell("clean");
        self.collect();
    }

    fn tell(&mut self, order: &str) {
        for racer in &mut self.0 {
            racer.talk.say(&[order.to_owned()]);
        }
    }

    /// What everybody has to say until he is done.
    fn collect(&mut self) -> (Vec<Log>, Vec<End>) {
        let (mut logs, mut ends) = (Vec::new(), Vec::new());
        for (number, racer) in self.0.iter_mut().enumerate() {
            let mut log = Log::default();
            loop {
                match racer.talk.hear() {
                    Some(line) if line == DONE => break,
                    Some(line) => read(&line, &mut log, &mut ends),
                    None => panic!("racer {number} failed: {:?}", racer.child.wait()),
                }
            }
            logs.push(log);
        }
        (logs, ends)
    }
}

impl Racer {
    fn start() -> Racer {
        let this = std::env::current_exe().expect("this program");
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        let child = Command::new(this)
            .args(["racer", "--exact", "--nocapture", "--test-threads", "1"])
            .env(VARIABLE, "1")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .expect("this program");
        Racer {
            child,
            talk: Talk::over(ours),
        }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        // It has nothing to tell any more, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The life of a racer, in a process that was started as one.
pub(crate) fn run_if_asked() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    bus::catch();
    let stdin = std::io::stdin();
    let socket = stdin.as_fd().try_clone_to_owned().expect("a descriptor");
    let mut talk = Talk::over(UnixStream::from(socket));
    let mut worker = None;
    while let Some(order) = talk.hear() {
        let (verb, rest) = order.split_once(' ').unwrap_or((&order, ""));
        let lines = obey(verb, rest, &mut worker);
        talk.say(&lines);
    }
}

/// Does what it is told; what there is to say.
fn obey(verb: &str, rest: &str, worker: &mut Option<Worker>) -> Vec<String> {
    if verb == "race" {
        let task = Task::parse(rest);
        become_user(&task);
        *worker = Some(Worker::new(task));
    }
    let worker = worker.as_mut().expect("who races first");
    match verb {
        "race" => {
            worker.race();
            worker.settle();
        }
        "demand" => worker.demand(),
        "clean" => worker.clean(),
        _ => panic!("nobody knows how to '{verb}'"),
    }
    let mut lines = worker.take_notes().into_lines();
    lines.push(DONE.to_owned());
    lines
}

/// Acts for the user and the group of a task, and is in every group.
fn become_user(task: &Task) {
    // Root can always be had again: its number is kept as the saved one.
    let root = Uid::ROOT;
    set_thread_res_uid(root, root, root).expect("it was root");
    let groups: Vec<Gid> = GROUPS.map(Gid::from_raw).collect();
    set_thread_groups(&groups).expect("root chooses groups");
    let gid = Gid::from_raw(task.gid);
    set_thread_res_gid(gid, gid, gid).expect("root chooses its group");
    let uid = Uid::from_raw(task.uid);
    set_thread_res_uid(uid, uid, root).expect("root chooses its user");
}

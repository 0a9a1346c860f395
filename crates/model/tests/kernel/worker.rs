//! A thread that acts as a process: it has its own descriptor table, current directory, root,
//! umask and credentials, because Linux keeps all of them per thread if asked to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use hearth_model::{Op, Outcome};

use crate::calls::{self, call};

/// The handle of such a thread; dropping it ends the "process".
pub struct Worker {
    ops: Option<Sender<Op>>,
    outcomes: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
}

enum Reply {
    Outcome(Outcome),
    Forked(Worker),
}

impl Worker {
    pub fn apply(&self, op: &Op) -> Outcome {
        match self.ask(op) {
            Reply::Outcome(outcome) => outcome,
            Reply::Forked(_) => unreachable!("only fork makes processes"),
        }
    }

    pub fn fork(&self) -> Worker {
        match self.ask(&Op::Fork) {
            Reply::Forked(child) => child,
            Reply::Outcome(_) => unreachable!("fork makes a process"),
        }
    }

    fn ask(&self, op: &Op) -> Reply {
        let ops = self.ops.as_ref().expect("open until drop");
        ops.send(op.clone())
            .expect("the worker waits for operations");
        self.outcomes
            .recv()
            .expect("the worker answers every operation")
    }

    /// Starts a thread that shares nothing further with its creator but begins as its copy.
    pub fn spawn(prepare: Box<dyn FnOnce() + Send>) -> Worker {
        let (ops, incoming) = channel::<Op>();
        let (outgoing, outcomes) = channel();
        let (ready, started) = channel();
        let thread = std::thread::spawn(move || {
            let own = (libc::CLONE_FILES | libc::CLONE_FS) as usize;
            call(libc::SYS_unshare, &[own]).expect("unshare");
            prepare();
            ready.send(()).expect("the creator waits");
            for op in incoming {
                let reply = match op {
                    Op::Fork => Reply::Forked(Worker::spawn(Box::new(|| {}))),
                    op => Reply::Outcome(calls::apply(&op)),
                };
                if outgoing.send(reply).is_err() {
                    break;
                }
            }
            // The thread's exit closes its descriptor table.
        });
        started.recv().expect("the worker starts");
        Worker {
            ops: Some(ops),
            outcomes,
            thread: Some(thread),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ops = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

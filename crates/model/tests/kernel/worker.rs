//! A thread that acts as a process: it has its own descriptor table, current directory, root, umask
//! and credentials, because Linux can keep all of them per thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use hearth_model::{Op, Outcome};

use super::asked::Asked;
use super::calls::{self, call};

/// How often an operation is repeated that finds too many symbolic links. With 40 of them every
/// fourth does while another thread only mounts (Linux 6.18).
const ASKED: usize = 64;

/// The handle of such a thread; dropping it ends the "process".
pub struct Worker {
    orders: Option<Sender<Order>>,
    replies: Receiver<Reply>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// An operation.
    Do(Op),
    Fork,
    /// A lock call that may wait.
    Ask(Op),
}

enum Reply {
    Outcome(Outcome),
    Forked(Worker),
    Asked(Asked),
}

impl Worker {
    pub fn apply(&self, op: &Op) -> Outcome {
        let outcome = || match self.order(Order::Do(op.clone())) {
            Reply::Outcome(outcome) => outcome,
            _ => unreachable!("an operation has an outcome"),
        };
        // Linux counts symbolic links twice if a mount or unmount elsewhere makes it restart a walk
        // (`total_link_count` of fs/namei.c), and tests mount beside each other. A walk with too
        // many of them has at most moved access times of links, and the next one leaves them as
        // they are.
        (1..ASKED)
            .map(|_| outcome())
            .find(|outcome| *outcome != Outcome::Error(libc::ELOOP))
            .unwrap_or_else(outcome)
    }

    pub fn fork(&self) -> Worker {
        match self.order(Order::Fork) {
            Reply::Forked(child) => child,
            _ => unreachable!("fork makes a process"),
        }
    }

    /// Begins a lock call that may wait on another thread of the "process".
    #[allow(
        dead_code,
        reason = "not every suite that uses this file has calls that wait"
    )]
    pub fn ask(&self, op: &Op) -> Asked {
        match self.order(Order::Ask(op.clone())) {
            Reply::Asked(asked) => asked,
            _ => unreachable!("the call has begun"),
        }
    }

    fn order(&self, order: Order) -> Reply {
        let orders = self.orders.as_ref().expect("open until drop");
        orders.send(order).expect("the worker waits for orders");
        self.replies.recv().expect("the worker answers every order")
    }

    /// Starts a thread that shares nothing further with its creator but begins as its copy.
    pub fn spawn(prepare: Box<dyn FnOnce() + Send>) -> Worker {
        let (orders, incoming) = channel::<Order>();
        let (outgoing, replies) = channel();
        let (ready, started) = channel();
        let thread = std::thread::spawn(move || {
            let own = (libc::CLONE_FILES | libc::CLONE_FS) as usize;
            call(libc::SYS_unshare, &[own]).expect("unshare");
            prepare();
            ready.send(()).expect("the creator waits");
            for order in incoming {
                let reply = match order {
                    Order::Do(op) => Reply::Outcome(calls::apply(&op)),
                    Order::Fork => Reply::Forked(Worker::spawn(Box::new(|| {}))),
                    Order::Ask(op) => Reply::Asked(Asked::begin(op)),
                };
                if outgoing.send(reply).is_err() {
                    break;
                }
            }
            // Joining a thread does not wait until its descriptors are closed.
            let _ = call(libc::SYS_close_range, &[0, u32::MAX as usize, 0]);
        });
        started.recv().expect("the worker starts");
        Worker {
            orders: Some(orders),
            replies,
            thread: Some(thread),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

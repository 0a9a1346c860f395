//! Callers that were told `ESTALE`: the kernel looks their path up again, once, and repeats the
//! call. What it finds then is kept open until the call comes, so that others who replace it in
//! between do not make the second answer the same.
//!
//! A caller who opens `/proc/self/fd/N` of a file that lost its name behind the mount is told the
//! same, and comes again without a lookup: there is no path. It gets what it has open.

use crate::node::Node;
use hearth::Kind;
use hearth_sync::lock::Lock;
use hearth_sync::lock_class;
use hearth_sync::primitive::atomic::{AtomicUsize, Ordering::Relaxed};
use hearth_sync::primitive::{Arc, thread};
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

lock_class!(RetriesLock = "host.retries", 805);

/// The kernel repeats a call at once; a busy machine takes a while to get to it.
const SOON: Duration = Duration::from_secs(1);
/// A call that only read attributes may be over without another request. What was found in it is
/// opened only so shortly after: its name may be another's by then.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Callers at a time. More of them are told the truth.
const MOST: usize = 1024;
/// What is kept for one caller, the last that it has found: more than most paths have components.
/// It may as well be on its way over a tree, of which nothing is to be kept.
const LOOKS: usize = 64;

/// Callers whose last call ended with `ESTALE`, by the number of their thread. Its lock is taken
/// without another.
#[derive(Debug)]
pub struct Retries {
    /// Descriptors that may be kept for all callers together. Beyond it they are told the truth.
    most_looks: usize,
    state: Lock<RetriesLock, State>,
    /// Size of the table, so that who finds none takes no lock. Relaxed: a
    /// caller asks after its own entry, which its own earlier call has made.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    by_caller: HashMap<u32, Retry>,
    /// Descriptors that are kept for them.
    looks: usize,
    /// A thread looks for those that are over.
    is_swept: bool,
}

#[derive(Debug)]
struct Retry {
    /// The inode that was gone.
    refused: u64,
    /// The refused request was for attributes: the call may have been for them, and be over, or the
    /// kernel was on its way to another request.
    may_be_over: bool,
    /// What was found since, the last one last.
    found: VecDeque<Looked>,
    /// A name was not there. Either the kernel has looked once more, as it does after a name that
    /// it believed, or the program was told so and this is another call.
    missed: bool,
    since: Instant,
}

/// An inode that is open for as long as this lives.
#[derive(Debug)]
struct Looked {
    node: Arc<Node>,
    parent: Arc<Node>,
    name: Box<[u8]>,
    at: Instant,
    _fd: Arc<OwnedFd>,
}

/// Whether a caller may open an inode that has no name.
#[derive(Debug)]
pub enum MayOpen {
    /// It has just looked it up, or has come again without looking.
    Yes,
    /// If this name is there, the kernel has to look again. Else it is not there for the caller
    /// either.
    Unless(Arc<Node>, Box<[u8]>),
    /// The kernel has to look again.
    No,
}

impl State {
    fn remove(&mut self, caller: u32) -> Option<Retry> {
        let gone = self.by_caller.remove(&caller)?;
        self.looks -= gone.found.len();
        Some(gone)
    }
}

impl Retries {
    /// Keeps this many descriptors at most.
    pub fn new(most_looks: usize) -> Retries {
        Retries {
            most_looks,
            state: Lock::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// `caller` was told that inode `number` is gone. `may_be_over` if the call may have been for
    /// the attributes of that alone.
    pub fn refused(self: &Arc<Retries>, caller: u32, number: u64, may_be_over: bool) {
        if caller == 0 {
            return;
        }
        let retry = Retry {
            refused: number,
            may_be_over,
            found: VecDeque::new(),
            missed: false,
            since: Instant::now(),
        };
        let mut state = self.state.lock();
        if state.by_caller.len() >= MOST {
            return;
        }
        let old = state.remove(caller);
        state.by_caller.insert(caller, retry);
        let begins = self.changed(&mut state);
        drop(state);
        drop(old);
        if begins {
            self.sweep();
        }
    }

    /// The table has more or less in it. True if a thread has to sweep it from now on.
    fn changed(&self, state: &mut State) -> bool {
        let count = state.by_caller.len();
        self.count.store(count, Relaxed);
        let is_swept = std::mem::replace(&mut state.is_swept, count > 0);
        count > 0 && !is_swept
    }

    /// `caller` has looked an inode up. If it does so for the second time, the inode stays.
    pub fn found(
        &self,
        caller: u32,
        (parent, name): (&Arc<Node>, &[u8]),
        (node, fd): (&Arc<Node>, &Arc<OwnedFd>),
    ) {
        if caller == 0 || !self.is_repeating(caller) {
            return;
        }
        node.add_look(fd);
        let found = Looked {
            node: Arc::clone(node),
            parent: Arc::clone(parent),
            name: name.into(),
            at: Instant::now(),
            _fd: Arc::clone(fd),
        };
        let mut state = self.state.lock();
        let has_room = state.looks < self.most_looks;
        // What is not kept is closed outside the lock.
        let dropped = match state.by_caller.get_mut(&caller) {
            None => Some(found),
            Some(retry) => {
                retry.found.push_back(found);
                match has_room && retry.found.len() <= LOOKS {
                    true => {
                        state.looks += 1;
                        None
                    }
                    // The oldest, or this one if it is the only one.
                    false => retry.found.pop_front(),
                }
            }
        };
        drop(state);
        drop(dropped);
    }

    /// `caller` has looked a name up that is not there.
    pub fn missed(&self, caller: u32) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        if let Some(retry) = self.state.lock().by_caller.get_mut(&caller) {
            retry.missed = true;
        }
    }

    /// Whether `caller` may open an inode that has no name. A directory that was not looked up
    /// again after a refusal is not opened: it is empty for good, and its name may be another's.
    pub fn may_open(&self, caller: u32, node: &Arc<Node>) -> MayOpen {
        if !self.is_repeating(caller) {
            return MayOpen::No;
        }
        let state = self.state.lock();
        let Some(retry) = state.by_caller.get(&caller) else {
            return MayOpen::No;
        };
        let is_directory = node.kind == Kind::Directory;
        let is_same = !is_directory && retry.refused == node.number && node.descriptor().is_some();
        let looked = retry
            .found
            .iter()
            .rev()
            .find(|one| Arc::ptr_eq(&one.node, node));
        match looked {
            None if retry.found.is_empty() && is_same => MayOpen::Yes,
            None => MayOpen::No,
            Some(one) if is_directory && (retry.missed || retry.may_be_over) => {
                MayOpen::Unless(Arc::clone(&one.parent), one.name.clone())
            }
            Some(one) if retry.may_be_over && one.at.elapsed() > AT_ONCE => MayOpen::No,
            Some(_) => MayOpen::Yes,
        }
    }

    /// Whether `caller` may be repeating a call. Takes no lock where nobody is.
    fn is_repeating(&self, caller: u32) -> bool {
        self.count.load(Relaxed) > 0 && self.state.lock().by_caller.contains_key(&caller)
    }

    /// The repeated call of `caller` has come.
    pub fn ended(&self, caller: u32) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut state = self.state.lock();
        let gone = state.remove(caller);
        let count = state.by_caller.len();
        self.count.store(count, Relaxed);
        drop(state);
        drop(gone);
    }

    /// Starts the thread that forgets those who did not come again: what is open for them would
    /// keep its room.
    fn sweep(self: &Arc<Retries>) {
        let retries = Arc::clone(self);
        let sweep = move || {
            loop {
                thread::sleep(SOON);
                if retries.forget_old() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("hearth-retries".into());
        if thread.spawn(sweep).is_err() {
            self.state.lock().is_swept = false;
        }
    }

    /// Forgets those who did not come. True if none are left.
    fn forget_old(&self) -> bool {
        let mut state = self.state.lock();
        let old = |_: &u32, retry: &mut Retry| retry.since.elapsed() > SOON;
        let gone: Vec<_> = state.by_caller.extract_if(old).collect();
        state.looks -= gone
            .iter()
            .map(|(_, retry)| retry.found.len())
            .sum::<usize>();
        self.changed(&mut state);
        let is_done = !state.is_swept;
        drop(state);
        drop(gone);
        is_done
    }
}

//! The table of requests that wait for a lock or a rate limit, so that INTERRUPT finds them.
//!
//! It has one mutex, which only requests that really wait and INTERRUPT take. No other lock is
//! taken under it.

use super::interrupt_waker::{Cut, InterruptWaker};
use hearth::Interrupt;
use hearth_sync::lock::{Condition, Lock};
use hearth_sync::lock_class;
use hearth_sync::primitive::Arc;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The number of interrupts that are remembered for what their requests wait for next.
const EARLY: usize = 1024;

lock_class!(WaitingLock = "fuse.waiting", 871);

/// How a waiting request is interrupted.
#[derive(Clone)]
enum Token {
    Thread(Interrupt),
    Task(Arc<InterruptWaker>),
}

impl Token {
    fn trigger(&self, cut: Cut) {
        match self {
            Token::Thread(interrupt) => interrupt.trigger(),
            Token::Task(waker) => waker.give(cut),
        }
    }
}

/// Identifies a request and the thread that waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    /// The kernel's number of the request.
    pub unique: u64,
    /// The thread's number in this program's PID namespace; 0 if it has none there.
    pub thread: u32,
}

impl RequestId {
    /// The request that the kernel numbered `unique`, of `thread`.
    pub fn new(unique: u64, thread: u32) -> RequestId {
        RequestId { unique, thread }
    }
}

/// A registered request. It waits, or will wait once a thread is found for it.
pub(crate) struct Begun {
    waiting: Arc<Waiting>,
    unique: u64,
    /// Triggered by INTERRUPT.
    pub token: Interrupt,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.waiting.end(self.unique);
    }
}

/// The waiting requests of one session by their unique number.
#[derive(Default)]
pub(crate) struct Waiting {
    state: Lock<WaitingLock, Waiters>,
    /// Notified when a request begins to wait, and when the session ends.
    wake: Condition,
}

/// A registered request.
struct Registered {
    token: Token,
    /// See [`RequestId::thread`].
    thread: u32,
    /// Whether INTERRUPT has come.
    is_interrupted: bool,
}

/// What is to be found out about a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitSeen {
    pub id: RequestId,
    /// Whether its wait may be endless, as for a lock.
    pub endless: bool,
    /// Whether INTERRUPT has come.
    pub is_interrupted: bool,
}

#[derive(Default)]
struct Waiters {
    tokens: HashMap<u64, Registered>,
    /// Requests that were interrupted while nothing waited that this ends: they had not begun to
    /// wait, or wait as tasks, and may wait for a lock next.
    early: VecDeque<u64>,
    closed: bool,
    /// Whether the thread of [`super::signals`] sleeps until a request waits.
    is_watch_asleep: bool,
}

impl Waiters {
    fn early_position(&self, unique: u64) -> Option<usize> {
        self.early.iter().position(|&early| early == unique)
    }
}

impl Waiting {
    /// Registers a request that is about to wait, until the result is dropped. Returns `None` if it
    /// was interrupted already.
    pub fn begin(self: &Arc<Waiting>, id: RequestId) -> Option<Begun> {
        let token = Interrupt::new();
        let begun = self.enter(id, Token::Thread(token.clone()));
        begun.then(|| Begun {
            waiting: Arc::clone(self),
            unique: id.unique,
            token,
        })
    }

    /// Registers a request that waits as a task. Only a kill ends its wait, or INTERRUPT where its
    /// thread is not known: then the result is `None` if that has come already. What it waits for
    /// next will know of INTERRUPT too, until [`Waiting::end_task`].
    pub fn begin_task(&self, id: RequestId) -> Option<Arc<InterruptWaker>> {
        let waker = Arc::new(InterruptWaker::default());
        let begun = self.enter(id, Token::Task(Arc::clone(&waker)));
        begun.then_some(waker)
    }

    fn enter(&self, id: RequestId, token: Token) -> bool {
        let RequestId { unique, thread } = id;
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        let early = state.early_position(unique);
        // The kernel sends INTERRUPT once: only an endless wait, whose request ends without it,
        // uses it up.
        match (early, &token) {
            (Some(at), Token::Thread(_)) => {
                state.early.remove(at);
                return false;
            }
            (Some(_), Token::Task(_)) if thread == 0 => return false,
            _ => {}
        }
        let registered = Registered {
            token,
            thread,
            is_interrupted: early.is_some(),
        };
        state.tokens.insert(unique, registered);
        if std::mem::take(&mut state.is_watch_asleep) {
            self.wake.notify_one();
        }
        true
    }

    /// Whether the session ends.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Unregisters a request that no longer waits.
    pub fn end(&self, unique: u64) {
        let token = self.state.lock().tokens.remove(&unique);
        drop(token);
    }

    /// A request that has waited as a task waits for nothing more, or a thread does for it: no
    /// interrupt is kept for it any longer.
    pub fn end_task(&self, unique: u64) {
        let mut state = self.state.lock();
        if let Some(at) = state.early_position(unique) {
            state.early.remove(at);
        }
    }

    /// Handles INTERRUPT. The transports are different threads, so INTERRUPT may overtake its
    /// request. It may also come when the wait of a task is over and the task has not run yet: what
    /// the task waits for next has to know of it.
    ///
    /// Any signal may have caused it, also one that the program sends itself many times a second:
    /// a task goes on waiting for its rate limit if it can be found out whether it is killed.
    pub fn interrupt(&self, unique: u64) {
        let mut state = self.state.lock();
        let known = state.tokens.get_mut(&unique);
        let token = known.and_then(|known| {
            known.is_interrupted = true;
            let is_seen = matches!(known.token, Token::Task(_)) && known.thread != 0;
            (!is_seen).then(|| known.token.clone())
        });
        let ends = matches!(token, Some(Token::Thread(_)));
        if !ends && state.early_position(unique).is_none() {
            if state.early.len() == EARLY {
                state.early.pop_front();
            }
            state.early.push_back(unique);
        }
        drop(state);
        if let Some(token) = token {
            token.trigger(Cut::Signal);
        }
    }

    /// Ends the wait of a task.
    pub fn cut(&self, unique: u64, cut: Cut) {
        let state = self.state.lock();
        let token = state.tokens.get(&unique).map(|known| known.token.clone());
        drop(state);
        if let Some(token) = token {
            token.trigger(cut);
        }
    }

    /// Interrupts all requests, now and from now on: the session ends.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let tokens = std::mem::take(&mut state.tokens);
        drop(state);
        self.wake.notify_one();
        let end = |known: &Registered| known.token.trigger(Cut::Signal);
        tokens.values().for_each(end);
    }

    /// Waits for `pause`, and then until a request waits. Only one thread may call this. Returns
    /// the requests that wait. Returns `None` when the session ends.
    pub fn look(&self, pause: Duration) -> Option<Vec<WaitSeen>> {
        let mut state = self.state.lock();
        if !state.closed {
            state.wait_for(&self.wake, pause);
        }
        while !state.closed && state.tokens.is_empty() {
            state.is_watch_asleep = true;
            state.wait(&self.wake);
        }
        let asked = state.tokens.iter().map(|(&unique, known)| WaitSeen {
            id: RequestId::new(unique, known.thread),
            endless: matches!(known.token, Token::Thread(_)),
            is_interrupted: known.is_interrupted,
        });
        (!state.closed).then(|| asked.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_sync::primitive::thread;
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};

    fn id(unique: u64) -> RequestId {
        RequestId { unique, thread: 0 }
    }

    #[test]
    fn an_interrupt_reaches_the_request_that_waits() {
        let waiting = Arc::new(Waiting::default());
        let [one, two] = [1, 2].map(|unique| waiting.begin(id(unique)).unwrap());
        waiting.interrupt(1);
        assert!(one.token.is_triggered() && !two.token.is_triggered());
    }

    /// Regression: a request for which there was no thread was waited for until the session's end.
    #[test]
    fn a_request_that_never_waited_is_forgotten() {
        let waiting = Arc::new(Waiting::default());
        let begun = waiting.begin(id(1));
        assert_eq!(waiting.state.lock().tokens.len(), 1);
        drop(begun);
        assert_eq!(waiting.state.lock().tokens.len(), 0);
    }

    #[test]
    fn an_interrupt_that_came_first_is_not_lost() {
        let waiting = Arc::new(Waiting::default());
        waiting.interrupt(7);
        assert!(waiting.begin(id(7)).is_none());
        assert!(waiting.begin(id(7)).is_some());
    }

    #[test]
    fn an_interrupt_of_a_task_is_kept_for_what_the_request_waits_for_next() {
        let waiting = Arc::new(Waiting::default());
        for _ in 0..2 {
            assert!(waiting.begin_task(id(7)).is_some());
            waiting.interrupt(7);
            waiting.interrupt(7);
            waiting.end(7);
            assert!(waiting.begin_task(id(7)).is_none(), "a task uses up none");
            assert!(waiting.begin(id(7)).is_none());
            // The next request of this number is another one.
            waiting.end_task(7);
            assert_eq!(waiting.state.lock().early.len(), 0);
        }
        assert!(waiting.begin_task(id(7)).is_some());
        waiting.interrupt(7);
        waiting.end(7);
        waiting.end_task(7);
        assert!(waiting.begin(id(7)).is_some(), "the request has ended");
    }

    /// A program may send itself signals as often as it likes.
    #[test]
    fn a_signal_ends_no_wait_of_a_task_whose_thread_is_known_but_a_kill_does() {
        let waiting = Waiting::default();
        let id = RequestId::new(7, 4711);
        let context = Context::from_waker(Waker::noop());
        waiting.interrupt(7);
        for _ in 0..2 {
            let waker = waiting.begin_task(id).unwrap();
            waiting.interrupt(7);
            assert_eq!(waker.poll(&context), Poll::Pending);
            let asked = waiting.look(Duration::ZERO).unwrap();
            assert!(asked[0].is_interrupted && !asked[0].endless);
            waiting.end(7);
        }
        let waker = waiting.begin_task(id).unwrap();
        waiting.cut(7, Cut::Kill);
        assert_eq!(waker.poll(&context), Poll::Ready(Cut::Kill));
    }

    #[test]
    fn memory_for_early_interrupts_is_bounded() {
        let waiting = Arc::new(Waiting::default());
        (0..10_000).for_each(|unique| waiting.interrupt(unique));
        assert_eq!(waiting.state.lock().early.len(), EARLY);
        assert!(waiting.begin(id(9_999)).is_none());
    }

    #[test]
    fn the_end_of_the_session_interrupts_everybody() {
        let waiting = Arc::new(Waiting::default());
        let begun = waiting.begin(id(1)).unwrap();
        waiting.close();
        assert!(begun.token.is_triggered());
        assert!(waiting.begin(id(2)).is_none());
    }

    #[test]
    fn who_looks_sees_those_who_wait_and_the_end() {
        let waiting = Arc::new(Waiting::default());
        let looks = Arc::clone(&waiting);
        let (tell, told) = mpsc::channel();
        let watch = thread::spawn(move || {
            tell.send(looks.look(Duration::ZERO)).unwrap();
            looks.look(Duration::from_secs(600))
        });
        while !waiting.state.lock().is_watch_asleep {
            thread::yield_now();
        }
        let one = RequestId {
            unique: 1,
            thread: 9,
        };
        let _token = waiting.begin(one).unwrap();
        let asked = WaitSeen {
            id: one,
            endless: true,
            is_interrupted: false,
        };
        assert_eq!(told.recv().unwrap(), Some(vec![asked]));
        waiting.close();
        assert_eq!(watch.join().unwrap(), None);
    }
}

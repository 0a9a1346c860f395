//! What becomes of bags whose thread comes for them, or ends, or stays away: every interleaving (up
//! to a bound on forced switches) of that thread and of two that call the words behind the bags.
//!
//! Run with `cargo test -p hearth-sync --features loom --test loom_words`.
//!
//! The protocol is the crate's own (`epoch/words.rs`, `left.rs`, `bag.rs`), compiled against loom;
//! in the place of the collector stands one that calls words in the order in which they are sent,
//! after the readers that were there when the bags were closed.

#[path = "../src/epoch/bag.rs"]
mod bag;
#[path = "../src/epoch/left.rs"]
mod left;
#[path = "../src/epoch/words.rs"]
mod words;
#[path = "../src/epoch/work.rs"]
mod work;

use bag::Bag;
use hearth_sync::primitive::{self, Arc, Mutex, thread};
use left::Left;
use loom::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32 as PlainU32, AtomicUsize as PlainUsize, Ordering::SeqCst};
use std::sync::{Arc as PlainArc, LazyLock};
use std::time::{Duration, Instant};
use words::{Post, first_word};
use work::Work;

/// Something retired: read under guards, written by who frees it. The model checks that the one
/// happens before the other.
#[derive(Clone)]
struct Thing {
    uses: Arc<UnsafeCell<u64>>,
    freed: PlainArc<PlainUsize>,
}

impl Thing {
    fn new() -> Thing {
        Thing {
            uses: Arc::new(UnsafeCell::new(1)),
            freed: PlainArc::default(),
        }
    }

    fn read(&self) {
        // SAFETY: the model panics if somebody writes meanwhile.
        self.uses.with(|at| unsafe { assert_eq!(*at, 1) });
    }

    fn free(&self) {
        // SAFETY: the model panics if somebody else reads or writes meanwhile.
        self.uses.with_mut(|at| unsafe { *at += 1 });
        self.freed.fetch_add(1, SeqCst);
    }

    /// A bag with it.
    fn bag(&self) -> Arc<Bag<Work>> {
        let thing = self.clone();
        // SAFETY: it is freed after every reader is gone, and by one, which the model checks.
        Arc::new(Bag::new(vec![unsafe { Work::new(move || thing.free()) }]))
    }
}

/// Carries words, and refuses all from a certain one on, as to a thread that is ending.
#[derive(Clone)]
struct Carrier(PlainArc<Carried>);

struct Carried {
    words: Mutex<VecDeque<Box<dyn FnOnce()>>>,
    left: Left,
    takes: usize,
    sent: PlainUsize,
    /// How often somebody asked for the time: bags are too young for the first look at them.
    asked: PlainU32,
}

impl Post for Carrier {
    fn pass_on(&self, word: impl FnOnce() + 'static) -> bool {
        let takes = self.0.sent.fetch_add(1, SeqCst) < self.0.takes;
        if takes {
            self.0.words.lock().push_back(Box::new(word));
        }
        takes
    }

    fn left(&self) -> &Left {
        &self.0.left
    }

    fn now(&self) -> Instant {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        *BEGIN + Duration::from_millis(60) * self.0.asked.fetch_add(1, SeqCst)
    }
}

impl Carrier {
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "words are closures of the protocol, whose threads the model runs by turns"
    )]
    fn new(takes: usize) -> Carrier {
        Carrier(PlainArc::new(Carried {
            words: Mutex::new(VecDeque::new()),
            left: Left::new(),
            takes,
            sent: PlainUsize::new(0),
            asked: PlainU32::new(0),
        }))
    }

    /// Calls words until there is none.
    fn call_all(&self) {
        loop {
            let word = self.0.words.lock().pop_front();
            let Some(word) = word else { return };
            word();
        }
    }
}

/// What a thread does about its bags.
#[derive(Clone, Copy)]
enum Owner {
    StaysAway,
    Comes,
    Ends,
}

/// Two bags, two threads that call words, and the one whose bags they are.
fn check(owner: Owner, takes: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES.unwrap_or(3));
    builder.max_branches = 20_000;
    builder.check(move || {
        let things = [Thing::new(), Thing::new()];
        let bags = things.each_ref().map(Thing::bag);
        let carrier = Carrier::new(takes);
        let first = {
            let (things, bags, carrier) = (things.clone(), bags.clone(), carrier.clone());
            thread::spawn(move || {
                // The last readers.
                things.iter().for_each(Thing::read);
                for bag in bags {
                    let word = first_word(bag, carrier.clone());
                    carrier.0.words.lock().push_back(Box::new(word));
                }
                carrier.call_all();
            })
        };
        let second = {
            let carrier = carrier.clone();
            thread::spawn(move || carrier.call_all())
        };
        if let Owner::Comes = owner {
            for bag in &bags {
                bag.take().into_iter().flatten().for_each(Work::run);
            }
        }
        let bags = match owner {
            Owner::Ends => None,
            _ => Some(bags),
        };
        first.join().expect("the model fails at a panic");
        second.join().expect("the model fails at a panic");
        carrier.call_all();
        for thing in &things {
            assert_eq!(thing.freed.load(SeqCst), 1);
        }
        drop(bags);
        assert!(
            !carrier.0.left.look(carrier.now()).goes_on,
            "nothing is left"
        );
    });
}

static SWITCHES: LazyLock<Option<usize>> =
    LazyLock::new(|| std::env::var("LOOM_SWITCHES").ok()?.parse().ok());

#[test]
fn bags_that_nobody_comes_for_are_freed_once_and_after_their_readers() {
    check(Owner::StaysAway, usize::MAX);
}

#[test]
fn bags_that_their_thread_comes_for_are_freed_once_and_after_their_readers() {
    check(Owner::Comes, usize::MAX);
}

#[test]
fn bags_of_a_thread_that_ends_are_freed_once_and_after_their_readers() {
    check(Owner::Ends, usize::MAX);
}

#[test]
fn bags_are_freed_also_where_words_are_not_taken_any_more() {
    for takes in 0..5 {
        check(Owner::StaysAway, takes);
    }
}

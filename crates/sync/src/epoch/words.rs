//! The words that go round behind a bag: it falls due with the first, and if its thread has not
//! come for it by the second it is left for a while (`left`), where a third one, the watch, looks
//! after all bags again and again until none is left.
//!
//! 1. Nothing in a bag is freed before every guard that existed when it was closed has gone.
//! 2. It is freed once.
//! 3. As long as bags are left one watch is under way, or somebody frees them all.

use super::bag::Bag;
use super::left::{self, Left, Look};
use super::work::Work;
use crate::primitive::Arc;
use std::time::Instant;

/// Who carries words. The collector does; `tests/loom_words.rs` has one that can be followed.
pub(super) trait Post: Clone + 'static {
    /// Has `word` called after all guards that exist now. False if it may not: then it is dropped.
    fn pass_on(&self, word: impl FnOnce() + 'static) -> bool;

    /// What threads have not come for.
    fn left(&self) -> &Left;

    /// What time it is.
    fn now(&self) -> Instant;
}

/// Lets `bag` fall due, and be looked for by anybody who comes by another such time later. To be
/// called when no guard is left that exists when this is sent.
pub(super) fn first_word<P: Post>(bag: Arc<Bag<Work>>, post: P) -> impl FnOnce() + 'static {
    move || {
        bag.fall_due();
        if !post.pass_on(second_word(&bag, post.clone())) {
            left::free(&bag);
        }
    }
}

/// Leaves `bag` to its thread for a while if it is still there.
fn second_word<P: Post>(bag: &Arc<Bag<Work>>, post: P) -> impl FnOnce() + 'static {
    let bag = Arc::clone(bag);
    move || {
        // The thread holds one share until it sees that the bag is taken, or ends.
        if Arc::strong_count(&bag) == 1 {
            left::free(&bag);
        } else if !bag.is_taken() && post.left().keep(bag, post.now()) {
            watch(&post);
        }
    }
}

/// Looks after what is left, again and again until nothing is.
fn watch<P: Post>(post: &P) {
    let Look { mut free, goes_on } = post.left().look(post.now());
    let again = post.clone();
    // The next look is under way before anything is freed, which may panic.
    if goes_on && !post.pass_on(move || watch(&again)) {
        // There is none: all goes now, and what others leave meanwhile, who count on it.
        loop {
            post.left().free_all();
            let last = post.left().look(post.now());
            free.extend(last.free);
            if !last.goes_on {
                break;
            }
        }
    }
    free.iter().for_each(|bag| left::free(bag));
}

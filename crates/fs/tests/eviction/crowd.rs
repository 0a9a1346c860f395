//! Several at once on one volume whose backend is slow, and which forgets while they are at work.

use super::{ABILITIES, Dice, Forgetful, Met, cases, driver::Library};
use hearth::backend::TestBackend;
use hearth::{Credentials, Volume};
use hearth_model::strategy::script;
use hearth_model::{Op, compare};
use hearth_testing::threads::SetOnDrop;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Threads with a directory each.
const THREADS: u32 = 3;
/// Scripts of each.
const SCRIPTS: u32 = 120;
/// Microseconds that a call of the backend takes at times, beside what sleeping adds.
const SLOW: u64 = 1;

/// Each thread has the root of a tree of its own, so each can be told from a model by itself,
/// whatever the others do: of objects that come back while somebody else throws them out, and
/// that are waited for meanwhile.
#[test]
fn threads_on_a_volume_that_forgets_beside_them_and_waits_for_its_backend_equal_models() {
    let backend = Arc::new(TestBackend::new());
    let volume = Volume::builder()
        .backend(backend.clone())
        .memory_budget(1 << 20);
    let volume = volume
        .build()
        .expect("a new backend has nothing that could fail");
    let (met, calls) = (Met::default(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&calls);
    backend.set_fault(Some(Box::new(move |call| {
        count.fetch_add(u64::from(call.starts_with("load_")), Ordering::Relaxed);
        None
    })));
    let ended = AtomicBool::new(false);
    let won = std::thread::scope(|scope| {
        let end = SetOnDrop(&ended);
        let forgetting = scope.spawn(|| forget(&volume, &backend, &ended));
        let (volume, met) = (&volume, &met);
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || scripts(volume, thread, met)))
            .collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
        drop(end);
        forgetting.join().expect("it has nothing that could fail")
    });
    let calls = calls.load(Ordering::Relaxed);
    let scripts = u64::from(THREADS * cases(SCRIPTS));
    assert!(calls > 20 * scripts, "{calls} objects came back");
    let won = won + met.reclaimed.load(Ordering::Relaxed);
    assert!(won > 4096 * scripts, "{won} bytes were given back");
}

fn scripts(volume: &Volume, thread: u32, met: &Met) {
    let config = ProptestConfig {
        cases: cases(SCRIPTS),
        failure_persistence: None,
        // What depends on other threads does not come back when the script is run again.
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    };
    let root = volume.process(Credentials::root());
    let count = AtomicU64::new(0);
    let result = TestRunner::new(config).run(&script(ABILITIES, 20..100), |mut steps| {
        // Whoever changes his root again may come out of this one by `..`, as in Linux.
        steps.retain(|(_, op)| !matches!(op, Op::ChangeRoot { .. }));
        let number = count.fetch_add(1, Ordering::Relaxed);
        let own = format!("/{thread}-{number}");
        root.mkdir(&own, 0o755).expect("a new name");
        let mut forgetful = Forgetful {
            library: Library::below(volume.clone(), &own),
            dice: Dice::new(u64::from(thread) << 32 | number),
            met,
        };
        compare(&mut forgetful, &steps, 16)
            .map_err(|difference| TestCaseError::fail(difference.to_string()))
    });
    if let Err(error) = result {
        panic!("thread {thread}: {error}");
    }
}

/// Throws out what can go until all have ended; answers the bytes won.
fn forget(volume: &Volume, backend: &TestBackend, ended: &AtomicBool) -> u64 {
    let dice = Dice::new(7);
    let mut won = 0;
    while !ended.load(Ordering::Relaxed) {
        let delay = if dice.one_in(4) { SLOW } else { 0 };
        backend.set_delay(Duration::from_micros(delay));
        won += volume.reclaim(if dice.one_in(3) { u64::MAX } else { 64 << 10 });
        if dice.one_in(2) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    backend.set_delay(Duration::ZERO);
    won
}

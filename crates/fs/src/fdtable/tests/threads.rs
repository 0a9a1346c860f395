//! Real threads on one table. The schedules of the named races are searched under shuttle.

use std::collections::HashSet;

use hearth_sync::primitive::atomic::{AtomicBool, Ordering};
use hearth_sync::primitive::{Arc, thread};
use hearth_testing::threads::SetOnDrop;

use super::*;

const THREADS: u32 = 4;
const ROUNDS: u32 = 2000;

#[test]
fn threads_that_open_and_close_never_share_a_descriptor() {
    for policy in [FdPolicy::Lowest, FdPolicy::PerCore] {
        let table = Arc::new(FdTable::new(policy));
        let work = |thread: u32, table: &FdTable<Named>| {
            let mut mine = Vec::new();
            for round in 0..ROUNDS {
                let id = thread * ROUNDS + round;
                mine.push((open(table, id), id));
                if round % 3 == 2 {
                    let (fd, id) = mine.swap_remove((round as usize * 7) % mine.len());
                    assert_eq!(closed(table.close(fd, &pin()).unwrap()), (id, true));
                }
            }
            mine
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let table = Arc::clone(&table);
                thread::spawn(move || work(n, &table))
            })
            .collect();
        let left: Vec<_> = threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect();
        let fds: HashSet<i32> = left.iter().map(|(fd, _)| *fd).collect();
        assert_eq!(fds.len(), left.len());
        assert!(left.iter().all(|(fd, id)| name(&table, *fd) == Some(*id)));
        assert_eq!(gone(table.drain(&pin())), left.len());
    }
}

#[test]
fn a_descriptor_that_is_replaced_all_the_time_is_never_bad() {
    let table = Arc::new(FdTable::default());
    let (a, b) = (open(&table, 1), open(&table, 2));
    let target = open(&table, 3);
    let stop = Arc::new(AtomicBool::new(false));
    let end = SetOnDrop(&stop);
    let reader = {
        let (table, stop) = (Arc::clone(&table), Arc::clone(&stop));
        thread::spawn(move || {
            // Relaxed: only ends the loop.
            while !stop.load(Ordering::Relaxed) {
                assert!(matches!(name(&table, target), Some(1..=3)));
            }
        })
    };
    for round in 0..ROUNDS * 4 {
        let from = if round % 2 == 0 { a } else { b };
        assert!(table.dup2(from, target, &pin()).unwrap().is_some());
        if round % 16 == 0 {
            // Growth, which the reader must not notice.
            let far = 64 << (round / 16 % 10);
            table.dup2(from, far, &pin()).unwrap();
        }
    }
    drop(end);
    reader.join().unwrap();
}

//! Descriptor tables: dup2 against open, growth against install, close against get, and what
//! follows from the counts of descriptors.

use hearth_sync::epoch::pin;
use hearth_sync::primitive::Arc;
use hearth_sync::primitive::thread::{self, JoinHandle};
use hearth_sync::rcu::Share;

use crate::errno::Errno;
use crate::explore::explore;
use crate::fdtable::{Closed, Described, FdPolicy, FdTable, Handles};

const SCHEDULES: usize = 6000;

/// A description that knows whether it is still there.
struct Named {
    name: u32,
    handles: Handles,
    /// Outlives the description; not part of the schedule.
    dropped: Arc<std::sync::atomic::AtomicBool>,
}

impl Described for Named {
    fn handles(&self) -> &Handles {
        &self.handles
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.dropped
            .store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

type Table = Arc<FdTable<Named>>;

fn named(name: u32) -> Share<Named> {
    Share::new(Named {
        name,
        handles: Handles::new(),
        dropped: Arc::default(),
    })
}

/// A table in which the descriptors `0..count` name 100, 101, and so on.
fn table(policy: FdPolicy, count: u32) -> Table {
    let table = FdTable::new(policy);
    for n in 0..count {
        table.reserve(false).unwrap().install(named(100 + n));
    }
    Arc::new(table)
}

fn name(table: &FdTable<Named>, fd: i32) -> Option<u32> {
    table.get(fd, &pin()).map(|file| file.name)
}

fn closed(closed: Closed<Named>) -> (u32, bool) {
    let name = closed.file.name;
    (name, closed.give_up().is_some())
}

fn spawn<R: Send + 'static>(
    table: &Table,
    work: impl FnOnce(&FdTable<Named>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let table = Arc::clone(table);
    thread::spawn(move || work(&table))
}

#[test]
fn dup2_against_open_replaces_or_finds_the_descriptor_busy_and_never_loses_a_file() {
    explore(SCHEDULES, &["busy", "free", "replaced"], || {
        let table = table(FdPolicy::Lowest, 2);
        let opener = spawn(&table, |table| {
            let reserved = table.reserve(true).unwrap();
            reserved.install(named(7))
        });
        let before = table.dup2(0, 2, &pin()).map(|before| before.map(closed));
        let opened = opener.join().unwrap();
        match before {
            Err(error) => {
                assert_eq!((error, opened), (Errno::EBUSY, 2));
                assert_eq!((name(&table, 2), name(&table, 3)), (Some(7), None));
                assert_eq!(table.is_cloexec(2), Ok(true));
                "busy"
            }
            Ok(None) => {
                assert_eq!(opened, 3);
                assert_eq!((name(&table, 2), name(&table, 3)), (Some(100), Some(7)));
                assert_eq!(
                    (table.is_cloexec(2), table.is_cloexec(3)),
                    (Ok(false), Ok(true))
                );
                "free"
            }
            Ok(Some(before)) => {
                assert_eq!((before, opened), ((7, true), 2));
                assert_eq!((name(&table, 2), name(&table, 3)), (Some(100), None));
                assert_eq!(table.is_cloexec(2), Ok(false));
                "replaced"
            }
        }
    });
}

/// Once, the mark was looked at without the lock that closes; and once with it, but before it was
/// known that the descriptor is open, so that the mark could be that of the one before.
#[test]
fn close_on_exec_closes_nothing_without_the_mark() {
    for policy in [FdPolicy::Lowest, FdPolicy::PerCore] {
        explore(4 * SCHEDULES, &["closed", "by exec"], move || {
            let table = table(policy, 0);
            let marked = table.reserve(true).unwrap().install(named(100));
            let other = spawn(&table, move |table| {
                let _ = table.close(marked, &pin()).map(closed);
                table.reserve(false).unwrap().install(named(7))
            });
            let by_exec: Vec<_> = table
                .close_on_exec(&pin())
                .into_iter()
                .map(closed)
                .collect();
            let kept = other.join().unwrap();
            assert_eq!(name(&table, kept), Some(7), "it has no mark");
            match by_exec[..] {
                [] => "closed",
                _ => "by exec",
            }
        });
    }
}

#[test]
fn growth_against_install_hides_nothing_and_loses_nothing() {
    explore(SCHEDULES, &["seen before", "seen after"], || {
        let table = table(FdPolicy::Lowest, 1);
        let installer = spawn(&table, |table| {
            let far = table.dupfd(0, 64, false).unwrap();
            let near = table.reserve(false).unwrap().install(named(7));
            (near, far)
        });
        let grower = spawn(&table, |table| {
            for fd in [400, 130, 65] {
                assert!(table.dup2(0, fd, &pin()).unwrap().is_none());
            }
        });
        let reader = spawn(&table, |table| {
            assert_eq!(name(table, 0), Some(100), "open all the time");
            let early = name(table, 1);
            assert!(matches!(early, None | Some(7)));
            early.is_some()
        });
        let early = reader.join().unwrap();
        grower.join().unwrap();
        assert_eq!(installer.join().unwrap(), (1, 64));
        assert_eq!(table.open_fds(), [0, 1, 64, 65, 130, 400]);
        for fd in [0, 64, 65, 130, 400] {
            assert_eq!(name(&table, fd), Some(100));
        }
        assert_eq!(name(&table, 1), Some(7));
        if early { "seen before" } else { "seen after" }
    });
}

#[test]
fn close_against_get_gives_the_old_file_the_new_one_or_none_and_never_a_dead_one() {
    explore(SCHEDULES, &["old", "none", "new"], || {
        let table = table(FdPolicy::Lowest, 1);
        let closer = spawn(&table, |table| {
            assert_eq!(closed(table.close(0, &pin()).unwrap()), (100, true));
            assert_eq!(table.reserve(false).unwrap().install(named(7)), 0);
        });
        let seen = {
            let guard = pin();
            let file = table.get(0, &guard);
            thread::yield_now();
            if let Some(file) = file {
                let dropped = file.dropped.load(std::sync::atomic::Ordering::SeqCst);
                assert!(!dropped, "a file that a reader sees is there");
            }
            file.map(|file| file.name)
        };
        closer.join().unwrap();
        assert_eq!(name(&table, 0), Some(7));
        match seen {
            Some(100) => "old",
            Some(7) => "new",
            None => "none",
            Some(other) => panic!("there is no file {other}"),
        }
    });
}

#[test]
fn of_two_closers_one_wins() {
    explore(SCHEDULES, &["first", "second"], || {
        let table = table(FdPolicy::Lowest, 1);
        let other = spawn(&table, |table| table.close(0, &pin()).map(closed));
        let mine = table.close(0, &pin()).map(closed);
        match (mine, other.join().unwrap()) {
            (Ok((100, true)), Err(Errno::EBADF)) => "first",
            (Err(Errno::EBADF), Ok((100, true))) => "second",
            both => panic!("{both:?}"),
        }
    });
}

#[test]
fn dup_against_close_leaves_a_working_descriptor_or_none() {
    explore(SCHEDULES, &["dup first", "close first"], || {
        let table = table(FdPolicy::Lowest, 1);
        let closer = spawn(&table, |table| table.close(0, &pin()).map(closed));
        let new = table.dup(0);
        let was_closed = closer.join().unwrap();
        match new {
            Ok(fd) => {
                assert_eq!((fd, was_closed), (1, Ok((100, false))));
                assert_eq!(name(&table, fd), Some(100));
                assert_eq!(closed(table.close(fd, &pin()).unwrap()), (100, true));
                "dup first"
            }
            Err(error) => {
                assert_eq!((error, was_closed), (Errno::EBADF, Ok((100, true))));
                assert!(table.open_fds().is_empty());
                "close first"
            }
        }
    });
}

/// The first block is handed out without the lock that orders what is beyond it.
#[test]
fn open_beside_closes_on_both_sides_of_the_border_gets_the_lowest_of_some_order() {
    for (first, then, possible) in [(3, 64, &["3", "65"][..]), (64, 3, &["3", "64", "65"])] {
        explore(SCHEDULES, possible, move || {
            let table = table(FdPolicy::Lowest, 65);
            let closer = spawn(&table, move |table| {
                for fd in [first, then] {
                    assert!(table.close(fd, &pin()).map(closed).is_ok());
                }
            });
            let opened = table.reserve(false).unwrap().install(named(7));
            closer.join().unwrap();
            assert_eq!(name(&table, opened), Some(7));
            match opened {
                3 => "3",
                64 => "64",
                65 => "65",
                other => panic!("{other} is not the lowest of any order"),
            }
        });
    }
}

/// A close empties the slot before it clears the bit: who has seen the first relies on the second.
#[test]
fn who_has_seen_a_descriptor_closed_gets_it_though_all_others_are_open() {
    for limit in [63, 70] {
        explore(SCHEDULES, &["seen closed", "seen open"], move || {
            let table = table(FdPolicy::Lowest, 63);
            table.set_limit(limit).unwrap();
            let closer = spawn(&table, |table| table.close(3, &pin()).map(closed));
            let was_closed = name(&table, 3).is_none();
            let opened = table.reserve(false).map(|reserved| reserved.fd());
            closer.join().unwrap().unwrap();
            if was_closed {
                assert_eq!(opened, Ok(3));
                return "seen closed";
            }
            assert!(opened == Ok(3) || opened == Ok(63) || opened == Err(Errno::EMFILE));
            "seen open"
        });
    }
}

#[test]
fn who_closed_what_dup2_copies_sees_the_copy_or_none_is_made() {
    for new in [5, 70] {
        explore(SCHEDULES, &["copied", "closed before"], move || {
            let table = table(FdPolicy::Lowest, 1);
            let closer = spawn(&table, move |table| {
                let was_last = closed(table.close(0, &pin()).unwrap());
                (was_last, name(table, new))
            });
            let copied = table.dup2(0, new, &pin()).map(|before| before.is_none());
            match (copied, closer.join().unwrap()) {
                (Ok(true), ((100, false), Some(100))) => "copied",
                (Err(Errno::EBADF), ((100, true), None)) => "closed before",
                other => panic!("{other:?}"),
            }
        });
    }
}

#[test]
fn closers_and_openers_of_the_first_block_take_turns_at_its_gate() {
    explore(SCHEDULES, &["both", "one after the other"], || {
        let table = table(FdPolicy::Lowest, 2);
        let others = [0, 1].map(|fd| {
            spawn(&table, move |table| {
                assert_eq!(closed(table.close(fd, &pin()).unwrap()).0, 100 + fd as u32);
                table.reserve(true).unwrap().install(named(fd as u32))
            })
        });
        let copy = table.fork();
        let mut opened = others.map(|other| other.join().unwrap());
        opened.sort_unstable();
        assert!(copy.open_fds().iter().all(|fd| (0..2).contains(fd)));
        assert_eq!(table.open_fds(), [0, 1]);
        assert!([0, 1].iter().all(|&fd| table.is_cloexec(fd) == Ok(true)));
        assert_eq!(opened, [0, 1]);
        if copy.open_fds().len() == 2 {
            "both"
        } else {
            "one after the other"
        }
    });
}

#[test]
fn fork_against_a_move_of_a_descriptor_never_misses_the_file() {
    explore(SCHEDULES, &["before", "between", "after"], || {
        let table = table(FdPolicy::Lowest, 1);
        // Downwards and into another block: a copy made block by block could see neither.
        assert!(table.dup2(0, 70, &pin()).unwrap().is_none());
        assert_eq!(closed(table.close(0, &pin()).unwrap()), (100, false));
        let mover = spawn(&table, |table| {
            table.dup2(70, 5, &pin()).unwrap();
            closed(table.close(70, &pin()).unwrap())
        });
        let child = table.fork();
        let (name, _) = mover.join().unwrap();
        assert_eq!(name, 100);
        let found = child.open_fds();
        let last =
            |closed: Vec<Closed<Named>>| closed.into_iter().filter_map(Closed::give_up).count();
        assert_eq!(last(table.drain(&pin())) + last(child.drain(&pin())), 1);
        match found[..] {
            [70] => "before",
            [5, 70] => "between",
            [5] => "after",
            _ => panic!("the child has {found:?}"),
        }
    });
}

#[test]
fn tasks_that_open_and_close_per_core_never_share_a_descriptor() {
    explore(SCHEDULES, &["done"], || {
        let table = table(FdPolicy::PerCore, 0);
        table.set_limit(66).unwrap();
        let task = |id: u32| {
            move |table: &FdTable<Named>| {
                let first = table.reserve(false).unwrap().install(named(id));
                let second = table.reserve(false).unwrap().install(named(id + 1));
                assert_eq!(closed(table.close(first, &pin()).unwrap()), (id, true));
                assert_eq!(name(table, second), Some(id + 1));
                second
            }
        };
        let tasks = [10, 20, 30].map(|id| (id, spawn(&table, task(id))));
        let left = tasks.map(|(id, task)| (task.join().unwrap(), id + 1));
        for (fd, id) in left {
            assert_eq!(name(&table, fd), Some(id));
        }
        assert_eq!(table.open_fds().len(), left.len());
        "done"
    });
}

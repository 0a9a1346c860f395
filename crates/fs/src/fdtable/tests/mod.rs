mod model;
mod threads;

use super::*;
use hearth_sync::epoch::pin;

/// A description that knows its name.
struct Named {
    name: u32,
    handles: Handles,
}

impl Described for Named {
    fn handles(&self) -> &Handles {
        &self.handles
    }
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.name)
    }
}

fn named(name: u32) -> Share<Named> {
    Share::new(Named {
        name,
        handles: Handles::new(),
    })
}

fn open(table: &FdTable<Named>, name: u32) -> i32 {
    table.reserve(false).unwrap().install(named(name))
}

fn name(table: &FdTable<Named>, fd: i32) -> Option<u32> {
    table.get(fd, &pin()).map(|file| file.name)
}

fn closed(closed: Closed<Named>) -> (u32, bool) {
    let name = closed.file.name;
    (name, closed.give_up().is_some())
}

/// The number of descriptions whose last descriptors these were.
fn gone(closed: Vec<Closed<Named>>) -> usize {
    closed.into_iter().filter_map(Closed::give_up).count()
}

#[test]
fn the_lowest_free_descriptor_is_given_out() {
    let table = FdTable::default();
    let fds: Vec<i32> = (0..200).map(|n| open(&table, n)).collect();
    assert_eq!(fds, (0..200).collect::<Vec<_>>());
    for fd in [150, 3, 64, 63] {
        assert_eq!(closed(table.close(fd, &pin()).unwrap()), (fd as u32, true));
    }
    let again: Vec<i32> = (0..6).map(|n| open(&table, 1000 + n)).collect();
    assert_eq!(again, [3, 63, 64, 150, 200, 201]);
}

#[test]
fn descriptors_that_are_not_open_are_bad() {
    let table = FdTable::<Named>::default();
    let fd = table.reserve(false).unwrap();
    for bad in [-1, i32::MIN, fd.fd(), 1, 64, i32::MAX] {
        assert!(table.get(bad, &pin()).is_none());
        assert_eq!(table.close(bad, &pin()).unwrap_err(), Errno::EBADF);
        assert_eq!(table.dup(bad), Err(Errno::EBADF));
        assert_eq!(table.dup2(bad, bad, &pin()).unwrap_err(), Errno::EBADF);
        assert_eq!(table.dup2(bad, 5, &pin()).unwrap_err(), Errno::EBADF);
        assert_eq!(table.dupfd(bad, 5, false), Err(Errno::EBADF));
        assert_eq!(table.is_cloexec(bad), Err(Errno::EBADF));
        assert_eq!(table.set_cloexec(bad, true), Err(Errno::EBADF));
    }
}

#[test]
fn a_dropped_reservation_gives_its_descriptor_back() {
    let table = FdTable::default();
    let first = table.reserve(true).unwrap();
    let second = table.reserve(false).unwrap();
    assert_eq!((first.fd(), second.fd()), (0, 1));
    drop(first);
    assert_eq!(open(&table, 7), 0);
    assert_eq!(
        table.is_cloexec(0),
        Ok(false),
        "the bit of the dropped one is gone"
    );
    assert_eq!(second.install(named(8)), 1);
    assert_eq!((name(&table, 0), name(&table, 1)), (Some(7), Some(8)));
}

#[test]
fn dup2_replaces_what_is_open_and_refuses_what_is_only_reserved() {
    let table = FdTable::default();
    let (a, b) = (open(&table, 10), open(&table, 11));
    assert_eq!(
        closed(table.dup2(a, b, &pin()).unwrap().unwrap()),
        (11, true)
    );
    assert_eq!(name(&table, b), Some(10));
    assert!(table.dup2(a, a, &pin()).unwrap().is_none());
    assert_eq!(table.dup3(a, a, false, &pin()).unwrap_err(), Errno::EINVAL);
    let reserved = table.reserve(false).unwrap();
    assert_eq!(
        table.dup2(a, reserved.fd(), &pin()).unwrap_err(),
        Errno::EBUSY
    );
    assert!(table.dup3(a, 500, true, &pin()).unwrap().is_none());
    assert_eq!(table.is_cloexec(500), Ok(true));
    assert_eq!(
        table.dup2(a, FDS_MAX as i32, &pin()).unwrap_err(),
        Errno::EBADF
    );
    assert_eq!(table.dup2(a, -1, &pin()).unwrap_err(), Errno::EBADF);
    assert_eq!(closed(table.close(a, &pin()).unwrap()), (10, false));
    assert_eq!(closed(table.close(b, &pin()).unwrap()), (10, false));
    assert_eq!(closed(table.close(500, &pin()).unwrap()), (10, true));
}

#[test]
fn dupfd_takes_the_lowest_from_its_minimum_on_and_dup_clears_close_on_exec() {
    let table = FdTable::default();
    let fd = table.reserve(true).unwrap().install(named(1));
    assert_eq!(table.dupfd(fd, 100, true), Ok(100));
    assert_eq!(table.dupfd(fd, 100, false), Ok(101));
    assert_eq!(table.dupfd(fd, 0, false), Ok(1));
    assert_eq!(table.dup(100), Ok(2));
    let flags = [0, 100, 101, 1, 2].map(|fd| table.is_cloexec(fd).unwrap());
    assert_eq!(flags, [true, true, false, false, false]);
    assert_eq!(table.dupfd(fd, -1, false), Err(Errno::EINVAL));
    assert_eq!(table.dupfd(fd, FDS_MAX as i32, false), Err(Errno::EINVAL));
}

#[test]
fn the_limit_refuses_new_descriptors_and_keeps_open_ones() {
    for policy in [FdPolicy::Lowest, FdPolicy::PerCore] {
        let table = FdTable::new(policy);
        assert_eq!(table.set_limit(FDS_MAX + 1), Err(Errno::EPERM));
        table.set_limit(70).unwrap();
        for n in 0..70 {
            assert!(open(&table, n) < 70);
        }
        assert_eq!(table.reserve(false).err(), Some(Errno::EMFILE));
        assert_eq!(table.dup(0), Err(Errno::EMFILE));
        assert_eq!(table.dupfd(0, 69, false), Err(Errno::EMFILE));
        assert_eq!(table.dupfd(0, 70, false), Err(Errno::EINVAL));
        table.set_limit(2).unwrap();
        closed(table.close(5, &pin()).unwrap());
        assert_eq!(table.reserve(false).err(), Some(Errno::EMFILE));
        assert!(name(&table, 69).is_some());
        closed(table.close(1, &pin()).unwrap());
        assert_eq!(open(&table, 9), 1);
        let last: u32 = table
            .drain(&pin())
            .into_iter()
            .map(|closed| u32::from(closed.give_up().is_some()))
            .sum();
        assert_eq!(last, 69, "a refused dup is not counted");
    }
}

#[test]
fn a_whole_table_can_be_filled() {
    for policy in [FdPolicy::Lowest, FdPolicy::PerCore] {
        let table = FdTable::new(policy);
        let file = named(1);
        let first = table.reserve(false).unwrap().install(file.clone());
        for _ in 1..FDS_MAX {
            table.dup(first).unwrap();
        }
        assert_eq!(table.dup(first), Err(Errno::EMFILE));
        closed(table.close(777_777, &pin()).unwrap());
        assert_eq!(table.dup(first), Ok(777_777));
        assert_eq!(gone(table.drain(&pin())), 1);
    }
}

#[test]
fn a_fork_has_the_same_descriptors_and_goes_its_own_way() {
    for policy in [FdPolicy::Lowest, FdPolicy::PerCore] {
        let parent = FdTable::new(policy);
        parent.set_limit(1000).unwrap();
        let (a, b) = (open(&parent, 1), open(&parent, 2));
        parent.dup3(a, 900, true, &pin()).unwrap();
        let reserved = parent.reserve(false).unwrap();
        let child = parent.fork();
        assert_eq!((child.policy(), child.limit()), (policy, 1000));
        assert_eq!(child.open_fds(), [a, b, 900]);
        assert_eq!(
            (child.is_cloexec(a), child.is_cloexec(900)),
            (Ok(false), Ok(true))
        );
        assert!(
            child.dup2(a, reserved.fd(), &pin()).unwrap().is_none(),
            "not reserved in the child"
        );
        assert_eq!(closed(child.close(b, &pin()).unwrap()), (2, false));
        assert_eq!(closed(parent.close(b, &pin()).unwrap()), (2, true));
        assert_eq!(gone(parent.drain(&pin())), 0);
        assert_eq!(gone(child.drain(&pin())), 1);
    }
}

#[test]
fn executing_closes_descriptors_marked_close_on_exec() {
    let table = FdTable::default();
    for n in 0..100 {
        table.reserve(n % 3 == 0).unwrap().install(named(n));
    }
    table.set_cloexec(0, false).unwrap();
    table.set_cloexec(1, true).unwrap();
    let names: Vec<u32> = table
        .close_on_exec(&pin())
        .into_iter()
        .map(|c| c.file.name)
        .collect();
    assert_eq!(names[..3], [1, 3, 6]);
    assert_eq!((names.len(), table.open_fds().len()), (34, 66));
    assert_eq!(open(&table, 0), 1);
}

#[test]
fn a_value_that_a_reader_sees_outlives_its_descriptor() {
    let table = FdTable::default();
    let fd = open(&table, 5);
    let guard = pin();
    let file = table.get(fd, &guard).unwrap();
    let closed = table.close(fd, &guard).unwrap();
    assert!(closed.give_up().is_some());
    assert_eq!(file.name, 5);
    assert!(!file.handles.retain(), "it cannot get a descriptor again");
}

#[test]
fn descriptors_share_no_line() {
    assert_eq!(align_of::<Block<Named>>(), 64);
    assert_eq!(size_of::<Block<Named>>(), 64 + 64 * 64);
}

//! Each does what its name says: the calls of two tasks are written down and compared.

use super::*;
use crate::measure::{apart, prepare, times};
use crate::script::{self, Make, Times};
use crate::target::{About, Client, Entries, Handle, Library, Sharing, Target};
use crate::workload::Workload;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::sync::Mutex;

/// A call and what it was made on: a path, and for an open file the path and the offset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SpyCall {
    what: &'static str,
    on: String,
    at: u64,
}

/// A target that writes down what its clients call, client by client.
struct Spy {
    library: Library,
    calls: Mutex<Vec<Vec<SpyCall>>>,
}

struct SpyClient<'a> {
    inner: Box<dyn Client + 'a>,
    open: RefCell<BTreeMap<Handle, String>>,
    calls: RefCell<Vec<SpyCall>>,
    all: &'a Mutex<Vec<Vec<SpyCall>>>,
}

impl Spy {
    fn new() -> Spy {
        Spy {
            library: Library::new(Sharing::Processes).unwrap(),
            calls: Mutex::default(),
        }
    }

    /// What each client called since this was asked last, preparations and checks left out.
    fn take(&self) -> Vec<Vec<SpyCall>> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

impl Target for Spy {
    fn client(&self) -> Box<dyn Client + '_> {
        Box::new(SpyClient {
            inner: self.library.client(),
            open: RefCell::default(),
            calls: RefCell::default(),
            all: &self.calls,
        })
    }
}

impl SpyClient<'_> {
    fn note(&self, what: &'static str, on: String, at: u64) {
        self.calls.borrow_mut().push(SpyCall { what, on, at });
    }

    fn note_path(&self, what: &'static str, path: &CStr) {
        self.note(what, path.to_str().unwrap().to_owned(), 0);
    }

    fn note_file(&self, what: &'static str, file: Handle, at: u64) {
        let on = self.open.borrow()[&file].clone();
        self.note(what, on, at);
    }
}

/// Calls that are passed on; those that are noted say what they are about: a path, or an open file
/// and a place in it.
macro_rules! passed_on {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty $(, path $path:ident)?
       $(, file $file:ident at $at:expr)?;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> $out {
            $(self.note_path(stringify!($name), $path);)?
            $(self.note_file(stringify!($name), $file, $at);)?
            self.inner.$name($($arg),*)
        }
    )*};
}

impl Drop for SpyClient<'_> {
    fn drop(&mut self) {
        self.all.lock().unwrap().push(self.calls.take());
    }
}

impl Client for SpyClient<'_> {
    passed_on! {
        stat(path: &CStr) -> bool, path path;
        about(path: &CStr) -> Result<About, String>;
        refuses(path: &CStr, flags: i32) -> bool;
        read(file: Handle, out: &mut [u8], off: u64) -> Result<usize, String>, file file at off;
        write(file: Handle, data: &[u8], off: u64) -> Result<usize, String>, file file at off;
        read_next(file: Handle, out: &mut [u8]) -> Result<usize, String>, file file at 0;
        write_next(file: Handle, data: &[u8]) -> Result<usize, String>, file file at 0;
        truncate(file: Handle, size: u64) -> Result<(), String>, file file at size;
        sync(file: Handle) -> Result<(), String>, file file at 0;
        lock(file: Handle, at: u64, is_taken: bool) -> Result<(), String>;
        unlink(path: &CStr) -> Result<(), String>, path path;
        chmod(path: &CStr, mode: u16) -> Result<(), String>;
        mkdir(path: &CStr) -> Result<(), String>;
        rmdir(path: &CStr) -> Result<(), String>;
        list(path: &CStr) -> Result<usize, String>, path path;
        entries(path: &CStr) -> Result<Entries, String>;
        chdir(path: &CStr) -> Result<(), String>;
        allow_open(descriptors: usize) -> Result<usize, String>;
    }

    fn open(&self, path: &CStr, flags: i32) -> Result<Handle, String> {
        let creates = flags & libc::O_CREAT != 0;
        self.note_path(if creates { "create" } else { "open" }, path);
        let file = self.inner.open(path, flags)?;
        let name = path.to_str().unwrap().to_owned();
        self.open.borrow_mut().insert(file, name);
        Ok(file)
    }

    fn close(&self, file: Handle) -> Result<(), String> {
        self.open.borrow_mut().remove(&file);
        self.inner.close(file)
    }

    fn rename(&self, old: &CStr, new: &CStr) -> Result<(), String> {
        self.note_path("rename", old);
        self.note_path("to", new);
        self.inner.rename(old, new)
    }

    fn end(self: Box<Self>) {}
}

/// Operations of each task.
const TIMES: u32 = 20;

fn script(name: &str) -> &'static Script {
    let mut all = FXMARK_STEADY.iter().chain(&FXMARK_USED_UP);
    all.find(|script| script.name == name).expect(name)
}

/// Does so many operations as one task.
fn repeat(spy: &Spy, work: &Times, place: (usize, usize), times: u32) -> Result<(), String> {
    let mut task = work.task(spy.client(), place)?;
    (0..times).try_for_each(|_| task.once())
}

/// What two tasks of a benchmark called while it was measured, what they work on being there.
fn calls(name: &str) -> [Vec<SpyCall>; 2] {
    let script = script(name);
    let spy = Spy::new();
    let repeated = script.repeated();
    prepare(&spy, &repeated, 2).expect(name);
    spy.take();
    for task in 0..2 {
        repeat(&spy, &repeated, (task, 2), TIMES).expect(name);
    }
    let mut all = spy.take();
    let made: usize = script
        .own
        .iter()
        .map(|make| match make {
            // Created, and `write` does not end before a page was written.
            Make::Each(_) => script::OPERATIONS,
            Make::File(..) => 1,
            Make::Long(_, bytes) => {
                1 + (script::OPERATIONS as u64 * bytes).div_ceil(1 << 20) as usize
            }
            _ => 0,
        })
        .sum();
    all.iter_mut().for_each(|calls| drop(calls.drain(..made)));
    if script.back.is_empty() {
        let done = [u64::from(TIMES); 2];
        apart(&spy, &|client| repeated.check(client, &done)).expect(name);
    } else {
        let phases = times(&Spy::new(), &script.times(TIMES as usize), 2, 0).expect(name);
        let work = phases.last().expect("a phase");
        assert_eq!(work.operations, 2 * u64::from(TIMES), "{name}");
    }
    all.try_into().expect("two tasks")
}

/// The calls of one name.
fn of<'a>(calls: &'a [SpyCall], what: &str) -> Vec<&'a SpyCall> {
    calls.iter().filter(|call| call.what == what).collect()
}

/// Files, and directories of the files.
fn files(calls: &[&SpyCall]) -> BTreeSet<String> {
    calls.iter().map(|call| call.on.clone()).collect()
}

fn directories(calls: &[&SpyCall]) -> BTreeSet<String> {
    let above = |call: &&SpyCall| call.on.rsplit_once('/').expect("a path").0.to_owned();
    calls.iter().map(above).collect()
}

#[test]
fn there_are_nineteen_with_the_names_of_the_paper() {
    let all = FXMARK_STEADY.iter().chain(&FXMARK_USED_UP);
    let all: BTreeSet<&str> = all.map(|script| script.name).collect();
    assert_eq!(all, NAMES.into());
    assert_eq!(all.len(), 19);
}

/// Fourth letter L or M, and a file each: (name, call, other calls with it).
#[test]
fn pages_are_of_private_files_of_private_regions_or_the_same() {
    for (name, what) in [
        ("DWOL", "write"),
        ("DWSL", "write"),
        ("DWAL", "write_next"),
        ("DRBL", "read"),
        ("DWOM", "write"),
        ("DRBM", "read"),
        ("DRBH", "read"),
    ] {
        let [a, b] = calls(name);
        for calls in [&a, &b] {
            assert_eq!(of(calls, what).len(), TIMES as usize, "{name}");
            let syncs = if name == "DWSL" { TIMES as usize } else { 0 };
            assert_eq!(of(calls, "sync").len(), syncs, "{name}");
            assert_eq!(
                calls.len(),
                1 + TIMES as usize + syncs,
                "{name}: and one open"
            );
        }
        let (a, b) = (of(&a, what), of(&b, what));
        let is_shared = name.ends_with('M') || name.ends_with('H');
        assert_eq!(files(&a) == files(&b), is_shared, "{name}");
        assert_eq!(files(&a).is_disjoint(&files(&b)), !is_shared, "{name}");
        assert_eq!(a[0].at == b[0].at, !name.ends_with('M'), "{name}");
        if name.ends_with('M') {
            assert_eq!(b[0].at - a[0].at, 8 << 20, "{name}");
        }
    }
}

#[test]
fn truncations_take_a_page_each_until_the_private_file_is_empty() {
    let [a, b] = calls("DWTL");
    let (a, b) = (of(&a, "truncate"), of(&b, "truncate"));
    assert!(files(&a).is_disjoint(&files(&b)));
    let sizes: Vec<u64> = a.iter().map(|call| call.at).collect();
    let last = script::OPERATIONS as u64;
    let wanted: Vec<u64> = (last - u64::from(TIMES)..last)
        .rev()
        .map(|n| n * 4096)
        .collect();
    assert_eq!(sizes, wanted);
}

/// Cut to pages that are not there any more, it would grow and shrink, and no page would go.
#[test]
fn truncated_files_are_filled_again_before_what_is_measured() {
    let spy = Spy::new();
    times(&spy, &script("DWTL").times(TIMES as usize), 2, 0).unwrap();
    let all = spy.take();
    for calls in &all[1..3] {
        let mut what: Vec<_> = calls.iter().map(|call| call.what).collect();
        what.dedup();
        let twice = ["create", "write", "open", "truncate", "write", "truncate"];
        assert_eq!(what, twice);
    }
}

#[test]
fn paths_are_private_random_or_the_same_and_five_levels_deep() {
    for name in ["MRPL", "MRPM", "MRPH"] {
        // MRPM begins with each file of the tree.
        let first = if name == "MRPM" { 8_usize.pow(5) } else { 0 };
        let [a, b] = calls(name).map(|mut calls| calls.split_off(first));
        assert_eq!(
            (a.len(), b.len()),
            (TIMES as usize, TIMES as usize),
            "{name}"
        );
        let (a, b) = (of(&a, "stat"), of(&b, "stat"));
        assert!(
            a.iter()
                .chain(&b)
                .all(|call| call.on.matches('/').count() == 5),
            "{name}"
        );
        match name {
            "MRPL" => assert!(files(&a).is_disjoint(&files(&b)) && files(&a).len() == 1),
            "MRPH" => assert!(files(&a) == files(&b) && files(&a).len() == 1),
            _ => {
                assert!(files(&a) != files(&b) && files(&a).len() > 10);
                // The whole tree is everybody's.
                let tops = |calls: &[&SpyCall]| -> BTreeSet<String> {
                    calls.iter().map(|call| call.on[..2].to_owned()).collect()
                };
                assert!(!tops(&a).is_disjoint(&tops(&b)));
            }
        }
    }
}

#[test]
fn listings_are_of_private_directories_or_of_the_shared_one() {
    for (name, is_shared) in [("MRDL", false), ("MRDM", true)] {
        let [a, b] = calls(name);
        let (a, b) = (of(&a, "list"), of(&b, "list"));
        assert_eq!(
            (a.len(), b.len()),
            (TIMES as usize, TIMES as usize),
            "{name}"
        );
        assert_eq!(files(&a) == files(&b), is_shared, "{name}");
    }
}

#[test]
fn names_come_and_go_in_private_directories_or_in_the_shared_one() {
    for (name, what, is_shared) in [
        ("MWCL", "create", false),
        ("MWCM", "create", true),
        ("MWUL", "unlink", false),
        ("MWUM", "unlink", true),
        ("MWRL", "rename", false),
        ("MWRM", "rename", false),
        ("MWRL", "to", false),
        ("MWRM", "to", true),
    ] {
        let [a, b] = calls(name);
        let writes = if name == "MWCM" { TIMES as usize } else { 0 };
        assert_eq!(of(&a, "write").len(), writes, "{name}");
        let (a, b) = (of(&a, what), of(&b, what));
        assert_eq!(
            (a.len(), b.len()),
            (TIMES as usize, TIMES as usize),
            "{name}"
        );
        assert_eq!(
            files(&a).len(),
            TIMES as usize,
            "{name}: a new name each time"
        );
        assert!(files(&a).is_disjoint(&files(&b)), "{name}");
        assert_eq!(directories(&a).len(), 1, "{name}");
        assert_eq!(directories(&a) == directories(&b), is_shared, "{name}");
    }
}

#[test]
fn both_runs_that_tell_what_many_tasks_keep_have_as_many_files() {
    let lib = Contender::new("lib").unwrap();
    let files = |runs: Vec<FxRun>| -> Vec<usize> {
        let many = runs.iter().filter(|(_, _, is_usual)| !is_usual);
        many.map(|(tasks, times, _)| tasks * times).collect()
    };
    let is_asked = allowed_cores().len() == 2;
    for script in &FXMARK_USED_UP {
        for is_quick in [false, true] {
            let files = files(runs(&lib, script, &[1, 2, MANY_TASKS], is_quick));
            assert_eq!(files.len(), if is_asked { 2 } else { 0 });
            assert!(files.windows(2).all(|two| two[0] == two[1]), "{files:?}");
        }
    }
    assert!(files(runs(&lib, &FXMARK_USED_UP[0], &[1, 2], false)).is_empty());
}

#[test]
fn random_lookups_of_one_task_reach_the_whole_tree() {
    let spy = Spy::new();
    let mrpm = MRPM_QUICK.repeated();
    prepare(&spy, &mrpm, 1).unwrap();
    spy.take();
    repeat(&spy, &mrpm, (0, 1), 20_000).unwrap();
    let calls = spy.take().concat();
    let (all, random) = calls.split_at(4_usize.pow(5));
    for calls in [all, random] {
        let seen: BTreeSet<&str> = calls.iter().map(|call| &*call.on).collect();
        assert_eq!(seen.len(), all.len());
    }
    assert_eq!(random.len(), 20_000);
}

/// Two rounds in which every test doubles, but for those named.
fn scales(others: &[(&str, [f64; 2])]) -> Grid {
    let mut grid = Grid::default();
    for name in NAMES {
        let other = others.iter().find(|(other, _)| *other == name);
        for two in other.map_or([2.0, 2.0], |(_, ratios)| *ratios) {
            grid.push(name, "lib", 1, 1.0);
            grid.push(name, "lib", 2, two);
        }
    }
    grid
}

#[test]
fn the_range_of_the_count_is_that_of_the_rounds_and_every_test_has_to_be_there() {
    let others = [
        ("DWAL", [1.5, 2.0]),
        ("MWRM", [1.0, 2.5]),
        ("MRPH", [1.2, 1.3]),
    ];
    let ask = scaling(&scales(&others), "lib").unwrap();
    assert_eq!((ask.got, ask.range), (Some(18.0), (16.0, 18.0)));
    assert!(ask.what.ends_with("(not MRPH 1.25)"), "{}", ask.what);
    assert!(scaling(&scales(&[]), "tmpfs").is_none());
    let text = scale_table(
        &scales(&others[..1]),
        &["lib".to_owned(), "tmpfs".to_owned()],
    );
    let line = text.lines().find(|line| line.starts_with("| DWAL"));
    assert!(line.is_some_and(|line| line.contains("1.75 (1.50 to 2.00)")));
}

//! Every call of a process is counted once, by its name, and so is its error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "calls/rows.rs"]
mod rows;

use hearth::{Call, CallStats, Credentials, Errno, Process, Volume};
use rows::{DIR, FILE, NO_CALLS, OTHER, OTHERS, ROWS, Row, SURE, Sure};
use std::collections::{BTreeMap, BTreeSet};

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

fn prepared() -> Process {
    let p = Volume::memory().process(Credentials::root());
    for (fd, path, flags) in [
        (FILE, "/file", NEW),
        (DIR, "/", libc::O_RDONLY),
        (OTHER, "/other", NEW),
    ] {
        assert_eq!(p.open(path, flags, 0o600), Ok(fd));
    }
    p.pwrite(FILE, b"hearth", 0).unwrap();
    p.fsetxattr(FILE, b"user.a", b"1", 0).unwrap();
    p.symlink("file", "/link").unwrap();
    p
}

/// What was counted, without what is zero.
fn counted(p: &Process) -> BTreeMap<&'static str, CallStats> {
    let all = Call::ALL.iter();
    all.map(|&call| (call.name(), p.volume().stats().call(call)))
        .filter(|(_, sum)| *sum != CallStats::default())
        .collect()
}

/// What `f` adds to the counts.
fn added(p: &Process, f: impl FnOnce()) -> BTreeMap<&'static str, CallStats> {
    let before = counted(p);
    f();
    let mut after = counted(p);
    for (name, sum) in before {
        let now = after.get_mut(name).unwrap();
        now.count -= sum.count;
        now.errors -= sum.errors;
    }
    after.retain(|_, sum| *sum != CallStats::default());
    after
}

fn only(call: Call, errors: u64) -> BTreeMap<&'static str, CallStats> {
    BTreeMap::from([(call.name(), CallStats { count: 1, errors })])
}

#[test]
fn every_call_counts_once_and_so_does_its_error() {
    let p = prepared();
    for Row(method, call, works, fails) in ROWS {
        let counts = added(&p, || assert!(works(&p), "{method}"));
        assert_eq!(counts, only(*call, 0), "{method}");
        let counts = added(&p, || assert!(!fails(&p), "{method}"));
        assert_eq!(counts, only(*call, 1), "{method} that fails");
    }
    for Sure(method, call, f) in SURE {
        assert_eq!(added(&p, || f(&p)), only(*call, 0), "{method}");
    }
    p.mkdir("/lost", 0o755).unwrap();
    p.chdir("/lost").unwrap();
    p.rmdir("/lost").unwrap();
    let counts = added(&p, || assert_eq!(p.getcwd(), Err(Errno::ENOENT)));
    assert_eq!(counts, only(Call::Getcwd, 1));
}

#[test]
fn a_child_is_a_fork_and_an_exit() {
    let p = prepared();
    let counts = added(&p, || drop(p.fork()));
    let once = CallStats {
        count: 1,
        errors: 0,
    };
    assert_eq!(counts, BTreeMap::from([("fork", once), ("exit", once)]));
}

/// A new public method is a call, or says above that it is none.
#[test]
fn the_rows_are_all_public_methods_and_all_calls() {
    let rows = ROWS.iter().map(|Row(method, call, ..)| (*method, *call));
    let sure = SURE.iter().map(|Sure(method, call, _)| (*method, *call));
    let rows = rows.chain(sure).chain(OTHERS.iter().copied());
    let (mut methods, mut calls) = (BTreeSet::from(["drop"]), BTreeSet::new());
    for (method, call) in rows {
        methods.insert(method);
        calls.insert(call.name());
    }
    let all: BTreeSet<_> = Call::ALL.iter().map(|call| call.name()).collect();
    assert_eq!(calls, all);
    methods.extend(NO_CALLS);
    methods.remove("drop");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/process");
    let mut written = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let heads = text
            .lines()
            .filter_map(|line| line.strip_prefix("    pub fn "));
        written.extend(heads.filter_map(|head| Some(head.split(['(', '<']).next()?.to_owned())));
    }
    let methods: BTreeSet<_> = methods.into_iter().map(str::to_owned).collect();
    assert_eq!(methods, written);
}

#[test]
fn a_call_within_a_call_counts_as_well() {
    let p = prepared();
    let names = p.read_dir("/").unwrap().len() as u64 + 2;
    let counts = added(&p, || {
        let each = &mut |_: hearth::DirEntry<'_>| p.fstat(FILE).is_ok();
        p.getdents(DIR, each).unwrap();
    });
    assert_eq!(
        (counts["getdents"].count, counts["fstat"].count),
        (1, names)
    );
}

#[test]
fn threads_on_any_core_lose_no_count() {
    let p = prepared();
    let counts = added(&p, || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        p.stat("/file").unwrap();
                        assert!(p.stat("/missing").is_err());
                    }
                });
            }
        });
    });
    let sum = CallStats {
        count: 16_000,
        errors: 8000,
    };
    assert_eq!(counts, BTreeMap::from([("fstatat", sum)]));
}

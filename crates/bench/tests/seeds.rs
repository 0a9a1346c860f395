//! Every seed workload does what its name says, on the library and on a directory.

use hearth_bench::allocations::Counting;
use hearth_bench::contender::Contender;
use hearth_bench::measure::{prepare, rate, times};
use hearth_bench::pinned::allowed_cores;
use hearth_bench::seeds::{FAMILIES, teardown};
use hearth_bench::target::Client;
use hearth_bench::workload::{Workload, path};
use hearth_bench::workloads::THREAD_PERF;
use hearth_testing::place::Place;
use std::process::{Command, Output};
use std::time::Duration;

/// What is counted of the workloads needs it.
#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

fn on_each(name: &str, check: impl Fn(&Contender)) {
    let place = Place::new(name).expect("a directory");
    for name in [
        "lib",
        "lib-shared",
        "lib-lowest",
        &place.path().to_string_lossy(),
    ] {
        check(&Contender::new(name).expect(name));
    }
    let left = std::fs::read_dir(place.path())
        .expect("the directory is there")
        .count();
    assert_eq!(left, 0, "every run removes what it made");
}

/// [`rate`] ends with the workload's own check of the tree.
#[test]
fn every_script_leaves_the_tree_that_it_should() {
    on_each("scripts", |contender| {
        for family in FAMILIES {
            for script in (family.scripts)() {
                for tasks in [1, 3] {
                    let fresh = contender.fresh().unwrap();
                    let target = fresh.target();
                    let (name, workload) = (script.name, script.repeated());
                    prepare(target, &workload, tasks).expect(name);
                    let rate = rate(target, &workload, tasks, Duration::from_millis(5), 0);
                    let rate = rate.unwrap_or_else(|what| panic!("{name}: {what}"));
                    assert!(rate.per_second > 0.0, "{name}");
                }
            }
        }
    });
}

/// A file that nobody should have made, in every directory.
fn stray(client: &dyn Client, directory: &str) {
    let entries = client.entries(&path(directory)).expect("it is a directory");
    for entry in entries.iter().filter(|entry| entry.is_dir) {
        let name = String::from_utf8_lossy(entry.name);
        stray(
            client,
            &format!("{}/{name}", directory.trim_end_matches('/')),
        );
    }
    let file = path(format!("{}/stray", directory.trim_end_matches('/')));
    let made = client.open(&file, libc::O_CREAT | libc::O_RDWR);
    let closed = client.close(made.expect("there is room"));
    closed.expect("it is open");
}

#[test]
fn a_tree_that_is_not_as_it_should_be_is_noticed() {
    let own = ["single", "file-ops", "paths"];
    for family in FAMILIES.iter().filter(|one| own.contains(&one.name)) {
        for script in (family.scripts)() {
            let fresh = Contender::new("lib").unwrap().fresh().unwrap();
            let workload = script.repeated();
            prepare(fresh.target(), &workload, 2).unwrap();
            let done = rate(fresh.target(), &workload, 2, Duration::from_millis(1), 0);
            assert!(done.is_ok(), "{}", script.name);
            stray(&*fresh.target().client(), "/");
            let said = workload.check(&*fresh.target().client(), &[9, 9]);
            assert!(said.is_err(), "{}", script.name);
        }
    }
    for (script, _) in &THREAD_PERF {
        let test = script.times(3);
        let fresh = Contender::new("lib").unwrap().fresh().unwrap();
        times(fresh.target(), &test, 2, 0).unwrap();
        stray(&*fresh.target().client(), "/");
        assert!(
            test.check(&*fresh.target().client(), &[3, 3]).is_err(),
            "{}",
            script.name
        );
    }
}

#[test]
fn every_job_leaves_the_tree_that_it_should_and_counts_its_operations() {
    on_each("jobs", |contender| {
        for (script, _) in &THREAD_PERF {
            let test = script.times(7);
            for fresh in [contender.fresh(), contender.fresh_for_threads()] {
                let fresh = fresh.unwrap();
                let phases = times(fresh.target(), &test, 3, 0);
                let phases = phases.unwrap_or_else(|what| panic!("{}: {what}", script.name));
                assert_eq!(phases.len(), 1);
                assert_eq!(phases[0].operations, 21, "{}", script.name);
                assert!(phases[0].seconds > 0.0);
            }
        }
        if contender.has_processes() {
            let job = teardown::Sockets { descriptors: 300 };
            let fresh = contender.fresh().unwrap();
            let phases = times(fresh.target(), &job, 2, 0).unwrap();
            assert_eq!(phases.len(), job.phases().len());
            assert!(phases.iter().all(|phase| phase.operations == 600));
        }
    });
}

#[test]
fn every_family_has_workloads_with_names_of_their_own() {
    let mut names: Vec<String> = Vec::new();
    for family in FAMILIES {
        assert!(!family.workloads().is_empty() && !(family.about)().is_empty());
        names.extend(
            family
                .workloads()
                .iter()
                .map(|w| format!("{}: {w}", family.name)),
        );
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// As the paper names them, in the order of its table.
#[test]
fn fxmark_has_the_nineteen_workloads_of_the_paper_and_counts_all_of_them() {
    let mut due = [
        "DWAL", "DWOL", "DWOM", "DWSL", "DWTL", "DRBL", "DRBM", "DRBH", "MRPL", "MRPM", "MRPH",
        "MRDL", "MRDM", "MWCL", "MWCM", "MWUL", "MWUM", "MWRL", "MWRM",
    ];
    due.sort_unstable();
    let mut families = FAMILIES.iter();
    let fxmark = families.find(|family| family.name == "fxmark");
    let fxmark = fxmark.expect("FxMark is a family");
    let mut workloads = fxmark.workloads();
    workloads.sort_unstable();
    assert_eq!(workloads, due);
    let counted = fxmark.all_counted();
    let mut counted: Vec<String> = counted.iter().map(|workload| workload.name()).collect();
    counted.sort_unstable();
    assert_eq!(counted, due);
}

fn seeds(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth-bench"));
    command
        .arg("seeds")
        .args(args)
        .output()
        .expect("the benchmark starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn bad_input_is_one_line_that_names_it_and_the_remedy() {
    for (args, wanted) in [
        (
            &["--only", "sendmail"][..],
            "unknown workload 'sendmail'; there are: ",
        ),
        (
            &["--target", "/etc/passwd"],
            "target '/etc/passwd': not a directory, and none of lib",
        ),
        (
            &["--target", "/no/such"],
            "target '/no/such': not a directory",
        ),
        (&["--target"], "--target needs a name or a directory"),
        (&["--fast"], "unknown argument '--fast'"),
    ] {
        let output = seeds(args);
        assert!(!output.status.success(), "{args:?}");
        let said = said(&output);
        assert!(said.contains(wanted), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// The whole program, for one test: table, rows and picture.
#[test]
fn a_quick_look_prints_the_table_and_writes_rows_and_pictures() {
    let [place, out] = ["place", "out"].map(|name| Place::new(name).expect("a directory"));
    let rows = out.path().join("rows.jsonl");
    let targets = format!("lib,{}", place.path().display());
    let args = ["--quick", "--only", "readwrite", "--target", &targets];
    let rest = ["--no-count", "--json", &rows.to_string_lossy()];
    let output = seeds(&[&args[..], &rest].concat());
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("## thread_perf") && !text.contains("## file-ops"),
        "{text}"
    );
    assert!(text.contains("threads / processes"), "{text}");
    let rows = std::fs::read_to_string(rows).expect("the rows are written");
    for line in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row is JSON");
        assert_eq!(row["bench"], "thread_perf");
        assert_eq!(row["workload"], "readwrite");
        assert_eq!(row["runs"], 3);
        assert!(row["value"].as_f64().expect("a number") > 0.0);
    }
    assert_eq!(
        rows.lines().count(),
        4,
        "two targets, by threads and by processes"
    );
    let picture = out.path().join("rows-thread_perf-readwrite.svg");
    let picture = std::fs::read_to_string(picture).expect("the picture is drawn");
    assert!(picture.starts_with("<svg"));
}

#[test]
fn what_a_crowd_keeps_is_asked_of_the_workloads_of_one_task_too() {
    let args = ["--quick", "--no-count", "--target", "lib", "--only"];
    let output = seeds(&[&args[..], &["pread 4 KiB"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let is_asked = text.contains("lib, pread 4 KiB: 16 tasks / 2");
    assert_eq!(is_asked, allowed_cores().len() == 2, "{text}");
}

//! Files that leave their project by a call that sets all attributes at once: the ioctl, and the
//! calls of Linux 6.17, which are told project 0 and send it back.

use crate::harness;

use harness::{Below, Mounted, Transport, hearth, program, succeed, until};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

harness::on_both_transports!(
    a_file_that_leaves_its_project_by_ioctl_is_an_event,
    a_file_that_leaves_its_project_by_the_new_call_is_an_event_where_the_kernel_has_it,
    a_file_of_a_host_directory_that_leaves_its_project_is_an_event,
);

/// `file_attr get|ioctl|call FILE`, compiled.
fn compiled(mounted: &Mounted) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/c/file_attr.c");
    let out = mounted.outside("file_attr").join("program");
    let mut gcc = program("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-o"]);
    succeed(gcc.arg(&out).arg(source));
    out
}

fn in_project(mounted: &Mounted, project: &str) -> PathBuf {
    let tree = mounted.at("p");
    fs::create_dir(&tree).unwrap();
    let mut set = hearth();
    succeed(set.args(["quota", "project"]).arg(&tree).arg(project));
    let file = tree.join("a file");
    File::create(&file).unwrap();
    file
}

fn left(mounted: &Mounted) -> Vec<Value> {
    let mut events = hearth();
    let text = succeed(
        events
            .args(["quota", "events", "--json"])
            .arg(mounted.path()),
    );
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.filter(|event: &Value| event["what"] == "project-left")
        .collect()
}

/// Runs the program as a process of its own; what it said, and its number.
fn ask(program: &Path, how: &str, file: &Path) -> (String, u32) {
    let mut child = Command::new(program);
    let child = child
        .arg(how)
        .arg(file)
        .stdout(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    let pid = child.id();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{how}: {out:?}");
    (String::from_utf8(out.stdout).unwrap(), pid)
}

fn is_told(mounted: &Mounted, project: u64, pid: u32) {
    let events = left(mounted);
    let event = events.last().expect("an event");
    assert_eq!(
        (&event["kind"], &event["id"]),
        (&"project".into(), &project.into())
    );
    assert_eq!((&event["uid"], &event["pid"]), (&0.into(), &pid.into()));
    assert_eq!(event["path"], "/p/a file");
    let line = format!("project:{project} project-left by=0 pid={pid} inode=");
    until("the log says it", || {
        let log = mounted.log();
        log.lines()
            .any(|said| said.contains(&line) && said.contains(" path=\"/p/a file\" "))
    });
    let shown = succeed(hearth().args(["quota", "events"]).arg(mounted.path()));
    assert!(shown.contains(&line), "{shown}");
}

fn a_file_that_leaves_its_project_by_ioctl_is_an_event(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    let (program, file) = (compiled(&mounted), in_project(&mounted, "7"));
    let (said, pid) = ask(&program, "ioctl", &file);
    assert_eq!(said, "project 0\n");
    is_told(&mounted, 7, pid);
    // Again, of a file that has none; into a project; and what is asked for by name.
    ask(&program, "ioctl", &file);
    for project in ["7", "8", "0"] {
        let mut set = hearth();
        succeed(
            set.args(["quota", "project"])
                .arg(mounted.at("p"))
                .arg(project),
        );
    }
    assert_eq!(left(&mounted).len(), 1);
    succeed(hearth().args(["quota", "check"]).arg(mounted.path()));
}

fn a_file_that_leaves_its_project_by_the_new_call_is_an_event_where_the_kernel_has_it(
    transport: Transport,
) {
    let mounted = Mounted::new(transport, "");
    let (program, file) = (compiled(&mounted), in_project(&mounted, "7"));
    let (said, pid) = ask(&program, "call", &file);
    if said == "ENOSYS\n" {
        let release = rustix::system::uname();
        let release = release.release().to_string_lossy();
        let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>());
        let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
        let version = (next(), next());
        assert!(version < (6, 17), "Linux {release} has file_setattr(2)");
        eprintln!("skipped: Linux {release} has no file_setattr(2), which came with 6.17");
        return;
    }
    // Whatever a later kernel tells and sends: a project that was left is told.
    match &*said {
        "project 0\n" => is_told(&mounted, 7, pid),
        "project 7\n" => assert!(left(&mounted).is_empty(), "this kernel keeps projects"),
        other => panic!("{other}"),
    }
}

fn a_file_of_a_host_directory_that_leaves_its_project_is_an_event(transport: Transport) {
    let below = Below::tmpfs();
    let mounted = Mounted::over(transport, below.path(), "quota=wait");
    let (program, file) = (compiled(&mounted), in_project(&mounted, "7"));
    let (said, pid) = ask(&program, "ioctl", &file);
    assert_eq!(said, "project 0\n");
    is_told(&mounted, 7, pid);
}

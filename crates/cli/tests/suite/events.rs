//! Names that are made, removed and renamed: in `.hearth/events` and by `hearth events`.

use crate::harness;

use harness::{Below, Mounted, Transport, hearth, program, said, until};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

harness::on_both_transports!(
    what_a_program_does_to_names_is_told_with_path_and_caller,
    a_stream_that_is_read_on_gives_what_came_and_nothing_twice,
);

/// What a stream has by now.
fn news(stream: &mut File) -> Vec<Value> {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn stream(mounted: &Mounted) -> File {
    File::open(mounted.at(".hearth/events")).unwrap()
}

/// `create file /a`, `rename file /a -> /b`.
fn shown(events: &[Value]) -> Vec<String> {
    let line = |event: &Value| {
        let word = |name: &str| event[name].as_str().unwrap_or("?").to_owned();
        let to = match &event["new_path"] {
            Value::Null => String::new(),
            path => format!(" -> {}", path.as_str().unwrap()),
        };
        format!("{} {} {}{to}", word("event"), word("kind"), word("path"))
    };
    events.iter().map(line).collect()
}

/// A user does all that can be done to names; listeners hear of each.
fn check_changes(mounted: &Mounted) {
    let mut stream = stream(mounted);
    mounted.shell("mkdir -m 777 d");
    let script = "cd d; umask 0; echo > f; ln f g; ln -s f s; mkfifo p; mkdir e; echo > e/in; \
                  mv e e2; mv f s; rm g e2/in; rmdir e2; echo >> s; \
                  chmod 600 s; rm none 2>/dev/null || true";
    let mut user = program("setpriv");
    user.args([
        "--reuid=1234",
        "--regid=1234",
        "--clear-groups",
        "bash",
        "-c",
        script,
    ]);
    harness::succeed(user.current_dir(mounted.path()));
    let events = news(&mut stream);
    let expected = [
        "create directory /d",
        "create file /d/f",
        "create file /d/g",
        "create symlink /d/s",
        "create fifo /d/p",
        "create directory /d/e",
        "create file /d/e/in",
        "rename directory /d/e -> /d/e2",
        "rename file /d/f -> /d/s",
        "remove file /d/g",
        "remove file /d/e2/in",
        "remove directory /d/e2",
    ];
    assert_eq!(shown(&events), expected);
    let d = std::fs::metadata(mounted.at("d")).unwrap().ino();
    let s = std::fs::metadata(mounted.at("d/s")).unwrap().ino();
    assert_eq!(
        (&events[0]["uid"], &events[0]["ino"]),
        (&0.into(), &d.into())
    );
    for event in &events[1..] {
        assert_eq!((&event["uid"], &event["gid"]), (&1234.into(), &1234.into()));
        assert_eq!(event["origin"], "mount");
        assert!(event["pid"].as_u64().unwrap() > 0, "{event}");
    }
    let (made, replaced) = (&events[1], &events[8]);
    assert_eq!((&made["ino"], &made["directory"]), (&s.into(), &d.into()));
    assert_eq!(replaced["replaced_ino"], events[3]["ino"]);
    for (number, inode) in [
        (&replaced["replaced_generation"], &events[3]),
        (&replaced["generation"], &events[1]),
        (&made["directory_generation"], &events[0]),
        (&replaced["new_directory_generation"], &events[0]),
    ] {
        assert!(
            number.is_u64() && *number == inode["generation"],
            "{events:?}"
        );
    }
    assert_eq!(replaced["exchanged_ino"], Value::Null);
    assert_eq!(replaced["exchanged_generation"], Value::Null);
}

fn what_a_program_does_to_names_is_told_with_path_and_caller(transport: Transport) {
    check_changes(&Mounted::new(transport, ""));
}

#[test]
fn a_durable_volume_and_a_directory_of_the_host_tell_the_same() {
    check_changes(&Mounted::new(Transport::Dev, "create"));
    let below = Below::tmpfs();
    check_changes(&Mounted::over(Transport::Dev, below.path(), ""));
    let below = Below::ext4();
    check_changes(&Mounted::over(Transport::Dev, below.path(), "quota"));
}

fn a_stream_that_is_read_on_gives_what_came_and_nothing_twice(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    mounted.shell("touch before");
    let mut stream = stream(&mounted);
    assert_eq!(news(&mut stream), [] as [Value; 0]);
    // More than a read takes in one piece.
    mounted.shell("mkdir many; cd many; touch $(seq 2000)");
    let mut other = self::stream(&mounted);
    let first = news(&mut stream);
    assert_eq!(first.len(), 2001);
    let numbers: Vec<u64> = first
        .iter()
        .map(|e| e["sequence"].as_u64().unwrap())
        .collect();
    assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]));
    assert_eq!(news(&mut stream), [] as [Value; 0]);
    std::fs::remove_file(mounted.at("many/7")).unwrap();
    assert_eq!(shown(&news(&mut stream)), ["remove file /many/7"]);
    // Who came later heard only of what came then, with a path that had to be looked for.
    assert_eq!(shown(&news(&mut other)), ["remove file /many/7"]);
}

#[test]
fn names_that_are_no_text_and_those_of_an_exchange_are_told() {
    let mounted = Mounted::new(Transport::Dev, "");
    let mut stream = stream(&mounted);
    mounted.shell("touch $'a\\xff' b; mkdir c");
    rustix::fs::renameat_with(
        rustix::fs::CWD,
        mounted.at("b"),
        rustix::fs::CWD,
        mounted.at("c"),
        rustix::fs::RenameFlags::EXCHANGE,
    )
    .unwrap();
    let events = news(&mut stream);
    assert_eq!(events[0]["name"], "a\u{fffd}");
    assert_eq!(events[0]["name_hex"], "61ff");
    assert_eq!(events[0]["path_hex"], "2f61ff");
    assert_eq!(events[3]["exchanged_ino"], events[2]["ino"]);
    assert_eq!(events[3]["new_path"], "/c");
}

#[test]
fn a_reader_that_is_too_slow_is_told_how_much_it_lost() {
    let mounted = Mounted::new(Transport::Dev, "");
    let mut stream = stream(&mounted);
    mounted.shell("mkdir d; cd d; touch $(seq 17000)");
    let events = news(&mut stream);
    let (lost, kept) = (17_001 - 16_384, 16_384);
    assert_eq!(
        events[0],
        serde_json::json!({"event": "overflow", "lost": lost})
    );
    assert_eq!(events.len(), 1 + kept);
    assert_eq!(events[kept]["path"], "/d/17000");
    let counted = mounted.stat("hearth_name_events_lost_total");
    assert_eq!(counted, f64::from(lost));
}

#[test]
fn the_verb_prints_what_comes_for_people_and_for_programs() {
    let mounted = Mounted::new(Transport::Dev, "");
    let listen = |arguments: &[&str]| {
        let mut listen = hearth();
        listen.arg("events").arg(mounted.path()).args(arguments);
        let listen = listen.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut listen = listen.spawn().unwrap();
        let mut ready = BufReader::new(listen.stderr.take().unwrap());
        let mut line = String::new();
        ready.read_line(&mut line).unwrap();
        assert!(line.starts_with("hearth: listening to "), "{line}");
        listen
    };
    let people = listen(&["--count", "2"]);
    let programs = listen(&["--json", "--count", "1"]);
    let before = seconds();
    mounted.shell("touch a; mv a b");
    let people = people.wait_with_output().unwrap();
    let programs = programs.wait_with_output().unwrap();
    assert!(people.status.success() && programs.status.success());
    let text = String::from_utf8(people.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, what) in lines
        .iter()
        .zip(["create file /a ", "rename file /a -> /b "])
    {
        let (moment, rest) = line.split_once(' ').unwrap();
        assert!(
            rest.starts_with(&format!("{what}uid=0 gid=0 pid=")),
            "{line}"
        );
        assert!(rest.ends_with(" mount"), "{line}");
        let date = said(program("date").args(["-d", moment, "+%s"]));
        let told: f64 = date.out.trim().parse().unwrap();
        assert!((told - before).abs() < 60.0, "{line}");
    }
    let event: Value = serde_json::from_slice(&programs.stdout).unwrap();
    assert_eq!(event["path"], "/a");
    assert!((event["time"].as_f64().unwrap() - before).abs() < 60.0);
}

fn daemon_of(mounted: &Mounted) -> String {
    let pid = std::fs::read_to_string(mounted.at(".hearth/pid")).unwrap();
    pid.trim().to_owned()
}

fn seconds() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

#[test]
fn only_the_owner_and_root_may_listen_and_the_end_of_the_mount_is_said() {
    let mounted = Mounted::new(Transport::Dev, "allow_other");
    let path = mounted.path().to_owned();
    let mut user = program("setpriv");
    user.args(["--reuid=1234", "--regid=1234", "--clear-groups"]);
    user.args(["cat".as_ref(), mounted.at(".hearth/events").as_os_str()]);
    let refused = said(&mut user);
    assert!(refused.err.contains("Permission denied"), "{refused:?}");
    let none = said(hearth().arg("events").arg(Path::new("/")));
    assert!(none.err.contains("findmnt -t fuse.hearth"), "{none:?}");
    let mut listen = hearth();
    let listen = listen.arg("events").arg(&path).stderr(Stdio::piped());
    let mut listen = listen.spawn().unwrap();
    let mut ready = BufReader::new(listen.stderr.take().unwrap());
    let mut line = String::new();
    ready.read_line(&mut line).unwrap();
    // Not by the name of the mount point, which the listener has on its line as well.
    let daemon = daemon_of(&mounted);
    assert!(said(Command::new("kill").args(["-9", &daemon])).success());
    until("the listener ends", || listen.try_wait().unwrap().is_some());
    assert_eq!(listen.wait().unwrap().code(), Some(1));
    line.clear();
    ready.read_line(&mut line).unwrap();
    assert!(
        line.starts_with(&format!("hearth: {}: ", path.display())),
        "{line}"
    );
}

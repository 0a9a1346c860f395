//! Reports of heat by path, their control files and questions, lines that come and go, and who is
//! told of changes.

use crate::fixture::{create, tracked};
use hearth::heat::{Band, ExportedHeat, HeatChange, HeatRank};
use hearth::{Caller, Credentials, Errno, Process, VfsError};
use hearth_control::{bad_lines, export_text};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const HOUR: Duration = Duration::from_secs(3600);

fn read_times(process: &Process, fd: i32, times: usize, off: u64) {
    for _ in 0..times {
        process.pread(fd, &mut [0; 100], off).unwrap();
    }
}

/// Writes to a control file and reads on; what stands there instead after an error.
fn say(process: &Process, file: &str, texts: &[&[u8]]) -> Result<String, (Errno, String)> {
    let path = format!("/.hearth/{file}");
    let fd = process.open(path, libc::O_RDWR, 0).unwrap();
    let mut said = Ok(0);
    for text in texts {
        said = process.write(fd, text);
        if said.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let mut piece = [0; 1000];
    loop {
        match process.read(fd, &mut piece).unwrap() {
            0 => break,
            len => answer.extend_from_slice(&piece[..len]),
        }
    }
    process.close(fd).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    said.map(|_| answer.clone())
        .map_err(|errno| (errno, answer))
}

fn ask(process: &Process, question: &str) -> Value {
    let answer = say(process, "ask", &[question.as_bytes()]).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn directories_are_ranked_by_the_files_in_them() {
    let (volume, process, _) = tracked();
    process.mkdir("/a", 0o755).unwrap();
    process.mkdir("/a/b", 0o755).unwrap();
    for (path, times) in [
        ("/a/one", 30),
        ("/a/two", 30),
        ("/a/b/three", 50),
        ("/top", 5),
    ] {
        let fd = create(&process, path.as_bytes(), 100);
        read_times(&process, fd, times, 0);
    }
    let top = volume
        .heat()
        .top_directories(HeatRank::Reads, 2, None)
        .unwrap();
    let rows: Vec<(&[u8], usize, u64)> = top
        .iter()
        .map(|row| (row.path.as_deref().unwrap(), row.files, row.stats.reads))
        .collect();
    assert_eq!(rows, [(&b"/a"[..], 2, 60), (b"/a/b", 1, 50)]);
    let single = volume.heat().top_files(HeatRank::Reads, 1, None);
    assert!(top[0].stats.temperature > single[0].stats.temperature);
    assert!(top[0].stats.temperature <= 100.0);
}

#[test]
fn commands_return_what_the_library_returns() {
    let (volume, process, hand) = tracked();
    let fd = create(&process, b"/dir \xff", 3 * MIB as usize);
    read_times(&process, fd, 40, 2 * MIB);
    let ino = process.fstat(fd).unwrap().ino;
    process.link(&b"/dir \xff"[..], "/other").unwrap();
    process.unlink("/other").unwrap();
    let top = ask(&process, "heat top file reads 10 -");
    assert_eq!(top[0]["path"], "/dir \u{fffd}");
    assert_eq!(top[0]["path_hex"], "2f64697220ff");
    assert_eq!(
        (&top[0]["reads"], &top[0]["writes"]),
        (&40.into(), &3.into())
    );
    assert_eq!(top[0]["bytes"], 3 * MIB + 4000);
    assert_eq!(
        (&top[0]["grade"], &top[0]["links"]),
        (&"hot".into(), &1.into())
    );
    let ranges = ask(&process, &format!("heat ranges {ino}"));
    let starts: Vec<&Value> = ranges
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["start"])
        .collect();
    assert_eq!(starts, [&Value::from(0), &MIB.into(), &(2 * MIB).into()]);
    let info = ask(&process, &format!("heat info {ino} 2"));
    assert_eq!(
        (&info["cell_bytes"], &info["recorded"]),
        (&(2 * MIB).into(), &true.into())
    );
    let cells: Vec<f64> = info["cells"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(Value::as_f64)
        .collect();
    assert!(
        cells.len() == 2 && cells[1] > 80.0 && cells[0] == 50.0,
        "{cells:?}"
    );
    for by in ["user", "group", "project"] {
        let rows = ask(&process, &format!("heat top {by} accesses 5 -"));
        assert_eq!((&rows[0]["kind"], &rows[0]["id"]), (&by.into(), &0.into()));
    }
    assert_eq!(ask(&process, "heat top dir bytes 5 -")[0]["path"], "/");
    assert_eq!(
        ask(&process, "heat top range reads 1 -")[0]["start"],
        2 * MIB
    );
    let points = &ask(&process, "heat what-if 1048576")["points"];
    let asked = points
        .as_array()
        .unwrap()
        .iter()
        .find(|point| point["asked"] == true);
    assert_eq!(asked.unwrap()["reads"], 1.0);
    hand.pass(HOUR);
    for by in ["file", "range", "dir", "user"] {
        let lately = ask(&process, &format!("heat top {by} reads 10 600000"));
        assert_eq!(lately, Value::Array(Vec::new()), "{by}");
    }
    let heat = volume.heat();
    create(&process, b"/small", 10);
    let histogram = ask_file(&process, "histogram");
    let sum: u64 = heat.bytes_by_bucket().iter().sum();
    let said: u64 = ["cold", "warm", "hot"]
        .iter()
        .flat_map(|g| histogram[g].as_u64())
        .sum();
    assert_eq!((sum, said), (3 * MIB + 4096, 3 * MIB + 4096), "whole pages");
    assert_eq!(histogram["allocated"], 3 * MIB + 4096);
}

fn ask_file(process: &Process, name: &str) -> Value {
    let text = say(process, &format!("heat/{name}.json"), &[]).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_slow_report_is_made_by_a_thread_that_may_wait() {
    let (volume, process, _) = tracked();
    create(&process, "/f", 100);
    let vfs = volume.nonblocking_vfs();
    for name in ["top", "ranges", "tenants", "histogram", "what-if", "map"] {
        let ino = process
            .stat(format!("/.hearth/heat/{name}.json"))
            .unwrap()
            .ino;
        let file = vfs.open(&Caller::ROOT, ino, libc::O_RDONLY).unwrap();
        let mut text = [0; 4096];
        let Err(VfsError::Miss(miss)) = vfs.read(&file, 0, &mut text) else {
            panic!("{name} is made at once");
        };
        volume.fetch(&miss).unwrap();
        let read = vfs.read(&file, 0, &mut text);
        let said: Value = serde_json::from_slice(&text[..read.unwrap()]).unwrap();
        assert!(said.is_array() || said.is_object(), "{name}: {said}");
    }
}

#[test]
fn a_refusal_of_nonsense_names_the_word() {
    let (_, process, _) = tracked();
    for (question, named) in [
        ("heat", "'heat '"),
        ("heat top", "'heat top'"),
        ("heat top colour reads 1 -", "'colour'"),
        ("heat top file loudness 1 -", "'loudness'"),
        ("heat top file reads 0 -", "'0'"),
        ("heat top file reads -1 -", "'-1'"),
        ("heat top file reads 99999999999 -", "'99999999999'"),
        ("heat top file reads 1 0", "'0'"),
        ("heat top file reads 1 soon", "'soon'"),
        ("heat info x 10", "'x'"),
        ("heat what-if -5", "'-5'"),
    ] {
        let (errno, reason) = say(&process, "ask", &[question.as_bytes()]).unwrap_err();
        assert_eq!(errno, Errno::EINVAL, "{question}");
        assert!(reason.contains(named), "{question}: {reason}");
    }
    let gone = say(&process, "ask", &[b"heat info 123456789 10"]).unwrap_err();
    assert_eq!(gone.0, Errno::ESTALE);
}

#[test]
fn other_users_see_the_heat_of_their_own_files_only() {
    let (volume, process, _) = tracked();
    let (mine, theirs) = (
        create(&process, b"/mine", 10),
        create(&process, b"/theirs", 10),
    );
    process.fchown(mine, Some(7), Some(7)).unwrap();
    let inos = [mine, theirs].map(|fd| process.fstat(fd).unwrap().ino);
    let user = volume.process(Credentials::user(7, 7));
    assert_eq!(
        ask(&user, &format!("heat info {} 4", inos[0]))["path"],
        "/mine"
    );
    for question in [
        format!("heat info {} 4", inos[1]),
        format!("heat ranges {}", inos[1]),
        "heat top file reads 5 -".to_owned(),
        "heat export 0 5".to_owned(),
    ] {
        let (errno, reason) = say(&user, "ask", &[question.as_bytes()]).unwrap_err();
        assert_eq!(errno, Errno::EACCES, "{question}");
        assert!(reason.contains("owner of the mount"), "{reason}");
    }
    for file in ["heat/top.json", "heat/import"] {
        let path = format!("/.hearth/{file}");
        assert_eq!(
            user.open(path, libc::O_RDONLY, 0),
            Err(Errno::EACCES),
            "{file}"
        );
    }
}

#[test]
fn what_was_exported_is_imported_elsewhere_and_has_cooled() {
    let (volume, process, _) = tracked();
    let fd = create(&process, "/a \"b\"\n\u{e9}".as_bytes(), 2 * MIB as usize);
    read_times(&process, fd, 50, MIB);
    create(&process, b"/only here", 10);
    let ino = process.fstat(fd).unwrap().ino;
    let before = volume.heat().file(ino).unwrap().stats;
    let part = volume.heat().export(0, 1).unwrap();
    assert!(part.next.is_some());
    let mut records = part.records;
    let rest = volume.heat().export(part.next.unwrap(), 100).unwrap();
    records.extend(rest.records);
    let lines = export_text(&records);
    assert_eq!(lines.lines().count(), 3 + 2);

    let (other, process, hand) = tracked();
    hand.pass(HOUR);
    other.heat().set_half_lives(2 * HOUR, 48 * HOUR).unwrap();
    let fd = create(&process, "/a \"b\"\n\u{e9}".as_bytes(), 2 * MIB as usize);
    let ino = process.fstat(fd).unwrap().ino;
    let done = other.heat().import(&records);
    assert_eq!((done.records, done.absent), (3, 2));
    let after = other.heat().file(ino).unwrap().stats;
    assert_eq!((after.reads, after.writes), (before.reads, before.writes));
    let cooled = before.temperature / 2f64.sqrt();
    assert!((after.temperature - cooled).abs() < 0.01, "{after:?}");
    let rate = before.reads_per_second / 2f64.sqrt();
    assert!((after.reads_per_second / rate - 1.0).abs() < 1e-3);
    assert_eq!(after.last_read, before.last_read);
    assert_eq!(other.heat().ranges(ino).unwrap().len(), 2);
    // A second time changes nothing: records replace, they do not add.
    other.heat().import(&records);
    assert_eq!(other.heat().file(ino).unwrap().stats, after);
    // As a control file takes them, in pieces that end anywhere.
    let text = format!("{lines}end\n");
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(100).collect();
    let said = say(&process, "heat/import", &pieces).unwrap();
    assert_eq!(said, "{\"absent\":2,\"records\":3}\n");
}

/// Once, a file whose ranges came before it was in no listing from then on.
#[test]
fn an_import_means_the_same_in_any_order_of_its_records() {
    let (volume, process, _) = tracked();
    let fd = create(&process, b"/f", 2 * MIB as usize);
    read_times(&process, fd, 50, MIB);
    let forward = volume.heat().export(0, 10).unwrap().records;
    let mut reversed: Vec<ExportedHeat> = forward.iter().rev().cloned().collect();
    let listing = |records: &[ExportedHeat], touch: bool| {
        let (other, process, _) = tracked();
        other.heat().switch(false);
        let fd = create(&process, b"/f", 2 * MIB as usize);
        other.heat().switch(true);
        let done = other.heat().import(records);
        assert_eq!((done.records, done.absent), (records.len(), 0));
        if touch {
            read_times(&process, fd, 1, 0);
        }
        let gauges = other.heat().gauges();
        (
            other.heat().top_files(HeatRank::Reads, 9, None),
            gauges.files,
        )
    };
    let (rows, files) = listing(&forward, false);
    assert_eq!(
        (rows.len(), rows[0].stats.reads, rows[0].ranges, files),
        (1, 50, 2, 1)
    );
    assert_eq!(listing(&reversed, false).0[0].stats, rows[0].stats);
    // Without its own record a file is listed from its first access on.
    reversed.retain(|record| record.start.is_some());
    assert_eq!(listing(&reversed, false), (Vec::new(), 0));
    let (rows, _) = listing(&reversed, true);
    assert_eq!((rows.len(), rows[0].stats.reads, rows[0].ranges), (1, 1, 2));
}

/// Once, it made records that no truncate would have found.
#[test]
fn an_import_makes_no_record_beyond_the_end_of_a_file() {
    let (volume, process, _) = tracked();
    create(&process, b"/f", 3 * MIB as usize);
    let records = volume.heat().export(0, 10).unwrap().records;
    let (other, process, _) = tracked();
    let fd = create(&process, b"/f", MIB as usize);
    let ino = process.fstat(fd).unwrap().ino;
    let done = other.heat().import(&records);
    assert_eq!((done.records, done.absent), (2, 2));
    assert_eq!(other.heat().ranges(ino).unwrap().len(), 1);
}

#[test]
fn a_bad_line_is_named_and_nothing_is_imported() {
    let (volume, process, _) = tracked();
    let fd = create(&process, b"/f", 100);
    read_times(&process, fd, 9, 0);
    let good = export_text(&volume.heat().export(0, 10).unwrap().records);
    let (other, process, _) = tracked();
    create(&process, b"/f", 100);
    let before = other.heat().export(0, 10).unwrap();
    let text = format!("{good}garbage\n{good}{{\"path\":\"/f\"}}\nend\n");
    let bad = bad_lines(&text[..text.len() - 4]);
    let numbers: Vec<usize> = bad.iter().map(|bad| bad.line).collect();
    assert_eq!(numbers, [3, 6]);
    let (errno, reason) = say(&process, "heat/import", &[text.as_bytes()]).unwrap_err();
    assert_eq!(errno, Errno::EINVAL);
    assert!(
        reason.contains("nothing was imported: line 3: not JSON"),
        "{reason}"
    );
    assert!(reason.contains("line 6: no 'temperature'"), "{reason}");
    // Once, the end in a piece of its own was taken for the begin of the next import.
    let pieces = [&b"garbage\nend"[..], b"\n"];
    let (errno, reason) = say(&process, "heat/import", &pieces).unwrap_err();
    assert_eq!(errno, Errno::EINVAL);
    assert!(reason.contains("line 1: not JSON"), "{reason}");
    assert_eq!(other.heat().export(0, 10).unwrap(), before);
    // Without the last line nothing happens at all.
    say(&process, "heat/import", &[good.as_bytes()]).unwrap();
    assert_eq!(other.heat().export(0, 10).unwrap(), before);
}

#[test]
fn a_subscription_reports_changes_of_band_until_it_ends() {
    let (volume, process, hand) = tracked();
    let fd = create(&process, b"/f", 100);
    let ino = process.fstat(fd).unwrap().ino;
    volume.heat().age();
    let told: Arc<Mutex<Vec<HeatChange>>> = Arc::default();
    let ear = Arc::clone(&told);
    let subscription = volume
        .heat()
        .subscribe(move |some| ear.lock().unwrap().extend(some));
    volume.heat().age();
    assert_eq!(told.lock().unwrap().len(), 0, "nothing changed");
    read_times(&process, fd, 100, 0);
    volume.heat().age();
    let hot: Vec<_> = told.lock().unwrap().drain(..).collect();
    let seen: Vec<_> = hot.iter().map(|c| (c.ino, c.range, c.from, c.to)).collect();
    let expected = [None, Some(0)].map(|range| (ino, range, Band::Cold, Band::Hot));
    assert_eq!(seen, expected);
    for (hours, from, to) in [(1, Band::Hot, Band::Warm), (2, Band::Warm, Band::Cold)] {
        hand.pass(hours * HOUR);
        volume.heat().age();
        let cooled: Vec<_> = told.lock().unwrap().drain(..).collect();
        assert_eq!(cooled.len(), 2, "{cooled:?}");
        assert!(
            cooled.iter().all(|c| (c.from, c.to) == (from, to)),
            "{cooled:?}"
        );
    }
    drop(subscription);
    read_times(&process, fd, 100, 0);
    volume.heat().age();
    assert_eq!(told.lock().unwrap().len(), 0, "the subscription has ended");
}

#[test]
fn the_ioctl_returns_the_current_temperature_or_that_of_the_last_pass() {
    let (volume, process, hand) = tracked();
    let fd = create(&process, b"/f", 100);
    let ino = process.fstat(fd).unwrap().ino;
    assert_eq!(
        volume.heat().info(ino, false).unwrap().temperature,
        0,
        "no pass yet"
    );
    read_times(&process, fd, 100, 0);
    let live = volume.heat().info(ino, true).unwrap();
    let file = volume.heat().file(ino).unwrap().stats;
    assert_eq!(live.temperature >> 24, u32::from(file.bucket));
    assert_eq!((live.reads, live.writes), (100, 1));
    let nanos = 1e9 / file.reads_per_second;
    assert!((live.average_between_reads_ns as f64 / nanos - 1.0).abs() < 1e-6);
    hand.pass(3 * HOUR);
    let stored = volume.heat().info(ino, false).unwrap();
    assert_eq!(
        stored.temperature >> 24,
        u32::from(file.bucket),
        "not cooled before a pass"
    );
    volume.heat().age();
    let passed = volume.heat().info(ino, false).unwrap().temperature >> 24;
    assert_eq!(passed, u32::from(file.bucket) / 8);
    let cold = create(&process, b"/untouched", 0);
    let ino = process.fstat(cold).unwrap().ino;
    assert_eq!(volume.heat().info(ino, true), Err(Errno::ENODATA));
}

#[test]
fn gauges_are_among_the_statistics() {
    let (_, process, _) = tracked();
    let fd = create(&process, b"/f", 100);
    read_times(&process, fd, 1000, 0);
    ask(&process, "heat top file reads 1 -");
    let text = say(&process, "stats", &[]).unwrap();
    for line in [
        "hearth_heat_on 1",
        "hearth_heat_dropped_total 0",
        "hearth_heat_items{kind=\"file\",degrees=\"90-100\"} 1",
        "hearth_heat_items{kind=\"range\",degrees=\"90-100\"} 1",
        "hearth_heat_items{kind=\"file\",degrees=\"0-10\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

//! `hearth heat` and the ioctl of heat on a mount.

use crate::harness;

use harness::{Mounted, Said, Transport, hearth, program, said, succeed};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

harness::on_both_transports!(
    top_ranks_by_what_it_is_told,
    each_read_of_a_mount_counts_however_many_files_are_read,
    one_file_is_shown_with_its_ranges,
    histogram_report_and_map_tell_of_the_same_bytes,
    tracking_is_switched_at_run_time,
    a_record_follows_its_file,
    an_export_is_imported_whole_or_not_at_all,
    a_c_program_gets_the_heat_of_a_file,
    a_c_program_is_told_which_counts_are_estimates,
    a_name_that_is_no_text_is_told_byte_by_byte_on_the_mount,
    every_way_to_read_warms_alike,
    every_way_to_write_warms_alike,
    others_see_their_own_files,
    bad_input_is_refused_by_name,
);

const MIB: usize = 1 << 20;
/// Every read and write is seen.
const EXACT: &str = "heat=exact";

fn heat(mounted: &Mounted, arguments: &[&str]) -> Command {
    let mut command = hearth();
    command.arg("heat").args(arguments).arg(mounted.path());
    command
}

fn json(command: &mut Command) -> Value {
    let text = succeed(command.arg("--json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

fn refused(command: &mut Command) -> String {
    let Said { status, out, err } = said(command);
    assert!(!status.success() && out.is_empty(), "{command:?}: {out}");
    assert_eq!(err.lines().count(), 1, "{err}");
    err
}

/// Writes a file, twice a MiB since a kernel cuts longer requests, and reads `times` pages of its
/// range `range`.
fn used(mounted: &Mounted, path: &str, mib: usize, range: u64, times: u64) -> PathBuf {
    let path = mounted.at(path);
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path);
    let file = open.unwrap();
    for half in 0..2 * mib {
        let at = half * MIB / 2;
        file.write_all_at(&vec![7; MIB / 2], at as u64).unwrap();
    }
    for n in 0..times {
        let at = range * MIB as u64 + n % 256 * 4096;
        file.read_exact_at(&mut [0; 4096], at).unwrap();
    }
    path
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
}

fn paths(rows: &Value) -> Vec<&str> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| text(&row["path"]))
        .collect()
}

/// Once, 60,000 reads of 2,000 files were sampled: the hottest file, which had 7,264, showed 7,778.
fn each_read_of_a_mount_counts_however_many_files_are_read(transport: Transport) {
    // As many as a process may have open, and nearly as many as a core has slots.
    const FILES: usize = 900;
    let mounted = Mounted::new(transport, EXACT);
    let files: Vec<File> = (0..FILES)
        .map(|n| {
            let path = mounted.at(n.to_string());
            std::fs::write(&path, [7; 4096]).unwrap();
            File::open(path).unwrap()
        })
        .collect();
    let mut due = vec![0u64; FILES];
    let mut state = 1u64;
    for _ in 0..30_000 {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        // Skewed: the square of an even law.
        let share = (state >> 33) as usize % FILES;
        let file = share * share / FILES;
        files[file].read_exact_at(&mut [0; 4096], 0).unwrap();
        due[file] += 1;
    }
    let rows = json(&mut heat(&mounted, &["top", "--reads", "-n", "1000"]));
    let mut seen = vec![0; FILES];
    for row in rows.as_array().unwrap() {
        let name = Path::new(text(&row["path"])).file_name().unwrap();
        let file: usize = name.to_str().unwrap().parse().unwrap();
        seen[file] = row["reads"].as_u64().unwrap();
        let said = (&row["sampled"], &row["estimated"]);
        assert_eq!(said, (&false.into(), &0.into()), "{row}");
    }
    assert!(seen == due, "{seen:?} for {due:?}");
    assert_eq!(mounted.stat("hearth_heat_dropped_total"), 0.0);
}

fn top_ranks_by_what_it_is_told(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    std::fs::create_dir(mounted.at("dir")).unwrap();
    let read = used(&mounted, "dir/read", 1, 0, 90);
    let wrote = used(&mounted, "wrote", 30, 0, 1);
    std::os::unix::fs::chown(&wrote, Some(7), Some(8)).unwrap();
    File::options()
        .write(true)
        .open(&wrote)
        .unwrap()
        .write_all_at(b"x", 0)
        .unwrap();
    let (read, wrote) = (read.to_str().unwrap(), wrote.to_str().unwrap());
    let top = |more: &[&str]| json(heat(&mounted, &["top"]).args(more));
    // A large write counts as many accesses for the temperature.
    assert_eq!(paths(&top(&[])), [wrote, read]);
    assert_eq!(paths(&top(&["--sort", "accesses"])), [read, wrote]);
    assert_eq!(paths(&top(&["--reads"])), [read, wrote]);
    assert_eq!(paths(&top(&["--writes"])), [wrote, read]);
    assert_eq!(paths(&top(&["--bytes"])), [wrote, read]);
    assert_eq!(paths(&top(&["-n", "1"])), [wrote]);
    let rows = top(&["--sort", "accesses"]);
    assert_eq!(
        (&rows[0]["reads"], &rows[0]["writes"]),
        (&90.into(), &2.into())
    );
    assert_eq!(rows[0]["bytes"], 90 * 4096 + MIB);
    let degrees = rows[0]["temperature"].as_f64().unwrap();
    assert!(
        degrees > 90.0 && degrees <= 100.0 && rows[0]["grade"] == "hot",
        "{degrees}"
    );
    let ranges = top(&["--by", "range", "-n", "1", "--sort", "accesses"]);
    assert_eq!(
        (text(&ranges[0]["path"]), &ranges[0]["start"]),
        (read, &0.into())
    );
    let dirs = top(&["--by", "dir", "--sort", "accesses"]);
    assert_eq!(
        paths(&dirs),
        [
            mounted.at("dir").to_str().unwrap(),
            mounted.path().to_str().unwrap()
        ]
    );
    for (by, id) in [("user", 7), ("group", 8), ("project", 0)] {
        let rows = top(&["--by", by]);
        let rows = rows.as_array().unwrap();
        assert!(
            rows.iter().any(|row| row["kind"] == by && row["id"] == id),
            "{by}: {rows:?}"
        );
    }
    let listed: Value = serde_json::from_str(
        &std::fs::read_to_string(mounted.at(".hearth/heat/top.json")).unwrap(),
    )
    .unwrap();
    assert_eq!(paths(&listed), ["/dir/read", "/wrote"]);
    let shown = succeed(&mut heat(&mounted, &["top"]));
    assert!(
        shown.contains("warm from 25, hot from 60") && !shown.contains('\x1b'),
        "{shown}"
    );
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains(" hot "))
        .collect();
    assert!(
        lines[0].ends_with(wrote) && lines[1].ends_with(read) && lines[1].contains("root"),
        "{shown}"
    );
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(top(&["--since", "1ms"]), Value::Array(Vec::new()));
    assert_eq!(paths(&top(&["--since", "10m"])), [wrote, read]);
    watched(&mounted, wrote);
}

/// `--watch` shows it more than once.
fn watched(mounted: &Mounted, hottest: &str) {
    use std::io::BufRead;
    let mut command = heat(mounted, &["top", "--watch", "--json", "-n", "1"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.take(2) {
        let rows: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(paths(&rows), [hottest]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn one_file_is_shown_with_its_ranges(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    let file = used(&mounted, "file", 4, 2, 100);
    let cold = mounted.at("cold");
    File::create(&cold).unwrap();
    let info = |path: &Path| json(hearth().args(["heat", "info"]).arg(path));
    let row = info(&file);
    assert_eq!(
        (text(&row["path"]), &row["reads"]),
        (file.to_str().unwrap(), &100.into())
    );
    let cells: Vec<f64> = row["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c.as_f64().unwrap())
        .collect();
    assert!(
        cells.len() == 4 && cells[2] > 90.0 && cells[1] <= 50.0,
        "{cells:?}"
    );
    assert_eq!(row["cell_bytes"], MIB);
    let shown = succeed(hearth().args(["heat", "info"]).arg(&file));
    assert!(
        shown.replace('▅', "▄").contains("|▄▄█▄|")
            && shown.contains("hot (warm from 25, hot from 60)"),
        "{shown}"
    );
    let row = info(&cold);
    assert_eq!(
        (&row["temperature"], &row["recorded"]),
        (&0.0.into(), &false.into())
    );
    let shown = succeed(hearth().args(["heat", "info"]).arg(&cold));
    assert!(shown.contains("nothing is recorded of it"), "{shown}");
    let link = mounted.outside("link").join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(info(&link)["ino"], std::fs::metadata(&file).unwrap().ino());
    let ino = std::fs::metadata(&file).unwrap().ino();
    let ranges =
        succeed(
            hearth()
                .arg("ask")
                .arg(mounted.path())
                .args(["heat", "ranges", &ino.to_string()]),
        );
    let ranges: Value = serde_json::from_str(&ranges).unwrap();
    let reads: Vec<u64> = ranges
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["reads"].as_u64().unwrap())
        .collect();
    assert_eq!(reads, [0, 0, 100, 0]);
}

/// Once, the bytes were of the path on the volume and the text of that on the mount.
fn a_name_that_is_no_text_is_told_byte_by_byte_on_the_mount(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    let path = mounted.at(OsStr::from_bytes(b"dir \xff"));
    std::fs::write(&path, b"bytes").unwrap();
    let bytes = path.as_os_str().as_bytes().iter();
    let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    let shown = path.to_string_lossy();
    let top = json(&mut heat(&mounted, &["top"]));
    let info = json(hearth().args(["heat", "info"]).arg(&path));
    for row in [&top[0], &info] {
        assert_eq!(
            (text(&row["path"]), text(&row["path_hex"])),
            (&*shown, &*hex)
        );
    }
    // Of several names the one that was typed is told.
    let other = mounted.at("other");
    std::fs::hard_link(&path, &other).unwrap();
    let info = json(hearth().args(["heat", "info"]).arg(&other));
    assert_eq!(text(&info["path"]), other.to_str().unwrap());
    assert_eq!(info["path_hex"], Value::Null);
    let info = json(hearth().args(["heat", "info"]).arg(&path));
    assert_eq!(text(&info["path_hex"]), hex);
}

fn histogram_report_and_map_tell_of_the_same_bytes(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    let hot = used(&mounted, "hot <&>", 2, 1, 200);
    used(&mounted, "cold", 6, 0, 0);
    let histogram = json(&mut heat(&mounted, &["histogram"]));
    let grades = ["hot", "warm", "cold", "allocated"].map(|name| histogram[name].as_u64().unwrap());
    assert_eq!(grades, [MIB, 7 * MIB, 0, 8 * MIB].map(|bytes| bytes as u64));
    let shown = succeed(&mut heat(&mounted, &["histogram"]));
    assert!(shown.contains("hot from 60       1 MiB  12.5%"), "{shown}");
    assert!(shown.contains("warm from 25       7 MiB  87.5%"), "{shown}");
    let report = json(&mut heat(
        &mounted,
        &["report", "--what-if", "1M", "--what-if", "200G"],
    ));
    assert_eq!(report["recorded_bytes"], 8 * MIB);
    let points = report["points"].as_array().unwrap();
    let asked: Vec<&Value> = points
        .iter()
        .filter(|point| point["asked"] == true)
        .collect();
    let shares: Vec<f64> = asked
        .iter()
        .map(|point| point["reads"].as_f64().unwrap())
        .collect();
    assert_eq!(shares, [1.0, 1.0]);
    let writes = asked[0]["writes"].as_f64().unwrap();
    assert!((writes - 1.0 / 8.0).abs() < 0.001, "{writes}");
    let sizes: Vec<u64> = points
        .iter()
        .map(|point| point["bytes"].as_u64().unwrap())
        .collect();
    assert!(sizes.is_sorted() && sizes.len() > 5, "{sizes:?}");
    let shown = succeed(&mut heat(&mounted, &["report", "--what-if", "1M"]));
    assert!(
        shown.contains(">      1 MiB  ████████████████████ 100.0%")
            && shown.contains("half as much with each 24h of age"),
        "{shown}"
    );

    let shown = succeed(&mut heat(&mounted, &["map"]));
    let line = shown
        .lines()
        .find(|line| line.ends_with(hot.to_str().unwrap()));
    assert!(
        line.is_some_and(|line| line.replace('▅', "▄").contains("  ▄█ ")),
        "{shown}"
    );
    let map = json(&mut heat(&mounted, &["map"]));
    assert_eq!(map[0]["path"], hot.to_str().unwrap());
    let along = map[0]["cells"].as_array().unwrap();
    assert_eq!((map.as_array().unwrap().len(), along.len()), (2, 2));
    let range = |number: usize| along[number].as_f64().unwrap();
    assert!(range(0) < 60.0 && range(1) > 90.0, "{map}");
    let out = mounted.outside("pictures");
    let (svg, html) = (out.join("map.svg"), out.join("map.html"));
    let mut map = heat(&mounted, &["map"]);
    assert_eq!(
        succeed(map.arg("--svg").arg(&svg).arg("--html").arg(&html)),
        ""
    );
    let picture = std::fs::read_to_string(svg).unwrap();
    assert!(picture.contains("/hot &lt;&amp;&gt;</text>"), "{picture}");
    assert!(picture.contains("1 MiB to 2 MiB: 100.0"), "{picture}");
    assert!(std::fs::read_to_string(html).unwrap().contains(&picture));
}

fn tracking_is_switched_at_run_time(transport: Transport) {
    let mounted = Mounted::new(transport, "direct_io");
    let file = used(&mounted, "file", 1, 0, 10);
    assert_eq!(
        json(&mut heat(&mounted, &["top"])),
        Value::Array(Vec::new())
    );
    let shown = succeed(&mut heat(&mounted, &["top"]));
    assert!(shown.contains("off, 'hearth heat on"), "{shown}");
    assert_eq!(mounted.stat("hearth_heat_on"), 0.0);
    let reads = || json(&mut heat(&mounted, &["top"]))[0]["reads"].as_u64();
    let page = || {
        File::open(&file)
            .unwrap()
            .read_exact_at(&mut [0; 4096], 0)
            .unwrap()
    };
    succeed(&mut heat(&mounted, &["on"]));
    page();
    page();
    assert_eq!(reads(), Some(2));
    succeed(&mut heat(&mounted, &["off"]));
    page();
    assert_eq!(reads(), Some(2));
    succeed(&mut heat(&mounted, &["on"]));
    page();
    assert_eq!(reads(), Some(3));
    assert_eq!(mounted.stat("hearth_heat_on"), 1.0);
    assert_eq!(mounted.stat("hearth_heat_dropped_total"), 0.0);
    let bars = (0..10).map(|bar| {
        let degrees = format!("{}-{}", bar * 10, bar * 10 + 10);
        mounted.stat(&format!(
            "hearth_heat_items{{kind=\"file\",degrees=\"{degrees}\"}}"
        ))
    });
    assert_eq!(bars.sum::<f64>(), 1.0);
}

fn a_record_follows_its_file(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    let file = used(&mounted, "old", 3, 0, 20);
    let open = File::open(&file).unwrap();
    let row = || json(&mut heat(&mounted, &["top"]))[0].clone();
    let ranges = || {
        json(heat(&mounted, &["top"]).args(["--by", "range"]))
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(ranges(), 3);
    std::fs::rename(&file, mounted.at("new")).unwrap();
    assert_eq!(
        (text(&row()["path"]), &row()["reads"]),
        (mounted.at("new").to_str().unwrap(), &20.into())
    );
    std::fs::hard_link(mounted.at("new"), mounted.at("other")).unwrap();
    assert_eq!(row()["links"], 2);
    let shown = succeed(&mut heat(&mounted, &["top"]));
    assert!(shown.contains("(1 of 2 links)"), "{shown}");
    let info = json(hearth().args(["heat", "info"]).arg(mounted.at("other")));
    assert_eq!(
        (text(&info["path"]), &info["reads"]),
        (mounted.at("other").to_str().unwrap(), &20.into())
    );
    File::options()
        .write(true)
        .open(mounted.at("new"))
        .unwrap()
        .set_len(MIB as u64 + 1)
        .unwrap();
    assert_eq!(ranges(), 2);
    std::fs::remove_file(mounted.at("new")).unwrap();
    std::fs::remove_file(mounted.at("other")).unwrap();
    assert_eq!(
        (&row()["path"], &row()["deleted"]),
        (&Value::Null, &true.into())
    );
    let shown = succeed(&mut heat(&mounted, &["top"]));
    assert!(shown.contains("(deleted, still open) inode"), "{shown}");
    drop(open);
    harness::until("the record of a file that ended goes", || {
        json(&mut heat(&mounted, &["top"])) == Value::Array(Vec::new())
    });
    assert_eq!(
        mounted.stat("hearth_heat_items{kind=\"range\",degrees=\"0-10\"}"),
        0.0
    );
}

fn an_export_is_imported_whole_or_not_at_all(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    used(&mounted, "with space", 2, 0, 20);
    used(&mounted, "second", 1, 0, 5);
    let export = succeed(&mut heat(&mounted, &["export"]));
    assert_eq!(export.lines().count(), 3 + 2);
    for line in export.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["at"].as_f64().unwrap() > 1.6e9, "{line}");
    }
    let other = Mounted::new(transport, "");
    std::fs::write(other.at("with space"), [0; 100]).unwrap();
    let lines = other.outside("lines");
    let file = lines.join("export");
    std::fs::write(&file, &export).unwrap();
    let import = |file: &Path| {
        let mut command = heat(&other, &["import"]);
        command.arg(file);
        command
    };
    let bad = lines.join("bad");
    let mut text: Vec<&str> = export.lines().collect();
    text.insert(1, "{\"path\":");
    text.push("\u{0}\u{1}");
    std::fs::write(&bad, text.join("\n")).unwrap();
    let why = refused(&mut import(&bad));
    assert!(
        why.contains("bad: nothing was imported: line 2: not JSON"),
        "{why}"
    );
    assert!(why.contains("; line 7: not JSON"), "{why}");
    std::fs::write(&bad, [export.as_bytes(), b"\xff\n"].concat()).unwrap();
    assert!(refused(&mut import(&bad)).contains("line 6: not UTF-8"));
    assert_eq!(succeed(&mut heat(&other, &["export"])), "");
    // Beside the command, as the control file takes it.
    let mut control = File::options()
        .write(true)
        .open(other.at(".hearth/heat/import"))
        .unwrap();
    let written =
        std::io::Write::write_all(&mut control, format!("{export}nonsense\nend\n").as_bytes());
    assert_eq!(written.unwrap_err().raw_os_error(), Some(22));
    assert_eq!(succeed(&mut heat(&other, &["export"])), "");

    let said = succeed(&mut import(&file));
    assert_eq!(said, "2 records imported, 3 of what is not here\n");
    let row = &json(&mut heat(&other, &["top"]))[0];
    assert_eq!((&row["reads"], &row["writes"]), (&20.into(), &4.into()));
    let was = json(heat(&mounted, &["top"]).args(["-n", "1"]))[0]["temperature"]
        .as_f64()
        .unwrap();
    let is = row["temperature"].as_f64().unwrap();
    assert!((was - is).abs() < 3.0, "{was} {is}");
}

/// Compiles a program of this directory.
fn compiled(mounted: &Mounted, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/heat_programs")
        .join(name);
    let out = mounted.outside(name).join("program");
    succeed(
        program("gcc")
            .args(["-O1", "-Wall", "-Werror", "-o"])
            .arg(&out)
            .arg(source),
    );
    out
}

fn a_c_program_gets_the_heat_of_a_file(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    let program = compiled(&mounted, "heat_info.c");
    let file = used(&mounted, "file", 2, 0, 40);
    let cold = mounted.at("cold");
    File::create(&cold).unwrap();
    let ask = |how: &str, file: &Path| succeed(Command::new(&program).arg(how).arg(file));
    let said = ask("live", &file);
    let words: Vec<&str> = said.split_whitespace().collect();
    let field = |name: &str| -> u64 {
        let at = words.iter().position(|word| *word == name).unwrap();
        words[at + 1].parse().unwrap()
    };
    assert_eq!(
        (field("live"), field("reads"), field("writes")),
        (1, 40, 4),
        "{said}"
    );
    let row = json(hearth().args(["heat", "info"]).arg(&file));
    let degrees = row["temperature"].as_f64().unwrap();
    let told = field("temp") as f64 / f64::from(u32::MAX) * 100.0;
    assert!((told - degrees).abs() < 1.0, "{told} {degrees}");
    let last = row["last_read"].as_f64().unwrap() * 1e9;
    assert!((field("last_read") as f64 - last).abs() < 3e9, "{said}");
    let between = 1e9 / row["reads_per_second"].as_f64().unwrap();
    assert!(
        (field("delta") as f64 / between - 1.0).abs() < 0.01,
        "{said}"
    );
    assert_eq!(field("future"), 0);
    assert_eq!(ask("live", &cold), format!("errno {}\n", 61));
    for size in ["short", "long"] {
        assert_eq!(ask(size, &file), format!("errno {}\n", 22), "{size}");
    }
    // What the file shows to everybody is not for everybody.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let stranger = |uid: u32| {
        let mut asks = Command::new(&program);
        succeed(asks.arg("live").arg(&file).uid(uid).gid(uid))
    };
    assert_eq!(stranger(4321), format!("errno {}\n", 13));
    std::os::unix::fs::chown(&file, Some(4321), None).unwrap();
    assert!(stranger(4321).starts_with("live 1 "));
    // The last pass was the fold of the live question: only whole buckets are kept.
    let stored = ask("stored", &file);
    let temp = stored
        .split_whitespace()
        .nth(3)
        .unwrap()
        .parse::<u64>()
        .unwrap();
    assert!(
        stored.starts_with("live 0 ") && temp % (1 << 24) == 0,
        "{stored}"
    );
    assert!(temp >> 24 == field("temp") >> 24, "{stored}{said}");
    assert!(ask("asked", &file).starts_with("live 1 "));
}

/// Accesses of a mount are exact; estimates come with records of a library that was faster.
fn a_c_program_is_told_which_counts_are_estimates(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    let program = compiled(&mounted, "heat_info.c");
    let file = used(&mounted, "file", 1, 0, 40);
    let ask = || succeed(Command::new(&program).arg("live").arg(&file));
    let exact = ask();
    assert!(exact.contains(" reads 40 writes 2 "), "{exact}");
    assert!(
        exact.ends_with(" sampled 0 estimated 0 future 0\n"),
        "{exact}"
    );
    let export = succeed(&mut heat(&mounted, &["export"]));
    let sampled = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line["estimated"] = 30.into();
        format!("{line}\n")
    };
    let lines: String = export.lines().map(sampled).collect();
    let kept = mounted.outside("lines").join("export");
    std::fs::write(&kept, lines).unwrap();
    succeed(heat(&mounted, &["import"]).arg(&kept));
    let said = ask();
    assert!(said.contains(" reads 40 writes 2 "), "{said}");
    assert!(
        said.ends_with(" sampled 1 estimated 30 future 0\n"),
        "{said}"
    );
}

fn every_way_to_read_warms_alike(transport: Transport) {
    let mounted = Mounted::new(transport, "hot_track");
    let program = compiled(&mounted, "read_ways.c");
    let ways = ["read", "direct", "mmap", "sendfile"];
    let pages: Vec<String> = (0..40).map(|n| (n * 37 % 512).to_string()).collect();
    let read = |how: &[&str], name: &str| -> Vec<Value> {
        let rows = ways.map(|way| {
            let file = mounted.at(format!("{name}-{way}"));
            std::fs::write(&file, vec![7; 2 * MIB]).unwrap();
            succeed(Command::new(&program).arg(way).arg(&file).args(how));
            json(hearth().args(["heat", "info"]).arg(&file))
        });
        rows.to_vec()
    };
    let scattered: Vec<&str> = pages.iter().map(String::as_str).collect();
    let rows = read(&scattered, "pages");
    for row in &rows {
        assert_eq!(
            (&row["reads"], &row["read_bytes"]),
            (&40.into(), &(40 * 4096).into()),
            "{row}"
        );
        assert_eq!(row["cells"].as_array().unwrap().len(), 2);
    }
    // Read whole, in requests as large as the kernel likes for each way.
    let rows = read(&["all"], "all");
    let degrees = |row: &Value| row["temperature"].as_f64().unwrap();
    for row in &rows {
        assert_eq!(row["read_bytes"], 2 * MIB, "{row}");
        let apart = (degrees(row) - degrees(&rows[0])).abs();
        assert!(apart < 0.5, "{row} and {}", rows[0]);
    }
}

fn every_way_to_write_warms_alike(transport: Transport) {
    let mounted = Mounted::new(transport, "hot_track");
    let program = compiled(&mounted, "write_ways.c");
    // No two of them beside each other, or the kernel would hand them over at once.
    let pages: Vec<String> = (0..40).map(|n| (n * 37 % 512).to_string()).collect();
    let info = |file: &Path| json(hearth().args(["heat", "info"]).arg(file));
    let read =
        |row: &Value| [row["reads"].as_u64(), row["read_bytes"].as_u64()].map(Option::unwrap);
    let written =
        |row: &Value| [row["writes"].as_u64(), row["written_bytes"].as_u64()].map(Option::unwrap);
    let more = |[calls, bytes]: [u64; 2]| [calls + 40, bytes + 40 * 4096];
    for way in ["write", "direct", "mmap", "copy"] {
        let [file, source] = ["file", "source"].map(|name| {
            let path = mounted.at(format!("{way}-{name}"));
            std::fs::write(&path, vec![7; 2 * MIB]).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            path
        });
        let before = [info(&file), info(&source)];
        succeed(
            Command::new(&program)
                .arg(way)
                .args([&file, &source])
                .args(&pages),
        );
        let after = [info(&file), info(&source)];
        assert_eq!(written(&after[0]), more(written(&before[0])), "{way}");
        assert_eq!(written(&after[1]), written(&before[1]), "{way}");
        let copied = if way == "copy" { more([0, 0]) } else { [0, 0] };
        assert_eq!(read(&after[1]), copied, "{way}");
    }
}

fn others_see_their_own_files(transport: Transport) {
    let mounted = Mounted::new(transport, "heat=exact,allow_other");
    let mine = used(&mounted, "mine", 1, 0, 30);
    let theirs = used(&mounted, "theirs", 1, 0, 30);
    std::os::unix::fs::chown(&mine, Some(65534), Some(65534)).unwrap();
    let as_other = |arguments: &[&str], path: &Path| {
        let mut command = hearth();
        command
            .arg("heat")
            .args(arguments)
            .arg(path)
            .uid(65534)
            .gid(65534);
        command
    };
    assert_eq!(json(&mut as_other(&["info"], &mine))["reads"], 30);
    let why = refused(&mut as_other(&["info"], &theirs));
    assert!(why.contains("owner of the mount"), "{why}");
    for verb in [
        &["top"][..],
        &["histogram"],
        &["map"],
        &["export"],
        &["report", "--what-if=1G"],
    ] {
        let why = refused(&mut as_other(verb, mounted.path()));
        assert!(
            why.contains("owner of the mount and root"),
            "{verb:?}: {why}"
        );
    }
    for verb in ["on", "off"] {
        let why = refused(&mut as_other(&[verb], mounted.path()));
        assert!(why.contains("may switch tracking"), "{why}");
    }
    let why = refused(as_other(&["import"], mounted.path()).arg("/dev/null"));
    assert!(why.contains("may import heat"), "{why}");
}

fn bad_input_is_refused_by_name(transport: Transport) {
    let mounted = Mounted::new(transport, EXACT);
    used(&mounted, "file", 1, 0, 1);
    for (arguments, named) in [
        (&["top", "--by", "colour"][..], "'colour'"),
        (&["top", "--since", "-5m"], "'-5m'"),
        (&["top", "--since", "0"], "'0'"),
        (&["top", "--since", "soon"], "'soon'"),
        (&["top", "-n", "0"], "'0'"),
        (&["top", "-n", "-1"], "'-1'"),
        (&["top", "-n", "99999999999"], "'99999999999'"),
        (&["top", "--reads", "--writes"], "'--reads'"),
        (&["top", "--loudness"], "'--loudness'"),
        (&["report", "--what-if", "0"], "'0'"),
        (&["report", "--what-if", "-1G"], "'-1G'"),
        (&["report", "--what-if", "many"], "'many'"),
        (&["map", "-n", "0"], "'0'"),
        (&["map", "--json", "--svg", "map.svg"], "'--json'"),
    ] {
        let why = refused(&mut heat(&mounted, arguments));
        assert!(why.contains(named), "{arguments:?}: {why}");
    }
    let elsewhere = mounted.outside("elsewhere");
    for verb in [
        "on",
        "off",
        "top",
        "info",
        "histogram",
        "map",
        "export",
        "import",
    ] {
        let why = refused(hearth().args(["heat", verb]).arg(&elsewhere));
        assert!(why.contains("not on a Hearth mount"), "{verb}: {why}");
        assert!(why.contains(elsewhere.to_str().unwrap()), "{verb}: {why}");
    }
    let mut report = hearth();
    report
        .args(["heat", "report", "--what-if", "1G"])
        .arg(&elsewhere);
    assert!(refused(&mut report).contains("not on a Hearth mount"));
    let absent = mounted.at("absent");
    assert!(refused(hearth().args(["heat", "info"]).arg(&absent)).contains("does not exist"));
    assert!(refused(&mut heat(&mounted, &["info"])).contains("is a directory"));
    let picture = elsewhere.join("no/such/map.svg");
    let why = refused(heat(&mounted, &["map"]).arg("--svg").arg(&picture));
    assert!(why.contains("map.svg: No such file"), "{why}");
    for (name, kept, bad) in [
        ("hot-update-interval", "150\n", ["0", "-1", "86401", "1.5"]),
        (
            "hot-mem-high-thresh",
            "0\n",
            ["-1", "1048577", "lots", "99999999999999999999"],
        ),
        (
            "hot-half-lives",
            "3600 86400\n",
            ["3600", "0 9", "86400 3600", "1 31536001"],
        ),
        ("hot-track", "1\n", ["2", "-1", "on", "maybe"]),
    ] {
        let file = mounted.at(".hearth/sys/fs").join(name);
        for value in bad {
            let refused = std::fs::write(&file, value).expect_err(value);
            assert_eq!(refused.raw_os_error(), Some(22), "{name} {value}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
    }
}

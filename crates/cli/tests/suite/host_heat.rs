//! Heat of directories of the host: which files are hot, by what programs do to them, over a
//! restart, and beside changes behind the mount.

use crate::harness;

use harness::{Below, Mounted, Transport, hearth, program, refused, said, succeed, until};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

harness::on_both_transports!(
    the_hot_file_is_named_after_a_program_has_read_it,
    each_access_is_counted_where_it_lies,
    heat_outlives_the_mount_and_follows_its_file,
);

const PAGE: usize = 4096;

fn state(below: &Below) -> PathBuf {
    // The daemon makes it.
    below.path().with_file_name("state")
}

fn mounted(transport: Transport, below: &Below, options: &str) -> Mounted {
    let state = state(below);
    let options = format!("{options},state={}", state.display());
    Mounted::over(transport, below.path(), &options)
}

fn json(at: &Path, arguments: &[&str]) -> Value {
    let mut command = hearth();
    command.arg("heat").args(arguments).arg(at).arg("--json");
    let text = succeed(&mut command);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// Names of the rows below the mount, hottest first.
fn names(mounted: &Mounted, rows: &Value) -> Vec<String> {
    let mount = mounted.path().to_str().unwrap();
    let rows = rows.as_array().unwrap().iter();
    let name = |row: &Value| match row["path"].as_str() {
        Some(path) => path.strip_prefix(mount).unwrap_or(path)[1..].to_owned(),
        None => format!("deleted: {}", row["deleted"]),
    };
    rows.map(name).collect()
}

fn top(mounted: &Mounted) -> Vec<String> {
    names(mounted, &json(mounted.path(), &["top"]))
}

fn read_pages(path: &Path, times: u64) {
    let file = File::open(path).unwrap();
    for n in 0..times {
        let mut page = [0; PAGE];
        file.read_exact_at(&mut page, n % 4 * PAGE as u64).unwrap();
    }
}

fn the_hot_file_is_named_after_a_program_has_read_it(transport: Transport) {
    let below = Below::ext4();
    for (name, uid) in [("hot", 1001), ("warm", 1002), ("never", 1003)] {
        fs::write(below.at(name), vec![7; 3 << 20]).unwrap();
        chown(below.at(name), Some(uid), Some(uid)).unwrap();
    }
    let mounted = mounted(transport, &below, "hot_track");
    for _ in 0..5 {
        // As it would be without a cache that holds the file.
        succeed(program("cat").arg(mounted.at("hot")));
        fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
    }
    succeed(program("cat").arg(mounted.at("warm")));
    assert_eq!(top(&mounted), ["hot", "warm"]);
    let rows = json(mounted.path(), &["top"]);
    assert_eq!(
        (&rows[0]["uid"], &rows[0]["ranges"]),
        (&1001.into(), &3.into())
    );
    let ino = fs::metadata(below.at("hot")).unwrap().ino();
    assert_eq!(
        (&rows[0]["ino"], &rows[0]["grade"]),
        (&ino.into(), &"hot".into())
    );
    assert!(rows[0].get("counts").is_none(), "each access is counted");
    let ranges = json(mounted.path(), &["top", "--by", "range", "-n", "2"]);
    assert_eq!(names(&mounted, &ranges), ["hot", "hot"]);
    let users = json(mounted.path(), &["top", "--by", "user"]);
    let users: Vec<_> = users
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["id"])
        .collect();
    assert_eq!(users, [1001, 1002]);
    let info = json(&mounted.at("hot"), &["info"]);
    assert_eq!(
        (&info["recorded"], &info["size"]),
        (&true.into(), &(3 << 20).into())
    );
    let info = json(&mounted.at("never"), &["info"]);
    assert_eq!(
        (&info["recorded"], &info["deleted"]),
        (&false.into(), &false.into())
    );
    // The control files say the same.
    let text = fs::read_to_string(mounted.at(".hearth/heat/top.json")).unwrap();
    let rows: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(rows[0]["path"], "/hot");
    assert!(mounted.stat("hearth_inodes_in_memory") >= 4.0);
}

fn each_access_is_counted_where_it_lies(transport: Transport) {
    let below = Below::tmpfs();
    let mounted = mounted(transport, &below, "heat=exact");
    let path = mounted.at("f");
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = open.unwrap();
    file.write_all_at(&[1; 2 * PAGE], 0).unwrap();
    for _ in 0..90 {
        file.read_exact_at(&mut [0; PAGE], 0).unwrap();
    }
    file.write_all_at(&[1; PAGE], 5 << 20).unwrap();
    let mut end = OpenOptions::new().append(true).open(&path).unwrap();
    end.write_all(&[1; 100]).unwrap();
    let row = &json(mounted.path(), &["top"])[0];
    assert_eq!((&row["reads"], &row["writes"]), (&90.into(), &3.into()));
    let bytes = (&row["read_bytes"], &row["written_bytes"]);
    assert_eq!(bytes, (&(90 * PAGE).into(), &(3 * PAGE + 100).into()));
    let ranges = json(mounted.path(), &["top", "--by", "range"]);
    let mut starts: Vec<_> = ranges.as_array().unwrap().iter().collect();
    starts.sort_by_key(|row| row["start"].as_u64());
    let of = |row: &Value| {
        (
            row["start"].as_u64().unwrap() >> 20,
            row["writes"].as_u64().unwrap(),
        )
    };
    assert_eq!(
        starts.iter().map(|row| of(row)).collect::<Vec<_>>(),
        [(0, 1), (5, 2)]
    );
    // What is cut off is no longer there, and goes out of the list.
    file.set_len(PAGE as u64).unwrap();
    let ranges = json(mounted.path(), &["top", "--by", "range"]);
    assert_eq!(ranges.as_array().unwrap().len(), 1);
    // So does an open that cuts.
    fs::write(mounted.at("other"), [1; PAGE]).unwrap();
    let ranges = || json(mounted.path(), &["top", "--by", "range"]);
    assert_eq!(ranges().as_array().unwrap().len(), 2);
    File::create(mounted.at("other")).unwrap();
    assert_eq!(ranges().as_array().unwrap().len(), 1);
    fs::remove_file(mounted.at("other")).unwrap();
    until("the end of the other", || top(&mounted).len() == 1);
    // Stores through a mapping are writes, when they are written.
    let mut map = program("python3");
    map.arg("-c").arg(
        "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),4096)\n\
         m[0:3]=b'new'\nm.flush()",
    );
    succeed(map.arg(&path));
    assert_eq!(&fs::read(below.at("f")).unwrap()[..3], b"new");
    let row = &json(mounted.path(), &["top"])[0];
    assert_eq!(row["writes"], 4);
    // Another name, and the last one.
    fs::hard_link(&path, mounted.at("g")).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(top(&mounted), ["g"]);
    fs::remove_file(mounted.at("g")).unwrap();
    assert_eq!(top(&mounted), ["deleted: true"], "it is open");
    drop((file, end));
    until("the end of a file with its last close", || {
        top(&mounted).is_empty()
    });
}

fn heat_outlives_the_mount_and_follows_its_file(transport: Transport) {
    let below = Below::ext4();
    fs::create_dir(below.at("d")).unwrap();
    for name in ["hot", "gone", "d/deep", "behind"] {
        fs::write(below.at(name), vec![7; 4 * PAGE]).unwrap();
    }
    let mounted = mounted(transport, &below, "heat=exact");
    for (name, times) in [("hot", 90), ("gone", 60), ("d/deep", 40), ("behind", 20)] {
        read_pages(&mounted.at(name), times);
    }
    assert_eq!(top(&mounted), ["hot", "gone", "d/deep", "behind"]);
    let before = json(mounted.path(), &["top"]);
    // Through the mount, behind it, and with the directory above.
    fs::rename(mounted.at("hot"), mounted.at("renamed")).unwrap();
    fs::rename(below.at("behind"), below.at("d/behind")).unwrap();
    fs::rename(below.at("d"), below.at("moved")).unwrap();
    assert_eq!(
        top(&mounted),
        ["renamed", "gone", "moved/deep", "moved/behind"]
    );
    mounted.unmount();
    // Nothing of ours is in the tree.
    let found =
        succeed(
            program("find")
                .arg(below.path())
                .args(["-mindepth", "1", "-printf", "%P "]),
        );
    let mut found: Vec<&str> = found.split_whitespace().collect();
    found.sort_unstable();
    assert_eq!(
        found,
        ["gone", "moved", "moved/behind", "moved/deep", "renamed"]
    );
    // Another file that gets the number of one that is gone has no heat.
    let number = fs::metadata(below.at("gone")).unwrap().ino();
    fs::remove_file(below.at("gone")).unwrap();
    fs::write(below.at("gone"), "another").unwrap();
    assert_eq!(
        fs::metadata(below.at("gone")).unwrap().ino(),
        number,
        "ext4"
    );
    fs::rename(below.at("moved/deep"), below.at("deep")).unwrap();
    let options = format!("heat=exact,state={}", state(&below).display());
    mounted.mount_again(transport, &options);
    until("the end of what was removed", || top(&mounted).len() == 3);
    assert_eq!(top(&mounted), ["renamed", "deep", "moved/behind"]);
    let after = json(mounted.path(), &["top"]);
    assert_eq!(
        (&after[0]["reads"], &before[0]["reads"]),
        (&90.into(), &90.into())
    );
    let degrees = |rows: &Value| rows[0]["temperature"].as_f64().unwrap();
    assert!((degrees(&after) - degrees(&before)).abs() < 1.0);
    // It goes on from there.
    read_pages(&mounted.at("renamed"), 10);
    assert_eq!(json(mounted.path(), &["top"])[0]["reads"], 100);
}

/// A path that is long out of the kernel's caches, and no path at all, are found by a walk.
#[test]
fn a_file_is_found_wherever_others_have_moved_it() {
    let below = Below::tmpfs();
    fs::create_dir_all(below.at("a/b/c/d")).unwrap();
    fs::write(below.at("a/f"), vec![7; 4 * PAGE]).unwrap();
    let mounted = mounted(Transport::Dev, &below, "heat=exact");
    read_pages(&mounted.at("a/f"), 20);
    mounted.unmount();
    fs::rename(below.at("a/f"), below.at("a/b/c/d/g")).unwrap();
    fs::rename(below.at("a/b"), below.at("b")).unwrap();
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    mounted.mount_again(
        Transport::Dev,
        &format!("heat=exact,state={}", state(&below).display()),
    );
    assert_eq!(top(&mounted), ["b/c/d/g"]);
    fs::remove_file(below.at("b/c/d/g")).unwrap();
    assert_eq!(top(&mounted), Vec::<String>::new());
}

#[test]
fn observe_shows_heat_statistics_and_locks_and_changes_nothing() {
    let below = Below::ext4();
    fs::write(below.at("f"), vec![7; 4 * PAGE]).unwrap();
    let mounted = mounted(Transport::Dev, &below, "observe");
    read_pages(&mounted.at("f"), 4);
    for n in 0..50 {
        fs::write(mounted.at(format!("made{n}")), "x").unwrap();
    }
    assert_eq!(top(&mounted).len(), 51);
    assert!(mounted.stat("hearth_heat_on") == 1.0);
    let text = fs::read_to_string(mounted.at(".hearth/stats")).unwrap();
    assert!(
        text.contains("hearth_op_seconds_count{op=\"create\"} 50"),
        "{text}"
    );
    fs::write(mounted.at(".hearth/locks"), "exact").unwrap();
    fs::write(mounted.at("another"), "y").unwrap();
    let locks = succeed(hearth().arg("locks").arg(mounted.path()));
    assert!(locks.contains("host.nodes"), "{locks}");
    // Tracking is switched off and on as on other volumes.
    succeed(hearth().args(["heat", "off"]).arg(mounted.path()));
    read_pages(&mounted.at("made1").with_file_name("f"), 4);
    assert_eq!(mounted.stat("hearth_heat_on"), 0.0);
    mounted.unmount();
    assert_eq!(fs::read_dir(below.path()).unwrap().count(), 52);
    let place = below.outside("other");
    for (options, words) in [
        ("observe,quota", &["quota"][..]),
        ("heat=opens,direct_io", &["heat=opens", "direct_io"]),
        (
            "hot_track,passthrough=on",
            &["passthrough=on", "heat=opens"],
        ),
    ] {
        let mut mount = hearth();
        mount
            .args(["mount", "-o", options])
            .arg(below.path())
            .arg(&place);
        refused(options, &said(&mut mount), 2, words);
    }
    for (source, options) in [
        ("memory:", "observe"),
        ("memory:", "state=/x"),
        ("memory:", "heat=opens"),
    ] {
        let mut mount = hearth();
        mount.args(["mount", "-o", options, source]).arg(&place);
        refused(options, &said(&mut mount), 2, &["host:DIR"]);
    }
}

#[test]
fn a_state_directory_that_cannot_be_used_is_refused_and_one_that_is_damaged_put_aside() {
    let below = Below::tmpfs();
    fs::write(below.at("f"), vec![7; 4 * PAGE]).unwrap();
    let (place, state) = (below.outside("other"), state(&below));
    fs::create_dir(&state).unwrap();
    fs::write(state.join("file"), "").unwrap();
    let inside = below.at("state");
    for (named, words) in [
        (
            state.join("file/below"),
            &["file/below", "-o state=DIR"][..],
        ),
        (inside.clone(), &["state", "lies in", "-o state=DIR"]),
    ] {
        let mut mount = hearth();
        mount
            .args(["mount", "-o"])
            .arg(format!("hot_track,state={}", named.display()));
        mount.arg(below.path()).arg(&place);
        refused("state", &said(&mut mount), 1, words);
    }
    assert!(!inside.exists());
    let mounted = mounted(Transport::Dev, &below, "heat=exact");
    read_pages(&mounted.at("f"), 20);
    assert_eq!(top(&mounted), ["f"]);
    mounted.unmount();
    let mut find = program("find");
    let heat = succeed(find.arg(&state).args(["-name", "heat"]));
    let heat = PathBuf::from(heat.trim_end());
    let mut bytes = fs::read(&heat).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&heat, &bytes).unwrap();
    let options = format!("heat=exact,state={}", state.display());
    let said = mounted.mount_again(Transport::Dev, &options);
    assert!(said.err.contains("damaged"), "{said:?}");
    assert_eq!(top(&mounted), Vec::<String>::new());
    assert_eq!(fs::read(heat.with_extension("bad")).unwrap(), bytes);
}

#[test]
fn without_tracking_there_is_no_state() {
    let below = Below::tmpfs();
    fs::write(below.at("f"), vec![7; 4 * PAGE]).unwrap();
    let mounted = mounted(Transport::Dev, &below, "passthrough=off");
    read_pages(&mounted.at("f"), 20);
    assert_eq!(mounted.stat("hearth_heat_core_bytes"), 0.0);
    mounted.unmount();
    assert!(!state(&below).exists());
}

/// Once, a project of a directory had limits of bytes only: its rate limit was nobody's, and its
/// heat was that of the user.
#[test]
fn a_project_of_a_directory_is_a_tenant_and_has_its_heat() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("p")).unwrap();
    fs::write(below.at("p/before"), [1; 4 * PAGE]).unwrap();
    let mounted = mounted(Transport::Dev, &below, "quota=wait,hot_track");
    succeed(
        hearth()
            .args(["quota", "project"])
            .arg(mounted.at("p"))
            .arg("9"),
    );
    let limit = ["sched", "limit", "project:9", "--iops", "1k"];
    succeed(hearth().args(limit).arg(mounted.path()));
    for n in 0..20 {
        fs::write(mounted.at(format!("p/{n}")), [n; PAGE]).unwrap();
    }
    read_pages(&mounted.at("p/before"), 8);
    let sched = fs::read_to_string(mounted.at(".hearth/sched.json")).unwrap();
    let sched: Value = serde_json::from_str(&sched).unwrap();
    let tenants = sched["tenants"].as_array().unwrap();
    let project = tenants
        .iter()
        .find(|tenant| tenant["tenant"] == "project:9");
    let project = project.unwrap_or_else(|| panic!("{sched}"));
    assert!(project["charged_ops"].as_u64().unwrap() >= 28, "{project}");
    let rows = json(mounted.path(), &["top", "--by", "project"]);
    let of = |id: u64| {
        let rows = rows.as_array().unwrap().iter();
        rows.filter(|row| row["id"] == id).count()
    };
    assert_eq!((of(9), of(0)), (1, 0), "{rows}");
}

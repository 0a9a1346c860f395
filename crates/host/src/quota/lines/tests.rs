use super::*;
use crate::quota::projects::PROJECTS;
use crate::quota::serve::SETTINGS;
use hearth_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const FORM: Form<String> = Form {
    name: "projects",
    is_whole: |_, _| true,
    remedy: "",
};

/// A directory with room for four pages, of which three are taken.
struct Full(PathBuf);

impl Full {
    fn new(name: &str) -> Full {
        let name = format!("hearth-quota-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16k", "hearth-test"]);
        assert!(mount.arg(&path).status().unwrap().success());
        std::fs::write(path.join("ballast"), vec![b'x'; 3 * 4096]).unwrap();
        Full(path)
    }

    fn lines(&self) -> Lines<String> {
        Lines::open(&QuotaDir::open(&self.0).unwrap(), &FORM).unwrap()
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let umount = |path: &Path| Command::new("umount").arg(path).status();
        assert!(umount(&self.0).unwrap().success());
        std::fs::remove_dir(&self.0).unwrap();
    }
}

fn all(lines: &Lines<String>) -> Vec<(Box<str>, String)> {
    let mut all = lines.all();
    all.sort_by_key(|(key, _)| key.len());
    all
}

fn some(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Once, the next line went on where the cut one ended, and both were another key.
#[test]
fn a_line_that_a_full_disk_cuts_is_refused_and_leaves_the_lines_around_it() {
    let full = Full::new("cut");
    let lines = full.lines();
    let long = "k".repeat(4000);
    lines.set(&long, some("1")).unwrap();
    let cut = lines.set(&"c".repeat(200), some("2")).unwrap_err();
    assert_eq!((cut.errno, &cut.place), (Errno::ENOSPC, &full.0));
    lines.set("after", some("3")).unwrap();
    let expected = [
        ("after".into(), "3".to_owned()),
        (long.into(), "1".to_owned()),
    ];
    assert_eq!(all(&lines), expected);
    drop(lines);
    full.make_room();
    assert_eq!(all(&full.lines()), expected);
}

/// Once, what could not be written was lost at a clean end as well, where there was room again.
#[test]
fn what_holds_without_a_line_is_written_when_there_is_room_again() {
    let full = Full::new("held");
    let lines = full.lines();
    lines.set(&"k".repeat(4000), some("1")).unwrap();
    let held = "h".repeat(200);
    assert_eq!(
        lines.hold(&held, some("2")).unwrap_err().errno,
        Errno::ENOSPC
    );
    assert_eq!(lines.get(&held), some("2"));
    // It holds; whoever asks for it to be kept is not told that it is.
    assert!(lines.set(&held, some("2")).is_err());
    assert!(lines.end().is_err());
    full.make_room();
    lines.end().unwrap();
    lines.set("after", some("3")).unwrap();
    drop(lines);
    let expected = [
        ("after".into(), "3".to_owned()),
        (held.into(), "2".to_owned()),
        ("k".repeat(4000).into(), "1".to_owned()),
    ];
    assert_eq!(all(&full.lines()), expected);
}

/// Once, whoever asked for a project or a limit, in the middle of a charge, waited for the disk of
/// the state directory while the file was written anew.
#[test]
fn who_asks_or_sets_does_not_wait_for_what_is_written_anew() {
    let full = Full::new("anew");
    let lines = full.lines();
    lines.set(&"k".repeat(4000), some("1")).unwrap();
    let held = "h".repeat(200);
    lines.hold(&held, some("2")).unwrap_err();
    full.make_room();
    // Whoever opens it to write waits for a reader.
    let new = full.0.join("projects.new");
    rustix::fs::mkfifoat(rustix::fs::CWD, &new, rustix::fs::Mode::RWXU).unwrap();
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| lines.make_all_durable());
        // Time for it to begin.
        std::thread::sleep(Duration::from_millis(100));
        let (says, said) = std::sync::mpsc::channel();
        let lines = &lines;
        scope.spawn(move || {
            lines.set("during", some("3")).unwrap();
            says.send(lines.get("during")).unwrap();
        });
        let answer = said.recv_timeout(Duration::from_secs(10));
        let mut reader = File::open(&new).unwrap();
        io::copy(&mut reader, &mut io::sink()).unwrap();
        // A pipe cannot be synced.
        assert!(writes.join().unwrap().is_err());
        assert_eq!(answer, Ok(some("3")));
    });
    std::fs::remove_file(&new).unwrap();
    lines.make_all_durable().unwrap();
    drop(lines);
    let expected = [
        ("during".into(), "3".to_owned()),
        (held.into(), "2".to_owned()),
        ("k".repeat(4000).into(), "1".to_owned()),
    ];
    assert_eq!(all(&full.lines()), expected);
}

/// Also without a line in the old file.
#[test]
fn what_changes_while_the_file_is_written_anew_is_in_it() {
    let full = Full::new("meanwhile");
    let lines = full.lines();
    lines.set(&"k".repeat(4000), some("1")).unwrap();
    let (held, meanwhile) = ("h".repeat(200), "m".repeat(300));
    lines.hold(&held, some("2")).unwrap_err();
    let text = lines.begin_anew(|now| now.is_behind).unwrap();
    lines.hold(&meanwhile, some("3")).unwrap_err();
    lines.hold(&held, None).unwrap_err();
    full.make_room();
    let written = lines.directory.rewritten(lines.name, text.as_bytes());
    lines.end_anew(written).unwrap();
    assert!(lines.begin_anew(|now| now.is_behind).is_none());
    drop(lines);
    let expected = [
        (meanwhile.into(), "3".to_owned()),
        ("k".repeat(4000).into(), "1".to_owned()),
    ];
    assert_eq!(all(&full.lines()), expected);
}

/// Once, a user about a soft limit made the file longer with each file that he made and removed,
/// until the unmount.
#[test]
fn a_key_that_changes_all_the_time_does_not_make_the_file_longer_for_ever() {
    let at = std::env::temp_dir().join(format!("hearth-quota-long-{}", std::process::id()));
    std::fs::create_dir(&at).unwrap();
    let lines: Lines<String> = Lines::open(&QuotaDir::open(&at).unwrap(), &FORM).unwrap();
    lines.set("limit", some("1")).unwrap();
    for change in 0..3 * OLD_LINES {
        lines
            .hold("end", (change % 2 == 0).then(|| change.to_string()))
            .unwrap();
    }
    lines.hold("end", some("last")).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(30);
    let count = || {
        std::fs::read_to_string(at.join(FORM.name))
            .unwrap()
            .lines()
            .count() as u64
    };
    while count() > 2 * OLD_LINES && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(count() <= 2 * OLD_LINES, "{} lines", count());
    lines.make_all_durable().unwrap();
    drop(lines);
    let again = || Lines::<String>::open(&QuotaDir::open(&at).unwrap(), &FORM).unwrap();
    let expected = [
        ("end".into(), "last".to_owned()),
        ("limit".into(), "1".to_owned()),
    ];
    assert_eq!(all(&again()), expected);
    std::fs::remove_dir_all(&at).unwrap();
}

/// Regression: where the new file had its name, and an error came behind that, lines went on to the
/// old one, which has none.
#[test]
fn lines_behind_a_failed_shortening_are_kept() {
    let at = std::env::temp_dir().join(format!("hearth-quota-failed-{}", std::process::id()));
    std::fs::create_dir(&at).unwrap();
    let lines: Lines<String> = Lines::open(&QuotaDir::open(&at).unwrap(), &FORM).unwrap();
    lines.set("limit", some("1")).unwrap();
    let text = lines.begin_anew(|_| true).unwrap();
    drop(
        lines
            .directory
            .rewritten(FORM.name, text.as_bytes())
            .unwrap(),
    );
    let failed = Err(io::Error::from_raw_os_error(libc::EMFILE));
    lines.end_anew(failed).unwrap_err();
    lines.set("later on", some("2")).unwrap();
    lines.make_durable().unwrap();
    drop(lines);
    let again = Lines::open(&QuotaDir::open(&at).unwrap(), &FORM).unwrap();
    let expected = [
        ("limit".into(), "1".to_owned()),
        ("later on".into(), "2".to_owned()),
    ];
    assert_eq!(all(&again), expected);
    std::fs::remove_dir_all(&at).unwrap();
}

#[test]
fn nothing_is_written_anew_behind_the_end() {
    let at = std::env::temp_dir().join(format!("hearth-quota-over-{}", std::process::id()));
    std::fs::create_dir(&at).unwrap();
    let lines: Lines<String> = Lines::open(&QuotaDir::open(&at).unwrap(), &FORM).unwrap();
    lines.set("limit", some("1")).unwrap();
    lines.end().unwrap();
    // Another daemon has the directory now.
    std::fs::remove_file(at.join(FORM.name)).unwrap();
    lines.shorten();
    assert!(!at.join(FORM.name).exists());
    std::fs::remove_dir_all(&at).unwrap();
}

/// Reads lines from a directory of its own; says what is in the file after it, too.
fn opened<V>(form: &Form<V>, text: &[u8]) -> (Result<usize, OpenError>, Vec<u8>)
where
    V: Display + FromStr + PartialEq + Clone + Send + 'static,
{
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (number, id) = (COUNT.fetch_add(1, Relaxed), std::process::id());
    let name = format!("hearth-quota-{}-{id}-{number}", form.name);
    let at = std::env::temp_dir().join(name);
    std::fs::create_dir(&at).unwrap();
    std::fs::write(at.join(form.name), text).unwrap();
    let lines = QuotaDir::open(&at).and_then(|directory| Lines::open(&directory, form));
    let after = std::fs::read(at.join(form.name)).unwrap();
    std::fs::remove_dir_all(&at).unwrap();
    (lines.map(|lines| lines.all().len()), after)
}

/// The middle one of three lines is damaged: the directory is refused, and the file stays.
#[track_caller]
fn refused<V>(form: &Form<V>, good: &str, damaged: &[u8])
where
    V: Display + FromStr + PartialEq + Clone + Send + 'static,
{
    let good = good.as_bytes();
    let text = [good, b"\n", damaged, b"\n", good, b"\n"].concat();
    let (opened, after) = opened(form, &text);
    let shown = String::from_utf8_lossy(damaged).into_owned();
    let why = opened.expect_err(&shown).to_string();
    assert!(why.contains(&format!("/{}:2: ", form.name)), "{why}");
    assert!(why.contains(form.remedy), "{why}");
    assert_eq!(after, text, "{shown}");
}

/// Once, the limit or the project was gone without a word, and soon from the file.
#[test]
fn a_damaged_line_is_named_and_nothing_is_rewritten() {
    let good = "quota/id/user:7\t1 bytes=4096:-";
    for damaged in [
        &b"quota/id/user:1\t1 bytes=62x1456:-"[..],
        b"quota/id/user:1\t1 bytxs=621456:-",
        b"quota/id/usfr:1\t1 bytes=621456:-",
        b"quota/id/user:1\t1 bytes=621456:-\xff",
        b"quota/id/user:1 1 bytes=621456:-",
        b"\0\0\0\0",
    ] {
        refused(&SETTINGS, good, damaged);
    }
    let good = "2:h1.00af0000\t7";
    for damaged in [
        &b"3:h1.00af0000\t7x"[..],
        b"3:h1.00ag0000\t7",
        b"3:h1.00\xff\t7",
        b"x3:h1.00\t7",
        b"3:t1.y\t7",
        b"3:h1.00af0000:\t7",
        b"3:h1.00af0000 7",
    ] {
        refused(&PROJECTS, good, damaged);
    }
}

#[test]
fn a_line_that_a_power_cut_has_torn_is_left_out() {
    let text = "quota/id/user:7\t1 bytes=4096:-\nquota/kind/user\nquota/grace/user:7\t1 inod";
    for end in ["", "\0\0\0"] {
        let (opened, after) = opened(&SETTINGS, format!("{text}{end}").as_bytes());
        assert_eq!(opened.unwrap(), 1);
        assert_eq!(after, b"quota/id/user:7\t1 bytes=4096:-\n\n");
    }
    let text = "2:h1.00\t7\n3:t-5.1:64769\t8\n2:h1.00\n4:t1";
    let (opened, after) = opened(&PROJECTS, text.as_bytes());
    assert_eq!(opened.unwrap(), 1);
    assert_eq!(after, b"3:t-5.1:64769\t8\n\n");
}

/// Once, a block that a power cut had kept from the disk, before one that was on it, refused the
/// next mount until somebody took it out.
#[test]
fn a_gap_that_a_power_cut_has_torn_is_left_out() {
    let gap = "\0".repeat(4096);
    let text = format!("1:h1.00\t7\n\n2:h1.00\t8\n3:h1.00\t{gap}:h1.00\t9\n4:h1.00\t10\n");
    let (left, after) = opened(&PROJECTS, text.as_bytes());
    assert_eq!(left.unwrap(), 3);
    assert_eq!(
        after.len(),
        text.len() - gap.len() - "3:h1.00\t:h1.00\t9\n".len()
    );
    // The first lines of a file that had none.
    let (left, _) = opened(&PROJECTS, format!("\n{gap}\n4:h1.00\t10\n").as_bytes());
    assert_eq!(left.unwrap(), 1);
    // What was on the disk when a later line was written is damaged.
    let text = format!("1:h1.00\t7\n{gap}\n\n4:h1.00\t10\n");
    let (left, after) = opened(&PROJECTS, text.as_bytes());
    assert!(left.unwrap_err().to_string().contains("/projects:2: "));
    assert_eq!(after, text.as_bytes());
}

/// Once, nothing waited for the disk: a power cut took limits that were acknowledged.
#[test]
fn what_is_durable_stands_before_an_empty_line() {
    let at = std::env::temp_dir().join(format!("hearth-quota-durable-{}", std::process::id()));
    std::fs::create_dir(&at).unwrap();
    let lines: Lines<String> = Lines::open(&QuotaDir::open(&at).unwrap(), &FORM).unwrap();
    let text = || std::fs::read_to_string(at.join(FORM.name)).unwrap();
    lines.set("a", some("1")).unwrap();
    lines.set("b", some("2")).unwrap();
    assert_eq!(text(), "\na\t1\nb\t2\n");
    lines.make_durable().unwrap();
    lines.hold("c", some("3")).unwrap();
    // Nobody was told of it.
    lines.make_durable().unwrap();
    lines.set("d", some("4")).unwrap();
    assert_eq!(text(), "\na\t1\nb\t2\n\nc\t3\nd\t4\n");
    lines.make_all_durable().unwrap();
    lines.hold("c", None).unwrap();
    assert_eq!(text(), "\na\t1\nb\t2\n\nc\t3\nd\t4\n\nc\n");
    std::fs::remove_dir_all(&at).unwrap();
}

//! `-o watch`: what others change in the directory is seen at once. The timeouts are an hour here,
//! so nothing else makes it seen.

use crate::harness::{Below, Mounted, Transport, hearth, program, said, succeed, until};
use crate::quotas::{done, used};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

const FOREVER: &str = "entry_timeout=3600,attr_timeout=3600,negative_timeout=3600";

fn watched(below: &Below, transport: Transport) -> Mounted {
    Mounted::over(transport, below.path(), &format!("watch,{FOREVER}"))
}

fn sees_all(below: &Below, mounted: &Mounted) {
    fs::create_dir(below.at("d")).unwrap();
    until("the directory", || mounted.at("d").is_dir());
    // Absent, and believed so.
    assert!(!mounted.at("d/f").exists());
    fs::write(below.at("d/f"), "one").unwrap();
    until("what was made", || mounted.at("d/f").exists());
    assert_eq!(fs::read_to_string(mounted.at("d/f")).unwrap(), "one");
    assert_eq!(fs::metadata(mounted.at("d/f")).unwrap().len(), 3);

    let mut file = OpenOptions::new()
        .append(true)
        .open(below.at("d/f"))
        .unwrap();
    file.write_all(b" more").unwrap();
    let size = || fs::metadata(mounted.at("d/f")).unwrap().len();
    until("the size", || size() == 8);
    fs::set_permissions(below.at("d/f"), fs::Permissions::from_mode(0o640)).unwrap();
    let mode = || fs::metadata(mounted.at("d/f")).unwrap().mode() & 0o777;
    until("the mode", || mode() == 0o640);

    // Contents that somebody has open: the size stays.
    let held = File::open(mounted.at("d/f")).unwrap();
    let first = || {
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&held, &mut byte, 0).unwrap();
        byte[0]
    };
    assert_eq!(first(), b'o');
    let file = OpenOptions::new()
        .write(true)
        .open(below.at("d/f"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"X", 0).unwrap();
    until("the byte", || first() == b'X');

    fs::rename(below.at("d/f"), below.at("d/g")).unwrap();
    until("the new name", || mounted.at("d/g").exists());
    until("the old name", || !mounted.at("d/f").exists());
    fs::write(below.at("d/new"), "another").unwrap();
    fs::rename(below.at("d/new"), below.at("d/g")).unwrap();
    until("what replaced it", || {
        fs::read_to_string(mounted.at("d/g")).unwrap() == "another"
    });
    fs::remove_file(below.at("d/g")).unwrap();
    until("what was removed", || !mounted.at("d/g").exists());
    fs::remove_dir(below.at("d")).unwrap();
    until("the directory that was removed", || {
        !mounted.at("d").exists()
    });
}

#[test]
fn hr18_changes_of_others_are_seen_at_once() {
    for below in [Below::ext4(), Below::tmpfs(), Below::xfs()] {
        for transport in [Transport::Dev, Transport::Uring] {
            let mounted = watched(&below, transport);
            sees_all(&below, &mounted);
            mounted.unmount();
        }
    }
}

/// The control: by timeouts alone nothing of it is seen.
#[test]
fn without_a_watch_the_timeouts_decide() {
    let below = Below::ext4();
    fs::write(below.at("f"), "one").unwrap();
    let mounted = Mounted::over(Transport::Dev, below.path(), FOREVER);
    assert_eq!(fs::metadata(mounted.at("f")).unwrap().len(), 3);
    fs::write(below.at("f"), "longer").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(fs::metadata(mounted.at("f")).unwrap().len(), 3);
    mounted.unmount();
}

/// A notice may wait for a request, and no request waits for a notice.
#[test]
fn hr19_notices_of_files_that_are_written_stop_nobody() {
    let below = Below::ext4();
    fs::create_dir(below.at("d")).unwrap();
    let mounted = watched(&below, Transport::Dev);
    let writer = |script: &str, at: &std::path::Path| {
        let mut bash = program("bash");
        bash.args(["-c", script]).current_dir(at.join("d"));
        bash.stdout(Stdio::null()).stderr(Stdio::null());
        bash.spawn().unwrap()
    };
    let through = "for n in $(seq 150); do for f in 1 2 3 4; do echo $n >> $f; cat $f; done; done";
    let behind = "for n in $(seq 150); do rm -f 1; echo x > t; mv t 2; : > 3; echo y >> 4; done";
    let mut all: Vec<_> = (0..4).map(|_| writer(through, mounted.path())).collect();
    all.push(writer(behind, below.path()));
    let mut looks = 0;
    while !all.iter_mut().all(|one| one.try_wait().unwrap().is_some()) {
        succeed(program("timeout").arg("20").arg("ls").arg(mounted.at("d")));
        std::thread::sleep(std::time::Duration::from_millis(20));
        looks += 1;
    }
    assert!(looks > 5, "they went on for a while");
    // All of them to the end: nobody removes or cuts this one.
    let written = fs::read_to_string(below.at("d/4")).unwrap();
    let lines = |what: &str| written.lines().filter(|line| *line == what).count();
    assert_eq!(
        (lines("y"), lines("1"), lines("150")),
        (150, 4, 4),
        "{written}"
    );
    mounted.unmount();
}

/// What others write to a file that the mount has charged is charged at once.
#[test]
fn use_follows_what_others_write() {
    let below = Below::ext4();
    let state = below.path().with_file_name("state");
    let options = format!("watch,quota=wait,state={}", state.display());
    let mounted = Mounted::over(Transport::Dev, below.path(), &options);
    fs::write(mounted.at("f"), vec![1; 8192]).unwrap();
    let before = used(&mounted, "user:root").0;
    fs::write(below.at("f"), vec![1; 40960]).unwrap();
    until("it is charged", || {
        used(&mounted, "user:root").0 == before + 32768
    });
    done(&mounted, "check @");
    mounted.unmount();
}

#[test]
fn a_watch_that_cannot_be_is_refused_with_the_remedy() {
    let below = Below::tmpfs();
    let place = below.outside("place");
    let refused = said(
        hearth()
            .args(["mount", "-o", "watch", "memory:"])
            .arg(&place),
    );
    assert!(
        refused.err.contains("watch") && refused.err.contains("host:DIR"),
        "{refused:?}"
    );
    // A user who is root of a namespace only.
    let mut unshare = program("unshare");
    unshare.args(["--user", "--map-root-user", "--mount"]);
    unshare.arg(env!("CARGO_BIN_EXE_hearth"));
    unshare
        .args(["mount", "-o", "watch"])
        .arg(below.path())
        .arg(&place);
    let refused = said(&mut unshare);
    assert!(
        !refused.success() && refused.err.contains("CAP_SYS_ADMIN"),
        "{refused:?}"
    );
}

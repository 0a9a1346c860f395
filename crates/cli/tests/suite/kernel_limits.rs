//! What the kernel's FUSE answers by itself (`docs/kernel.md`), and what Hearth has instead.

use crate::harness;

use harness::{Below, Mounted, Transport, hearth, program, said, shell, succeed, until};
use serde_json::Value;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

fn errno(result: libc::c_long) -> i32 {
    match result {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap(),
        _ => 0,
    }
}

#[test]
fn the_calls_of_the_page_are_answered_as_it_says() {
    let mounted = Mounted::new(Transport::Dev, "");
    fs::write(mounted.at("f"), [1; 8192]).unwrap();
    let root = File::open(mounted.path()).unwrap();
    let file = File::options()
        .read(true)
        .write(true)
        .open(mounted.at("f"))
        .unwrap();
    fs::write(mounted.at("g"), [1; 8192]).unwrap();
    let other = File::open(mounted.at("g")).unwrap();
    let mut buffer = [0u8; 512];
    const Q_GETQUOTA: libc::c_int = 0x80_0007 << 8;
    // SAFETY: the buffer is longer than what the calls write; the descriptors are open.
    unsafe {
        let by_fd = libc::syscall(443, root.as_raw_fd(), Q_GETQUOTA, 0, buffer.as_mut_ptr());
        assert_eq!(errno(by_fd), libc::ENOSYS);
        for mode in [
            libc::FALLOC_FL_COLLAPSE_RANGE,
            libc::FALLOC_FL_INSERT_RANGE,
            libc::FALLOC_FL_UNSHARE_RANGE,
        ] {
            let done = libc::fallocate(file.as_raw_fd(), mode, 4096, 4096);
            assert_eq!(errno(done.into()), libc::EOPNOTSUPP, "mode {mode}");
        }
        const FICLONE: libc::c_ulong = 0x4004_9409;
        let cloned = libc::ioctl(file.as_raw_fd(), FICLONE, other.as_raw_fd());
        assert_eq!(errno(cloned.into()), libc::EOPNOTSUPP);
        const FIFREEZE: libc::c_ulong = 0xc004_5877;
        let frozen = libc::ioctl(root.as_raw_fd(), FIFREEZE, 0);
        assert_eq!(errno(frozen.into()), libc::EOPNOTSUPP);
    }
    for (flags, mark, answer) in [
        (0, libc::FAN_MARK_FILESYSTEM, 0),
        (
            libc::FAN_REPORT_FID,
            libc::FAN_MARK_FILESYSTEM,
            libc::ENODEV,
        ),
        (libc::FAN_REPORT_FID, libc::FAN_MARK_MOUNT, libc::ENODEV),
    ] {
        let path = std::ffi::CString::new(mounted.path().to_str().unwrap()).unwrap();
        // SAFETY: the path is a C string; the group is closed again.
        unsafe {
            let group = libc::fanotify_init(flags | libc::FAN_CLOEXEC, 0);
            assert!(group >= 0);
            let (mark, open) = (libc::FAN_MARK_ADD | mark, libc::FAN_OPEN);
            let done = libc::fanotify_mark(group, mark, open, libc::AT_FDCWD, path.as_ptr());
            assert_eq!(errno(done.into()), answer, "{flags:x} {mark:x}");
            libc::close(group);
        }
    }
}

/// Every command in the last column of the page, in its order, on one volume.
#[test]
fn the_commands_for_who_comes_from_other_quotas_work() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/coming-from-quotas.md"
    );
    let page = fs::read_to_string(page).unwrap();
    let mounted = Mounted::new(Transport::Dev, "quota,size=200G");
    fs::create_dir(mounted.at("p")).unwrap();
    let place = mounted.path().display().to_string();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let commands = rows.filter_map(|row| row.rsplit('|').nth(1)?.trim().strip_prefix("`hearth "));
    let mut count = 0;
    for typed in commands {
        let typed = typed.trim_end_matches('`').replace("/mnt", &place);
        let done = said(hearth().args(typed.split_whitespace()));
        assert!(done.success(), "hearth {typed}: {done:?}");
        count += 1;
    }
    assert!(count > 20, "{count} commands");
    let report = succeed(hearth().args(["quota", "report", "-n", &place]));
    for who in ["#1000", "#100", "#7"] {
        let is_row = |line: &str| line.split_whitespace().next() == Some(who);
        assert!(report.lines().any(is_row), "{who}: {report}");
    }
    let doctor = succeed(hearth().arg("doctor"));
    assert!(
        doctor.contains("quotactl(2) does not reach FUSE"),
        "{doctor}"
    );
}

/// Holds a lock until it is killed: `flock(1)` runs a program that never ends by itself.
struct Holder(Child);

impl Holder {
    fn flock(mounted: &Mounted, how: &str, file: &str) -> Holder {
        let mut flock = Command::new("flock");
        flock.args([how, file, "sleep", "1000"]);
        flock.current_dir(mounted.path()).stdin(Stdio::null());
        Holder(flock.spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The program that it runs first: it has the lock as well.
        let pid = self.0.id().to_string();
        let _ = Command::new("pkill").args(["-KILL", "-P", &pid]).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rows(mounted: &Mounted) -> Vec<Value> {
    let text = fs::read_to_string(mounted.at(".hearth/file-locks.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["left_out"], 0);
    report["locks"].as_array().unwrap().clone()
}

harness::on_both_transports!(file_locks_are_listed_with_who_waits_for_whom);

fn file_locks_are_listed_with_who_waits_for_whom(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    assert_eq!(rows(&mounted), [] as [Value; 0]);
    mounted.shell("mkdir d; touch d/a b");
    let first = Holder::flock(&mounted, "-s", "d/a");
    until("the first has it", || rows(&mounted).len() == 1);
    let second = Holder::flock(&mounted, "-x", "d/a");
    until("the second waits", || rows(&mounted).len() == 2);
    let listed = rows(&mounted);
    let (waiting, held) = (&listed[0], &listed[1]);
    assert_eq!(
        (&waiting["state"], &held["state"]),
        (&"waiting".into(), &"held".into())
    );
    assert_eq!(
        (&waiting["mode"], &held["mode"]),
        (&"WRITE".into(), &"READ".into())
    );
    for (row, holder) in [(waiting, &second), (held, &first)] {
        assert_eq!(
            (&row["path"], &row["type"]),
            (&"/d/a".into(), &"FLOCK".into())
        );
        assert_eq!(row["pid"], holder.0.id());
        assert_eq!(row["end"], Value::Null);
    }
    assert_eq!(waiting["waits_for"][0]["pid"], first.0.id());
    let pids = (first.0.id(), second.0.id());
    // The kernel's own list has none of them.
    let kernels = fs::read_to_string("/proc/locks").unwrap();
    let is_there = |pid: u32| {
        kernels
            .split_whitespace()
            .any(|word| word == pid.to_string())
    };
    assert!(!is_there(pids.0) && !is_there(pids.1), "{kernels}");
    let text = succeed(hearth().args(["locks", "--files"]).arg(mounted.path()));
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0].join(" "),
        "COMMAND PID TYPE MODE START END BLOCKER PATH"
    );
    let (one, two) = (pids.0.to_string(), pids.1.to_string());
    let expected = ["flock", &two, "FLOCK", "WRITE*", "0", "EOF", &one, "/d/a"];
    assert_eq!(lines[1], expected);
    assert_eq!(
        lines[2],
        ["flock", &one, "FLOCK", "READ", "0", "EOF", "/d/a"]
    );
    drop(first);
    until("the second has it", || rows(&mounted).len() == 1);
    assert_eq!(rows(&mounted)[0]["state"], "held");
    drop(second);
    until("nobody has it", || rows(&mounted).is_empty());
}

#[test]
fn record_locks_are_listed_by_range_and_others_may_not_look() {
    let mounted = Mounted::new(Transport::Dev, "allow_other");
    fs::write(mounted.at("db"), [0; 100]).unwrap();
    let file = File::options()
        .read(true)
        .write(true)
        .open(mounted.at("db"))
        .unwrap();
    let lock = libc::flock {
        l_type: libc::F_WRLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 10,
        l_len: 20,
        l_pid: 0,
    };
    // SAFETY: the structure lives through the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) };
    assert_eq!(errno(done.into()), 0);
    fs::remove_file(mounted.at("db")).unwrap();
    let listed = rows(&mounted);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (&listed[0]["type"], &listed[0]["mode"]),
        (&"POSIX".into(), &"WRITE".into())
    );
    assert_eq!(
        (&listed[0]["start"], &listed[0]["end"]),
        (&10.into(), &29.into())
    );
    assert_eq!(
        (&listed[0]["pid"], &listed[0]["path"]),
        (&std::process::id().into(), &Value::Null)
    );
    let mut user = program("setpriv");
    user.args(["--reuid=1234", "--regid=1234", "--clear-groups"]);
    user.args([env!("CARGO_BIN_EXE_hearth"), "locks", "--files"]);
    let refused = said(user.arg(mounted.path()));
    assert!(
        refused.err.contains("only the owner of the mount and root"),
        "{refused:?}"
    );
}

#[test]
fn where_the_kernel_has_the_locks_that_is_said() {
    let below = Below::tmpfs();
    let host = Mounted::over(Transport::Dev, below.path(), "");
    let plain = Mounted::new(Transport::Dev, "no_flush");
    for (mounted, word) in [(&host, "directory of the host"), (&plain, "no_flush")] {
        let said = said(hearth().args(["locks", "--files"]).arg(mounted.path()));
        assert!(
            said.err.contains(word) && said.err.contains("lslocks"),
            "{said:?}"
        );
    }
    fs::write(host.at("f"), "x").unwrap();
    let held = Holder::flock(&host, "-x", "f");
    let pid = held.0.id().to_string();
    until("the kernel shows it", || {
        let locks = succeed(&mut shell(host.path(), "cat /proc/locks"));
        locks.split_whitespace().any(|word| word == pid)
    });
}

//! Room to work: descriptors, memory, waits.

use crate::case::Case;
use crate::harness::{
    Below, Mounted, Transport, hearth, program, refused, said, shell, succeed, until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A filesystem of FUSE below, whose server can be stopped.
struct Slow {
    server: Child,
}

impl Slow {
    fn on(place: &std::path::Path, source: &std::path::Path) -> Slow {
        let mut serve = Command::new("bindfs");
        serve.arg("-f").arg(source).arg(place).stdout(Stdio::null());
        let server = serve.spawn().expect("bindfs; cargo xtask test installs it");
        let mounted = || said(program("mountpoint").arg("-q").arg(place)).success();
        until("bindfs mounts", mounted);
        Slow { server }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.server);
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        let _ = self.server.wait();
    }
}

/// One filesystem that does not answer stops those who ask it and nobody else, as long as the
/// kernel has its name.
#[test]
fn hr67_a_filesystem_below_that_does_not_answer_stops_only_who_asks_it() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("slow")).unwrap();
    let source = below.outside("source");
    for number in 0..200 {
        fs::write(source.join(format!("{number}")), format!("{number}\n")).unwrap();
    }
    let slow = Slow::on(&below.at("slow"), &source);
    // Longer than a busy machine takes to come to what is asked below.
    let options = "entry_timeout=600,attr_timeout=600";
    let mounted = Mounted::over(Transport::Dev, below.path(), options);
    assert_eq!(mounted.shell("ls slow | wc -l"), "200\n");
    slow.signal(Signal::STOP);
    let readers: Vec<Child> = (0..200)
        .map(|number| {
            let mut cat = Command::new("cat");
            let file = mounted.at(format!("slow/{number}"));
            cat.arg(file).stdout(Stdio::piped());
            cat.spawn().unwrap()
        })
        .collect();
    let began = Instant::now();
    mounted.shell("ls; ls -f; touch f; mkdir d; mv f d/; cat d/f; rm -r d");
    succeed(hearth().arg("stats").arg(mounted.path()));
    let took = began.elapsed();
    slow.signal(Signal::CONT);
    for (number, reader) in readers.into_iter().enumerate() {
        let said = reader.wait_with_output().unwrap();
        assert_eq!(said.stdout, format!("{number}\n").as_bytes());
    }
    assert!(took < Duration::from_secs(30), "{took:?}");
    drop(slow);
}

#[test]
fn hr67_a_frozen_filesystem_below_stops_only_who_writes_to_it() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("frozen")).unwrap();
    let disk = Below::ext4();
    let mut bind = program("mount");
    succeed(bind.arg("--bind").arg(disk.path()).arg(below.at("frozen")));
    let case = Case::over(below);
    let mut script = shell(
        case.mounted.path(),
        "trap 'fsfreeze -u \"$DISK\"' EXIT; fsfreeze -f \"$DISK\"
         (echo late > frozen/f) & sleep 0.2; timeout 10 ls > /dev/null; timeout 10 touch quick
         fsfreeze -u \"$DISK\"; trap - EXIT; wait; cat frozen/f",
    );
    let said = succeed(script.env("DISK", disk.path()));
    assert_eq!(said, "late\n");
    until("unmounted", || {
        said_ok(program("umount").arg(case.below.at("frozen")))
    });
}

fn said_ok(command: &mut Command) -> bool {
    said(command).success()
}

/// 4,000 names in directories of 17, names only.
#[test]
fn hr66_a_walk_by_names_makes_few_inodes_and_the_daemon_forgets_them() {
    let below = Below::tmpfs();
    succeed(&mut shell(
        below.path(),
        "for d in $(seq 240); do mkdir $d; (cd $d; touch {1..16}); done",
    ));
    let case = Case::over(below);
    let memory = || {
        let status = format!("/proc/{}/status", case.mounted.daemon());
        let status = fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let text = line.unwrap().trim().trim_end_matches(" kB").to_owned();
        text.parse::<u64>().unwrap()
    };
    let walks = |count| {
        for _ in 0..count {
            fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
            case.mounted.shell("find . -ls > /dev/null");
        }
        memory()
    };
    // Threads that a busy machine makes it start have memory of their own from then on.
    let first = walks(4);
    let last = walks(6);
    assert!(
        last < first + 8192,
        "{first} KiB at first, {last} KiB at last"
    );
}

/// A process that is stopped, until this is dropped.
struct Frozen(Pid);

impl Frozen {
    /// Returns when no thread of it runs any more: one could still take a request.
    fn of(pid: u32) -> Frozen {
        let frozen = Frozen(Pid::from_raw(pid as i32).unwrap());
        kill_process(frozen.0, Signal::STOP).unwrap();
        let is_stopped = |task: std::io::Result<fs::DirEntry>| {
            let status = fs::read_to_string(task.unwrap().path().join("status"));
            status.is_ok_and(|status| status.contains("State:\tT"))
        };
        until("every thread is stopped", || {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            tasks.into_iter().all(is_stopped)
        });
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// As in a suspend, which freezes the daemon before its callers.
#[test]
fn hr69_callers_of_a_frozen_daemon_can_be_killed_and_an_unmount_says_what_is_wrong() {
    let case = Case::on(Below::tmpfs);
    fs::write(case.mounted.at("f"), "x").unwrap();
    std::thread::sleep(crate::case::WAIT);
    let frozen = Frozen::of(case.mounted.daemon());
    let mut cat = Command::new("cat")
        .arg(case.mounted.at("f"))
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    cat.kill().unwrap();
    let ended = || matches!(cat.try_wait(), Ok(Some(status)) if !status.success());
    until("the caller ends", ended);
    let began = Instant::now();
    let refusal = said(hearth().arg("umount").arg(case.mounted.path()));
    let took = began.elapsed();
    drop(frozen);
    refused("umount", &refusal, 1, &["does not answer", "--lazy"]);
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert_eq!(case.mounted.shell("cat f; touch g; ls"), "xf\ng\n");
}

/// Once, it waited for ever and showed nothing.
#[test]
fn hr69_a_verb_that_waits_for_a_frozen_daemon_says_so_and_goes_on_with_it() {
    let case = Case::on(Below::tmpfs);
    let frozen = Frozen::of(case.mounted.daemon());
    let verbs = [
        "stats",
        "info",
        "sync",
        "tune",
        "heat top",
        "quota report",
        "top --once",
        "sched",
        "dump",
    ];
    let asking = verbs.map(|verb| {
        let mut verb_of = hearth();
        verb_of.args(verb.split(' ')).arg(case.mounted.path());
        verb_of.stdout(Stdio::null()).stderr(Stdio::piped());
        (verb, verb_of.spawn().unwrap())
    });
    let mut waiting = asking.map(|(verb, mut child)| {
        let mut said = String::new();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        err.read_line(&mut said).unwrap();
        assert!(
            said.contains("does not answer: its daemon is stopped"),
            "{verb}: {said}"
        );
        (verb, child, err)
    });
    drop(frozen);
    for (verb, child, _err) in &mut waiting {
        until("the verb ends", || matches!(child.try_wait(), Ok(Some(_))));
        let is_refused = *verb == "dump" || *verb == "quota report";
        assert_eq!(child.wait().unwrap().success(), !is_refused, "{verb}");
    }
}

/// ext4 keeps a part of its blocks for root. Once, what was stored through a mapping got them.
#[test]
fn stores_through_a_mapping_take_nothing_of_the_reserve() {
    let below = Below::ext4();
    let mounted = Mounted::over(Transport::Dev, below.path(), "passthrough=off");
    let script = "
U() { setpriv --reuid 1000 --regid 1000 --clear-groups \"$@\"; }
install -d -o 1000 -g 1000 d; cd d
U sh -c 'size=512M; n=0
    for size in 512M 256M 128M 64M 32M 16M 8M 4M 1M 256K 64K 16K 4K 4K; do
        while fallocate -l $size f$n 2> /dev/null; do n=$((n + 1)); done; rm -f f$n
    done'
cat > store <<'P'
import mmap, os
f = os.open('stored', os.O_CREAT | os.O_RDWR)
os.ftruncate(f, 4 << 20)
m = mmap.mmap(f, 4 << 20)
m[:] = b'x' * len(m)
try: m.flush(); print('stored')
except OSError as e: print(e.strerror)
P
U /usr/bin/python3 store; stat -c %b stored; rm stored; /usr/bin/python3 store; stat -c %b stored";
    let said = mounted.shell(script);
    let lines: Vec<_> = said.lines().collect();
    let blocks = |line: usize| lines[line].parse::<u64>().unwrap();
    assert_eq!(lines[0], "No space left on device", "{said}");
    assert!(blocks(1) < 256, "{said}");
    assert_eq!(lines[2], "stored", "{said}");
    assert!(blocks(3) >= 8192, "{said}");
}

/// Takes all blocks that a user may have, and tries who may have more.
const FILL_AND_TRY: &str = "U() { setpriv --reuid 1000 --regid 1000 --clear-groups \"$@\"; }
install -d -o 1000 -g 1000 d; cd d
U sh -c 'n=0
    for size in 512M 256M 128M 64M 32M 16M 8M 4M 1M 256K 64K 16K 4K 4K; do
        while fallocate -l $size f$n 2> /dev/null; do n=$((n + 1)); done; rm -f f$n
    done'
try() { \"$@\" 2> /dev/null && echo yes || echo no; }
try U fallocate -l 1M none
try setpriv --reuid 1000 --regid 1000 --groups 5000 fallocate -l 1M group
[ \"$THROUGH\" ] || try setpriv --reuid 1000 --regid 1000 --groups 5000 \\
    dd if=/dev/zero of=more bs=1M count=1
cd ..; rm -r d";

/// Once, who may use the reserve by a group was refused it.
#[test]
fn the_reserve_is_for_the_group_that_it_is_for_below() {
    let below = Below::ext4();
    let mut remount = program("mount");
    succeed(
        remount
            .args(["-o", "remount,resgid=5000"])
            .arg(below.path()),
    );
    for options in ["", "passthrough=off"] {
        let mounted = Mounted::over(Transport::Dev, below.path(), options);
        // What is passed through has the rights of the open, which the kernel tells no groups of.
        let through = if options.is_empty() { "1" } else { "" };
        let script = format!("THROUGH={through}\n{FILL_AND_TRY}");
        let said = mounted.shell(&script);
        let more = if options.is_empty() { "" } else { "yes\n" };
        assert_eq!(said, format!("no\nyes\n{more}"), "{options}");
    }
}

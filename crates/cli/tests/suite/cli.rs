//! The command line: what is typed wrong changes nothing and is answered with one line.

use crate::harness;

use harness::{
    Mounted, Private, Transport, Turn, demand_root, hearth, mounts_below, pids_naming, program,
    refused, said, shell, state, succeed, until,
};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// What is typed in a directory with `m`, an empty directory, `full`, which is not, and `file`;
/// the status; words of the answer, which names the input and the remedy.
const WRONG: &[(&str, i32, &[&str])] = &[
    (
        "mount -o frobnicate memory: m",
        2,
        &["'frobnicate'", "hearth mount --help"],
    ),
    (
        "mount -o ro,frob=1 m",
        2,
        &["'frob'", "hearth mount --help"],
    ),
    (
        "mount -o size=lots m",
        2,
        &["'size=lots'", "at least 4096 bytes"],
    ),
    (
        "mount -o size=18446744073709551615 m",
        2,
        &["'size=18446744073709551615'", "less than 2^63"],
    ),
    (
        "quota set user:1 --hard x m",
        2,
        &["'x'", "see 'hearth quota set --help'"],
    ),
    (
        "sched limit user:1 --bw x m",
        2,
        &["'x'", "see 'hearth sched limit --help'"],
    ),
    (
        "metrics --timeout x m",
        2,
        &["'x'", "see 'hearth metrics --help'"],
    ),
    ("mount -o inodes=0 m", 2, &["'inodes=0'", "at least 1"]),
    (
        "mount -o transport=smoke m",
        2,
        &["'transport=smoke'", "auto, uring or dev"],
    ),
    (
        "mount -o attr_timeout=-1 m",
        2,
        &["'attr_timeout=-1'", "seconds"],
    ),
    (
        "mount -o errors=ignore m",
        2,
        &["'errors=ignore'", "remount-ro, continue or panic"],
    ),
    (
        "mount -f -o frobnicate m",
        2,
        &["'frobnicate'", "hearth mount --help"],
    ),
    ("mount -o", 2, &["--options", "--help"]),
    ("mount", 2, &["MOUNTPOINT", "--help"]),
    ("mount memory: m more", 2, &["'more'", "--help"]),
    ("mount --frob m", 2, &["'--frob'", "--help"]),
    ("mount bogus: m", 2, &["'bogus:'", "use 'memory:'"]),
    (
        "mount /no/such/directory m",
        1,
        &["/no/such/directory", "does not exist", "give a directory"],
    ),
    ("mount host: m", 2, &["'host:'", "use 'host:DIR'"]),
    (
        "mount s3://bucket/prefix m",
        2,
        &["'s3://bucket/prefix'", "use 'memory:'"],
    ),
    (
        "mount missing",
        1,
        &["missing", "does not exist", "mkdir -p missing"],
    ),
    (
        "mount file",
        1,
        &["file", "not a directory", "empty directory"],
    ),
    ("mount full", 1, &["full", "not empty", "empty directory"]),
    (
        "mount --log no/such/log m",
        1,
        &["no/such/log", "choose another"],
    ),
    ("umount", 2, &["MOUNTPOINT", "--help"]),
    (
        "umount m",
        1,
        &["m: nothing is mounted", "findmnt -t fuse.hearth"],
    ),
    (
        "umount missing",
        1,
        &["missing: nothing is mounted", "findmnt -t fuse.hearth"],
    ),
    (
        "umount /proc",
        1,
        &["/proc: is a mount of proc", "use 'umount /proc'"],
    ),
    ("stats m", 1, &["m: lies on ", "findmnt -t fuse.hearth"]),
    (
        "stats --json missing",
        1,
        &["missing: does not exist", "findmnt -t fuse.hearth"],
    ),
    ("locks m", 1, &["m: lies on ", "findmnt -t fuse.hearth"]),
    ("locks", 2, &["<MOUNT>", "--help"]),
    (
        "tune m",
        1,
        &[
            "m: lies on ",
            "not on a Hearth mount",
            "findmnt -t fuse.hearth",
        ],
    ),
    (
        "tune missing fs/atime=noatime",
        1,
        &["missing: does not exist", "findmnt -t fuse.hearth"],
    ),
    (
        "tune file fs/atime",
        1,
        &["file: lies on ", "findmnt -t fuse.hearth"],
    ),
    ("tune", 2, &["<MOUNTPOINT>", "--help"]),
    ("tune m --frob", 2, &["'--frob'", "--help"]),
    ("locks m --for 3x", 2, &["'3x'", "such as 10s", "--help"]),
    ("locks m --for 0s", 2, &["'0s'", "1ms to 24h", "--help"]),
    ("locks m --exact", 2, &["--for <TIME>", "--help"]),
    ("locks m --sort name", 2, &["'name'", "util", "--help"]),
    ("frobnicate", 2, &["'frobnicate'", "--help"]),
    ("completions tcsh", 2, &["'tcsh'", "bash", "--help"]),
    ("man file", 1, &["file: ", "give a directory"]),
];

#[test]
fn what_is_typed_wrong_is_answered_with_one_line_and_changes_nothing() {
    demand_root();
    let private = Private::new();
    private.directory("m");
    std::fs::write(private.directory("full").join("inside"), "x").unwrap();
    std::fs::write(private.path().join("file"), "x").unwrap();
    let before = state(private.path());
    for (typed, status, words) in WRONG {
        let mut command = hearth();
        command.args(typed.split(' ')).current_dir(private.path());
        refused(typed, &said(&mut command), *status, words);
        assert_eq!(state(private.path()), before, "{typed}");
    }
}

#[test]
fn a_mount_point_in_use_is_left_as_it_is() {
    let mounted = Mounted::new(Transport::Dev, "");
    std::fs::write(mounted.at("file"), "x").unwrap();
    let daemon = mounted.daemon();
    let place = mounted.path().to_str().unwrap().to_owned();
    let again = said(hearth().args(["mount", &place]));
    refused(
        "mount again",
        &again,
        1,
        &[&place, "already mounted", "hearth umount"],
    );
    let open = std::fs::File::open(mounted.at("file")).unwrap();
    let busy = said(hearth().args(["umount", &place]));
    refused(
        "umount in use",
        &busy,
        1,
        &[&place, "in use", "fuser -vm", "--lazy"],
    );
    assert_eq!(
        (mounted.daemon(), mounts_below(mounted.path()).len()),
        (daemon, 1)
    );
    assert_eq!(std::io::read_to_string(open).unwrap(), "x");
}

#[test]
fn mount_8_finds_its_helper() {
    demand_root();
    let private = Private::new();
    let (place, bin) = (private.directory("m"), private.directory("bin"));
    for helper in ["mount.hearth", "mount.fuse.hearth"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hearth"), bin.join(helper)).unwrap();
    }
    // In a mount namespace of its own the helpers are installed and fstab has a line.
    let script = r#"
        trap 'umount -l m 2> /dev/null || true' EXIT
        sbin=$(realpath /sbin)
        mount -t overlay -o "lowerdir=$PWD/bin:$sbin" overlay "$sbin"
        options=noauto,nofail,x-systemd.automount,size=1g,transport=dev
        echo "memory: $PWD/m hearth $options 0 0" > fstab
        mount -t hearth memory: m -o noatime,transport=dev
        echo text > m/file; cat m/file
        findmnt -n -o FSTYPE,OPTIONS m | grep -q 'fuse.hearth.*noatime'
        umount m
        mount -t fuse.hearth memory: m -o size=512m,transport=dev
        stat -f -c '%b %S' m | awk '{ print $1 * $2 }'
        umount m
        mount --fstab fstab "$PWD/m"
        stat -f -c '%b %S' m | awk '{ print $1 * $2 }'
        umount m
        echo "memory: $PWD/m hearth nofail,nodiratime,transport=dev 0 0" > fstab
        mount --fstab fstab --all
        mount --fstab fstab --all
        findmnt -n -o SOURCE m
        umount m
    "#;
    let mut namespace = program("unshare");
    namespace.args(["--mount", "bash", "-euo", "pipefail", "-c", script]);
    let out = succeed(namespace.current_dir(private.path()));
    let ours = out.lines().filter(|line| !line.starts_with("hearth: "));
    let wanted = ["text", "536870912", "1073741824", "memory"];
    assert_eq!(ours.collect::<Vec<_>>(), wanted, "{out}");
    until("the daemon ends", || pids_naming(&place).is_empty());
    let wrong = said(Command::new(bin.join("mount.hearth")).args(["memory:", "/m", "-q"]));
    refused(
        "mount.hearth -q",
        &wrong,
        2,
        &["'-q'", "mount.hearth takes"],
    );
}

#[test]
fn the_fastest_transport_that_is_switched_on_is_taken() {
    demand_root();
    for (turn, transport) in [(true, "uring"), (false, "dev")] {
        let private = Private::new();
        let place = private.directory("m");
        let before = state(private.path());
        let turn = if turn {
            Turn::with_uring()
        } else {
            Turn::without_uring()
        };
        let doctor = succeed(hearth().arg("doctor"));
        assert!(
            doctor.ends_with(&format!("can mount; transport {transport}\n")),
            "{doctor}"
        );
        let mut forced = hearth();
        forced.args(["mount", "-o", "transport=uring"]).arg(&place);
        if transport == "dev" {
            let words = [
                "transport=uring",
                "echo Y > /sys/module/fuse/parameters/enable_uring",
            ];
            refused("no io_uring", &said(&mut forced), 1, &words);
            assert_eq!(state(private.path()), before);
        }
        let said = succeed(hearth().arg("mount").arg(&place));
        assert!(
            said.ends_with(&format!(", transport {transport}\n")),
            "{said}"
        );
        drop(turn);
        succeed(hearth().arg("umount").arg(&place));
        until("the daemon ends", || pids_naming(&place).is_empty());
    }
}

/// Policies in a thread's `stat`.
const SCHED_OTHER: u32 = 0;
const SCHED_IDLE: u32 = 5;

/// The policy of each thread of the daemon.
fn policies(mounted: &Mounted) -> Vec<u32> {
    // Where it is among the fields of a thread's `stat` behind its name; proc(5).
    let of_thread = |stat: String| {
        let fields = &stat[stat.rfind(')').unwrap()..];
        fields.split(' ').nth(39).unwrap().parse::<u32>().unwrap()
    };
    let pids = pids_naming(mounted.path());
    let threads = pids
        .iter()
        .flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).unwrap());
    threads
        // A thread may end meanwhile.
        .filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).ok())
        .map(of_thread)
        .collect()
}

fn says_policy(mounted: &Mounted, word: &str) {
    let stats = std::fs::read_to_string(mounted.at(".hearth/stats")).unwrap();
    let info = format!("sched_policy=\"{word}\"");
    assert!(stats.contains(&info), "{stats}");
}

#[test]
fn a_daemon_is_scheduled_by_the_policy_that_was_asked_for_and_says_by_which() {
    demand_root();
    for (word, wanted) in [("idle", SCHED_IDLE), ("other", SCHED_OTHER)] {
        let mounted = Mounted::new(Transport::Dev, &format!("sched_policy={word}"));
        says_policy(&mounted, word);
        let policies = policies(&mounted);
        let all_have_it = policies.iter().all(|&own| own == wanted);
        assert!(policies.len() > 2 && all_have_it, "{word}: {policies:?}");
    }
}

#[test]
fn only_threads_that_answer_much_are_scheduled_as_idle_and_only_while_they_do() {
    demand_root();
    for transport in [Transport::Dev, Transport::Uring] {
        let mounted = Mounted::new(transport, "attr_timeout=0,entry_timeout=0");
        if std::thread::available_parallelism().unwrap().get() == 1 {
            return says_policy(&mounted, "other");
        }
        says_policy(&mounted, "auto");
        std::fs::write(mounted.at("file"), "x").unwrap();
        until("a thread is scheduled as idle", || {
            (0..20).any(|_| {
                for _ in 0..20 {
                    std::fs::metadata(mounted.at("file")).unwrap();
                }
                let policies = policies(&mounted);
                assert!(policies.contains(&SCHED_OTHER), "{policies:?}");
                policies.contains(&SCHED_IDLE)
            })
        });
        until("no thread is", || {
            policies(&mounted).iter().all(|&own| own == SCHED_OTHER)
        });
    }
}

#[test]
fn a_mount_in_the_foreground_ends_with_the_unmount() {
    demand_root();
    let private = Private::new();
    let place = private.directory("m");
    let mut mount = hearth();
    mount
        .args(["mount", "-f", "-o", "transport=dev"])
        .arg(&place);
    let mut daemon = mount.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(
        line,
        format!("hearth: memory: on {}, transport dev\n", place.display())
    );
    std::fs::write(place.join("file"), "x").unwrap();
    succeed(hearth().arg("umount").arg(&place));
    until("the daemon ends", || daemon.try_wait().unwrap().is_some());
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn what_version_doctor_and_stats_print_as_json_is_json() {
    let mounted = Mounted::new(Transport::Dev, "");
    let json = |args: &[&str]| -> serde_json::Value {
        let text = succeed(hearth().args(args).current_dir(mounted.path()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}\n{text}"))
    };
    assert_eq!(
        json(&["version", "--json"])["hearth"],
        env!("CARGO_PKG_VERSION")
    );
    let doctor = json(&["doctor", "--json"]);
    assert_eq!(doctor["can_mount"], true);
    for check in doctor["checks"].as_array().expect("a list") {
        assert!(
            check["name"].is_string() && check["finding"].is_string(),
            "{check}"
        );
        assert_eq!(
            check["remedy"].is_null(),
            check["status"] == "ok",
            "{check}"
        );
    }
    assert_eq!(
        json(&["stats", "--json", "."])["hearth_inodes"],
        mounted.stat("hearth_inodes")
    );
}

#[test]
fn statistics_are_watched_until_the_reader_has_enough() {
    let mounted = Mounted::new(Transport::Dev, "");
    let mut watch = hearth();
    watch
        .args(["stats", "--json", "--watch"])
        .arg(mounted.path());
    let mut watch = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut mkdirs = 0;
    for number in 0..3 {
        std::fs::create_dir(mounted.at(format!("dir{number}"))).unwrap();
        let line = lines.next().expect("another line").unwrap();
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        let counts = json["hearth_op_seconds_count"].as_array().expect("a list");
        let mkdir = counts.iter().find(|count| count["labels"]["op"] == "mkdir");
        mkdirs += mkdir.map_or(0, |count| count["value"].as_i64().expect("a number"));
    }
    // Each line has what is new since the one before; the first starts after the first directory.
    assert!((1..=3).contains(&mkdirs), "{mkdirs}");
    drop(lines);
    until("the end of the watch", || {
        watch.try_wait().unwrap().is_some()
    });
    assert!(watch.wait().unwrap().success());
}

#[test]
fn completions_and_manual_pages_are_made() {
    let private = Private::new();
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = succeed(hearth().args(["completions", name]));
        assert!(
            ["umount", "doctor", "stats", "locks", "tune"]
                .iter()
                .all(|verb| text.contains(verb)),
            "{name}"
        );
        std::fs::write(private.path().join(name), text).unwrap();
    }
    succeed(&mut shell(
        private.path(),
        "bash -n ./bash; source ./bash; complete -p hearth",
    ));
    let pages = private.path().join("new/man1");
    succeed(hearth().arg("man").arg(&pages));
    let verbs = [
        "",
        "-mount",
        "-umount",
        "-stats",
        "-locks",
        "-tune",
        "-mkfs",
        "-info",
        "-fsck",
        "-dump",
        "-load",
        "-passphrase",
        "-sync",
        "-doctor",
        "-completions",
        "-man",
        "-version",
    ];
    for verb in verbs {
        let page = std::fs::read_to_string(pages.join(format!("hearth{verb}.1"))).unwrap();
        assert!(
            page.contains(".TH") && page.contains(".SH SYNOPSIS"),
            "{verb}:\n{page}"
        );
    }
}

#[test]
fn help_and_version_are_answers() {
    for (typed, word) in [
        ("--help", "Usage: hearth"),
        ("mount --help", "[SOURCE] <MOUNTPOINT>"),
        ("help stats", "--watch"),
        ("help locks", "--for <TIME>"),
        ("--version", env!("CARGO_PKG_VERSION")),
        ("version", env!("CARGO_PKG_VERSION")),
    ] {
        let said = said(hearth().args(typed.split(' ')));
        assert!(said.success() && said.err.is_empty(), "{typed}: {said:?}");
        assert!(said.out.contains(word), "{typed}: {}", said.out);
        assert!(
            !said.out.contains('\x1b'),
            "colour is for terminals: {typed}"
        );
    }
}

/// `script` gives the program a terminal.
#[test]
fn colour_appears_on_a_terminal_unless_it_is_refused() {
    let hearth = env!("CARGO_BIN_EXE_hearth");
    let shown = |environment: &str, arguments: &str| {
        let typed = format!("{environment} {hearth} {arguments}");
        let mut script = program("script");
        succeed(script.args(["-qec", &typed, "/dev/null"]))
    };
    for (arguments, colour, word) in [
        ("doctor", "\x1b[32m", "/dev/fuse"),
        ("--help", "\x1b[1m", "doctor"),
        ("mount --help", "\x1b[1m", "--foreground"),
    ] {
        let plain = shown("NO_COLOR=1", arguments);
        let coloured = shown("env -u NO_COLOR", arguments);
        assert!(coloured.contains(colour), "{arguments}: {coloured:?}");
        assert!(!plain.contains('\x1b'), "{arguments}: {plain:?}");
        assert!(plain.contains(word), "{arguments}: {plain}");
    }
}

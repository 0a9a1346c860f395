//! `hearth metrics`: what is printed and served, and what is refused.

use crate::harness;

mod alerts;
mod board;
mod covered;
mod prometheus;
mod server;
mod worker;

use harness::{Mounted, Private, Said, Transport, hearth, refused, said, succeed, tool, until};
use server::{Server, get};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USER: &str = "1234";

harness::on_both_transports!(
    what_mounts_do_is_printed_as_prometheus_wants_it,
    a_mount_that_does_not_answer_is_down_and_holds_nobody_up,
);

/// Runs `hearth metrics`.
fn metrics(typed: &[&str]) -> Said {
    said(hearth().arg("metrics").args(typed))
}

/// Has to work; what it printed.
fn page_of(typed: &[&str]) -> String {
    succeed(hearth().arg("metrics").args(typed))
}

/// The value of the sample that begins like this.
fn value(page: &str, sample: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(sample));
    let value = lines.filter_map(|rest| rest.strip_prefix(' ')).next();
    let value = value.unwrap_or_else(|| panic!("no {sample} in\n{page}"));
    value.parse().expect("a number")
}

fn typed(mounted: &Mounted) -> &str {
    mounted.path().to_str().unwrap()
}

/// A sample of a mount without other labels.
fn of(name: &str, mounted: &Mounted) -> String {
    format!("{name}{{mount=\"{}\"}}", mounted.path().display())
}

/// What promtool thinks of it: nothing, if all is well.
fn linted(page: &str) -> Said {
    let private = Private::new();
    let file = private.path().join("page");
    std::fs::write(&file, page).unwrap();
    let input = Stdio::from(std::fs::File::open(&file).unwrap());
    said(
        Command::new(tool("promtool"))
            .args(["check", "metrics"])
            .stdin(input),
    )
}

fn what_mounts_do_is_printed_as_prometheus_wants_it(transport: Transport) {
    let memory = Mounted::new(transport, "quota,hot_track");
    let below = memory.outside("below");
    let host = Mounted::over(transport, &below, "");
    let set = format!("hearth quota set user:{USER} --soft 4KiB --hard 1MiB");
    let hearth_program = hearth();
    let program = hearth_program.get_program().to_str().unwrap();
    memory.shell(&format!("{} .", set.replace("hearth", program)));
    for mounted in [&memory, &host] {
        mounted.shell("mkdir d; echo text > d/f; cat d/f; ! cat d/none 2>&1");
    }
    memory.shell(&format!(
        "chmod 777 .; setpriv --reuid {USER} --clear-groups dd if=/dev/zero of=mine bs=8K count=1"
    ));
    memory.shell("echo exact > .hearth/locks; touch a b c");

    let page = page_of(&[typed(&memory), typed(&host)]);
    for mounted in [&memory, &host] {
        assert_eq!(value(&page, &of("hearth_up", mounted)), 1.0);
        let mount = mounted.path().display();
        let opens = format!("hearth_op_seconds_count{{mount=\"{mount}\",op=\"lookup\"}}");
        assert!(value(&page, &opens) > 0.0, "{page}");
        let root = format!("mount=\"{mount}\",tenant=\"user:0\",name=\"user:root\"");
        assert!(value(&page, &format!("hearth_tenant_requests_total{{{root}}}")) > 0.0);
        assert!(value(&page, &of("hearth_filesystem_size_bytes", mounted)) > 0.0);
    }
    let mount = memory.path().display();
    let user =
        format!("mount=\"{mount}\",kind=\"user\",tenant=\"user:{USER}\",name=\"user:{USER}\"");
    assert_eq!(
        value(&page, &format!("hearth_quota_used_bytes{{{user}}}")),
        8192.0
    );
    assert_eq!(
        value(&page, &format!("hearth_quota_soft_limit_bytes{{{user}}}")),
        4096.0
    );
    let root = format!("mount=\"{mount}\",kind=\"user\",tenant=\"user:0\",name=\"user:root\"");
    let heat = format!("hearth_heat_tenant_temperature_ratio{{{root}}}");
    assert!((0.0..=1.0).contains(&value(&page, &heat)), "{page}");
    assert!(
        value(
            &page,
            &format!("hearth_heat_tenant_writes_per_second{{{root}}}")
        ) > 0.0
    );
    let above = format!("hearth_quota_tenants_above_soft{{mount=\"{mount}\",kind=\"user\"}}");
    assert_eq!(value(&page, &above), 1.0);
    assert!(page.contains("hearth_lock_profile_waits_total{"), "{page}");
    assert_eq!(value(&page, "hearth_mounts"), 2.0);

    let linted = linted(&page);
    assert!(
        linted.success() && linted.err.is_empty(),
        "{linted:?}\n{page}"
    );
    documented(&page);
}

/// Every metric has its row on the page for users.
fn documented(page: &str) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = names.filter_map(|rest| rest.split(' ').next()).collect();
    assert!(names.len() > 50, "{names:?}");
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !docs.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
}

#[test]
fn names_that_prometheus_would_not_take_are_found() {
    for bad in ["# TYPE a_total gauge\na_total 1\n", "a{b=1} 2\n"] {
        assert!(!linted(bad).success(), "{bad}");
    }
}

#[test]
fn at_most_so_many_tenants_have_numbers_of_their_own() {
    let mounted = Mounted::new(Transport::Dev, "quota");
    mounted.shell("chmod 777 .");
    for uid in 2001..2009 {
        let touch = format!("setpriv --reuid {uid} --clear-groups touch f{uid}");
        mounted.shell(&touch);
    }
    let page = page_of(&[typed(&mounted), "--tenants", "3"]);
    let tenants = |name: &str| {
        let lines = page
            .lines()
            .filter(|line| line.starts_with(&format!("{name}{{")));
        let tenant = |line: &str| {
            line.split("tenant=\"")
                .nth(1)?
                .split('"')
                .next()
                .map(str::to_owned)
        };
        lines.filter_map(tenant).collect::<Vec<_>>()
    };
    let requests = tenants("hearth_tenant_requests_total");
    assert_eq!(requests.len(), 4, "{page}");
    assert_eq!(requests.last().unwrap(), "other");
    let groups = tenants("hearth_quota_used_inodes");
    assert_eq!(
        groups
            .iter()
            .filter(|tenant| tenant.starts_with("user:"))
            .count(),
        3,
        "{page}"
    );
    assert!(value(&page, &of("hearth_tenants", &mounted)) >= 9.0);
}

fn a_mount_that_does_not_answer_is_down_and_holds_nobody_up(transport: Transport) {
    let (well, stopped) = (Mounted::new(transport, ""), Mounted::new(transport, ""));
    let killed = Mounted::new(transport, "");
    killed.kill();
    let gone = well.outside("gone");
    // The server's command line has the place as well.
    let daemon = stopped.daemon().to_string();
    let server = Server::start(&[
        typed(&well),
        typed(&stopped),
        typed(&killed),
        gone.to_str().unwrap(),
        "--timeout",
        "1s",
        "--listen",
        "127.0.0.1:0",
    ]);
    let up = |mounted: &Mounted| value(&server.page(), &of("hearth_up", mounted));
    until("all that can answer do", || {
        up(&well) == 1.0 && up(&stopped) == 1.0
    });
    assert_eq!(up(&killed), 0.0);
    let page = server.page();
    let missing = format!("hearth_up{{mount=\"{}\"}}", gone.display());
    assert_eq!(value(&page, &missing), 0.0, "{page}");

    succeed(Command::new("kill").args(["-STOP", &daemon]));
    let begin = Instant::now();
    until("the stopped one is down", || {
        up(&stopped) == 0.0 && up(&well) == 1.0
    });
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    // Whoever prints once is not held up either, also not at the end of the program.
    let begin = Instant::now();
    let once = page_of(&[typed(&stopped), "--timeout", "500ms"]);
    assert_eq!(value(&once, &of("hearth_up", &stopped)), 0.0);
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    let another = Server::start(&[typed(&stopped), "--listen", "127.0.0.1:0"]);
    assert_eq!(value(&another.page(), &of("hearth_up", &stopped)), 0.0);
    let place = another.place().to_owned();
    another.end();
    Server::start(&["--listen", &place]).end();
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "{:?}",
        begin.elapsed()
    );
    // One thread waits for it, however often it is asked.
    let threads = |server: &Server| {
        let tasks = |pid: u32| {
            std::fs::read_dir(format!("/proc/{pid}/task"))
                .unwrap()
                .count()
        };
        tasks(server.pid()) + tasks(server.worker())
    };
    let before = threads(&server);
    for _ in 0..5 {
        assert_eq!(up(&stopped), 0.0);
    }
    until("threads of connections have ended", || {
        threads(&server) <= before
    });
    succeed(Command::new("kill").args(["-CONT", &daemon]));
    until("it is up again", || up(&stopped) == 1.0);
}

#[test]
fn another_user_sees_open_mounts_without_the_quotas_of_others() {
    let mounted = Mounted::new(Transport::Dev, "quota");
    let mut user = harness::program("setpriv");
    user.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]);
    user.arg(hearth().get_program()).arg("metrics");
    let page = succeed(user.arg(typed(&mounted)));
    assert_eq!(value(&page, &of("hearth_up", &mounted)), 1.0);
    assert_eq!(value(&page, "hearth_mounts_denied"), 0.0);
    assert!(!page.contains("hearth_quota_"), "{page}");
}

#[test]
fn a_mount_that_this_user_may_not_look_into_is_counted() {
    harness::demand_root();
    let private = Private::new();
    succeed(
        harness::program("chown")
            .arg("daemon:daemon")
            .arg(private.directory("m")),
    );
    let device = "mknod -m 666 /dev/fuse c 10 229";
    let typed = "as_user='setpriv --reuid daemon --regid daemon --clear-groups env HOME=/nowhere'
        $as_user \"$HEARTH\" mount m -o transport=dev > /dev/null
        \"$HEARTH\" metrics m
        $as_user \"$HEARTH\" metrics m | grep -c hearth_quota_used_bytes
        $as_user \"$HEARTH\" umount m";
    let out = succeed(&mut harness::with_devices(&private, device, typed));
    assert_eq!(value(&out, "hearth_mounts_denied"), 1.0);
    assert_eq!(value(&out, "hearth_mounts"), 1.0);
    assert!(!out.contains("hearth_up"), "{out}");
    // Whoever mounted it sees all.
    let lines = out.lines().last().unwrap().parse::<u32>();
    assert!(lines.is_ok_and(|lines| lines > 0), "{out}");
}

#[test]
fn what_was_asked_is_answered_over_both_kinds_of_socket() {
    let mounted = Mounted::new(Transport::Dev, "");
    let socket = mounted.outside("run").join("metrics.sock");
    let place = format!("unix:{}", socket.display());
    for place in [&*place, "127.0.0.1:0"] {
        let server = Server::start(&[typed(&mounted), "--listen", place]);
        let whole = get(server.place(), "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
        assert!(whole.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
        assert!(whole.contains(&of("hearth_up", &mounted)), "{whole}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "200 "),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200 "),
            ("GET /other HTTP/1.1\r\n\r\n", "404 "),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 "),
            ("nonsense\r\n\r\n", "400 "),
        ] {
            let reply = get(server.place(), request);
            assert!(
                reply.starts_with(&format!("HTTP/1.1 {status}")),
                "{request}: {reply}"
            );
        }
        let head = get(server.place(), "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            head.ends_with("\r\n\r\n") && head.contains("Content-Length: "),
            "{head}"
        );
        // Whoever looks into mounts may be killed, and another comes.
        let worker = server.worker();
        succeed(Command::new("kill").args(["-KILL", &worker.to_string()]));
        assert!(server.page().contains(&of("hearth_up", &mounted)));
        // Many at once are one scrape after another, and all get a whole page.
        std::thread::scope(|scope| {
            let ask = || {
                let page = server.page();
                assert!(page.contains(&of("hearth_up", &mounted)), "{page}");
            };
            let asking: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().for_each(|one| one.join().unwrap());
        });
        server.end();
    }
    assert!(!socket.exists(), "the socket is removed at the end");
}

#[test]
fn a_socket_that_a_killed_server_left_is_taken_over_and_a_living_one_is_not() {
    let private = Private::new();
    let socket = private.path().join("s");
    let place = format!("unix:{}", socket.display());
    let listen = ["--listen", &*place];
    let first = Server::start(&listen);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&socket).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o660);
    refused(
        "a living one",
        &metrics(&listen),
        1,
        &[socket.to_str().unwrap(), "another path"],
    );
    first.kill();
    assert!(socket.exists());
    let second = Server::start(&listen);
    assert!(second.page().contains("hearth_mounts "));
    // A server whose file was taken away leaves the successor's alone.
    std::fs::remove_file(&socket).unwrap();
    let third = Server::start(&listen);
    second.end();
    assert!(third.page().contains("hearth_mounts "));
    third.end();
    assert!(!socket.exists());
}

#[test]
fn a_place_that_is_not_mounted_counts_as_down_beside_one_that_is() {
    let mounted = Mounted::new(Transport::Dev, "");
    let none = mounted.outside("none");
    let page = page_of(&[typed(&mounted), none.to_str().unwrap()]);
    assert_eq!(value(&page, &of("hearth_up", &mounted)), 1.0);
    let down = format!("hearth_up{{mount=\"{}\"}}", none.display());
    assert_eq!(value(&page, &down), 0.0);
    assert_eq!(value(&page, "hearth_mounts"), 1.0);
}

#[test]
fn places_that_cannot_be_are_named_with_the_remedy() {
    let private = Private::new();
    let file = private.path().join("file");
    std::fs::write(&file, "").unwrap();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().unwrap().to_string();
    let at = |name: &str| format!("unix:{}/{name}", private.path().display());
    let (taken, nowhere, long) = (at("file"), at("none/s"), at(&"x".repeat(120)));
    let server = Server::start(&["--listen", "127.0.0.1:0"]);
    let ours = server.place().to_owned();
    for (place, status, words) in [
        (&*taken, 1, ["file", "no socket"]),
        (&nowhere, 1, ["none", "mkdir -p"]),
        (&long, 1, ["too long", "107"]),
        (&ours, 1, ["another program", "another port"]),
        ("0.0.0.0:1", 2, ["--listen", "proxy"]),
        ("9749", 2, ["--listen", "127.0.0.1:PORT"]),
        ("unix:", 2, ["--listen", "path"]),
        (
            &busy.replace("127.0.0.1", "localhost"),
            2,
            ["localhost", "127.0.0.1:PORT"],
        ),
    ] {
        refused(place, &metrics(&["--listen", place]), status, &words);
    }
    assert!(file.is_file());
    refused(
        "no time",
        &metrics(&["--timeout", "soon"]),
        2,
        &["--timeout", "soon"],
    );
}

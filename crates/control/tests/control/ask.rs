//! `.hearth/ask` from inside: one question a write, its answer on the same open file.

use crate::fixture::{root, volume};
use hearth::{Credentials, Errno, Process, TenantId};

const PATH: &str = "/.hearth/ask";

fn asked(process: &Process, question: &str) -> (Result<usize, Errno>, String) {
    let fd = process.open(PATH, libc::O_RDWR, 0).unwrap();
    let said = process.write(fd, question.as_bytes());
    let mut text = vec![0; 1 << 16];
    let len = process.read(fd, &mut text).unwrap();
    text.truncate(len);
    process.close(fd).unwrap();
    (said, String::from_utf8(text).unwrap())
}

#[test]
fn an_answer_is_read_where_its_command_ended() {
    let volume = volume();
    for who in [Credentials::root(), Credentials::user(1000, 1000)] {
        let process = volume.process(who);
        let (said, text) = asked(&process, "help\n");
        assert_eq!(said, Ok(5));
        assert!(text.lines().any(|line| line.starts_with("help ")), "{text}");
    }
}

#[test]
fn an_unknown_command_fails_with_a_reason_and_the_next_one_works() {
    let process = root();
    let (said, text) = asked(&process, "how are you");
    assert_eq!(said, Err(Errno::EINVAL));
    assert_eq!(text, "'how are you' is no question; ask 'help'\n");
    assert_eq!(asked(&process, "").0, Err(Errno::EINVAL));
    assert_eq!(asked(&process, "help").0, Ok(4));
}

/// A command is copied for the thread that runs it, for as many callers as there are. It once could
/// have any length.
#[test]
fn a_command_has_at_most_65536_bytes() {
    let process = root();
    let long = |bytes: usize| format!("help{}", " ".repeat(bytes - 4));
    assert_eq!(asked(&process, &long(65_536)).0, Ok(65_536));
    let (said, text) = asked(&process, &long(65_537));
    assert_eq!(said, Err(Errno::E2BIG));
    assert_eq!(
        text,
        "more than 65536 bytes in one command; write several\n"
    );
    assert_eq!(asked(&process, "help").0, Ok(4));
}

/// Everybody may ask, and an open file keeps its answer. It once kept megabytes of one that nobody
/// read, for any number of files.
#[test]
fn the_answers_that_a_user_holds_have_a_bound_until_they_are_read() {
    let volume = volume();
    let both = [Credentials::root(), Credentials::user(1000, 1000)];
    let [root, user] = both.map(|who| volume.process(who));
    let fd = root
        .open("/f", libc::O_CREAT | libc::O_RDWR, 0o644)
        .unwrap();
    root.ftruncate(fd, (1 << 63) - 4097).unwrap();
    root.fchown(fd, Some(1000), Some(1000)).unwrap();
    let ino = root.fstat(fd).unwrap().ino;
    let refused = (
        Err(Errno::EINVAL),
        "'1048576' is not 1 to 4096 cells\n".to_owned(),
    );
    for question in [
        format!("heat info {ino} 1048576"),
        "heat map 1 1048576".to_owned(),
    ] {
        assert_eq!(asked(&root, &question), refused, "{question}");
    }
    let question = format!("heat info {ino} 4096");
    let ask = |process: &Process, fd| process.write(fd, question.as_bytes());
    let opened = |process: &Process| process.open(PATH, libc::O_RDWR, 0).unwrap();
    let mut held = Vec::new();
    let last = loop {
        let fd = opened(&user);
        match ask(&user, fd) {
            Ok(_) => held.push(fd),
            Err(errno) => break (errno, fd),
        }
        assert!(held.len() < 2_000, "answers without a bound");
    };
    assert_eq!(last.0, Errno::ENOBUFS);
    let mut text = vec![0; 1 << 16];
    let len = user.read(last.1, &mut text).unwrap();
    let reason = String::from_utf8_lossy(&text[..len]);
    assert!(
        reason.contains("read those that were asked for to their end"),
        "{reason}"
    );
    // They are the user's own.
    assert!(ask(&root, opened(&root)).is_ok());
    let mut read = |fd| user.read(fd, &mut text).unwrap();
    let mut of_all = 0;
    for fd in &held {
        of_all += read(*fd);
        assert_eq!(read(*fd), 0, "the end");
    }
    assert!((14 << 20..=16 << 20).contains(&of_all), "{of_all}");
    // All are still open.
    for _ in 0..held.len() / 2 {
        assert!(ask(&user, opened(&user)).is_ok());
    }
}

/// What is asked is asked with the rights of who has opened the file as well: a program of root
/// that prints what it is told may be led to print it there.
#[test]
fn root_commands_nothing_by_a_file_that_a_user_has_opened() {
    let volume = volume();
    let user = Credentials::user(1000, 1000);
    let limit = "quota set user:1000 bytes-hard=4096";
    let lift = "quota set user:1000 bytes-hard=none";
    let process = volume.process(Credentials::root());
    for limit in [limit, "quota set user:1001 bytes-hard=4096"] {
        assert!(asked(&process, limit).0.is_ok());
    }
    process.set_credentials(user.clone());
    let fd = process.open(PATH, libc::O_RDWR, 0).unwrap();
    process.set_credentials(Credentials::root());
    for command in [
        lift,
        "quota report",
        "sched limit user:1000 bw=1",
        "heat map 1 1",
    ] {
        let said = process.write(fd, command.as_bytes());
        let mut text = [0; 4096];
        let len = process.read(fd, &mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..len]);
        match command {
            // Everybody sees their own.
            "quota report" => {
                let is_own = text.contains("\"id\":1000,") && !text.contains("\"id\":1001,");
                assert!(said.is_ok() && is_own, "{said:?} {text}");
            }
            _ => assert!(
                matches!(said, Err(Errno::EPERM | Errno::EACCES)),
                "{said:?} {text}"
            ),
        }
    }
    process.set_credentials(user);
    let own = process.open(PATH, libc::O_RDWR, 0).unwrap();
    assert_eq!(process.write(own, lift.as_bytes()), Err(Errno::EPERM));
    // Nor does a user by a file that root has opened.
    process.set_credentials(Credentials::root());
    let of_root = process.open(PATH, libc::O_RDWR, 0).unwrap();
    assert!(process.write(of_root, lift.as_bytes()).is_ok());
    process.set_credentials(Credentials::user(1000, 1000));
    assert_eq!(process.write(of_root, limit.as_bytes()), Err(Errno::EPERM));
}

#[test]
fn a_reason_is_one_line_of_printable_text_whatever_was_asked() {
    let process = root();
    let long = "x".repeat(1 << 16);
    let questions: [&[u8]; 4] = [
        b"nonsense\nquota get",
        b"non\x1b[31msense",
        b"quota \xff\xfe",
        long.as_bytes(),
    ];
    for question in questions {
        let fd = process.open(PATH, libc::O_RDWR, 0).unwrap();
        assert_eq!(process.write(fd, question), Err(Errno::EINVAL));
        let mut text = vec![0; 1 << 16];
        let len = process.read(fd, &mut text).unwrap();
        let text = std::str::from_utf8(&text[..len]).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert!((1..5000).contains(&line.len()), "{}", line.len());
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(!line.contains("Write a question"), "the hint: {line}");
    }
}

#[test]
fn open_files_do_not_read_each_others_answers() {
    let process = root();
    let [one, other] = [(); 2].map(|()| process.open(PATH, libc::O_RDWR, 0).unwrap());
    assert_eq!(process.write(one, b"nonsense"), Err(Errno::EINVAL));
    assert_eq!(process.write(other, b"help"), Ok(4));
    let mut text = [0; 11];
    process.pread(one, &mut text, 0).unwrap();
    assert_eq!(&text, b"'nonsense' ");
    assert_eq!(process.pread(other, &mut text, 0), Err(Errno::EINVAL));
    // The same question twice is asked twice.
    assert_eq!(process.write(other, b"help"), Ok(4));
    assert_eq!(process.write(one, &[0xff, 0xfe]), Err(Errno::EINVAL));
}

/// It waits for those who look at the tree meanwhile, and once waited for itself.
#[test]
fn a_tree_becomes_a_project_by_a_command() {
    let process = root();
    process.mkdir("/p", 0o755).unwrap();
    process.mkdir("/p/below", 0o755).unwrap();
    let ino = process.stat("/p").unwrap().ino;
    let (said, text) = asked(&process, &format!("quota project {ino} 7"));
    assert!(
        said.is_ok() && text.starts_with("{\"changed\":2,"),
        "{said:?} {text}"
    );
}

/// Everybody may ask, and a tenant that is made stays for ever.
#[test]
fn a_tenant_is_not_created_by_a_query_or_a_refused_command() {
    let volume = volume();
    let both = [Credentials::root(), Credentials::user(1000, 1000)];
    let [root, user] = both.map(|who| volume.process(who));
    let known = || volume.scheduler().known_tenant(TenantId::User(5).number());
    let (said, text) = asked(&user, "sched get user:5");
    assert!(said.is_ok(), "{text}");
    for field in [
        "\"weight\":100",
        "\"requests\":0",
        "\"iops\":null,\"bw\":null",
    ] {
        assert!(text.contains(field), "{text}");
    }
    for (process, refused) in [
        (&root, "sched weight user:5 0"),
        (&root, "sched weight user:5 10001"),
        (&root, "sched limit user:5 iops=0"),
        (&root, "sched limit user:5 iops=10 bw=0"),
        (&user, "sched weight user:5 7"),
        (&user, "sched limit user:5 bw=1"),
    ] {
        let (said, text) = asked(process, refused);
        assert!(said.is_err(), "{refused}: {text}");
    }
    assert_eq!(known(), None);
    assert!(asked(&root, "sched limit user:5 bw=1").0.is_ok());
    assert!(known().is_some());
}

#[test]
fn the_report_lists_tenants_that_did_something_or_have_settings() {
    let volume = volume();
    let root = volume.process(Credentials::root());
    let listed = || {
        let text = asked(&root, "sched report").1;
        text.matches("\"tenant\":\"user:").count()
    };
    for id in 0..1000 {
        volume.scheduler().tenant(TenantId::User(id).number());
    }
    assert_eq!(listed(), 0);
    for (setting, tenants) in [
        ("sched weight user:1 7", 1),
        ("sched limit user:2 bw=1", 2),
        ("sched limit user:2 bw=none", 1),
        ("sched weight user:1 100", 0),
    ] {
        assert!(asked(&root, setting).0.is_ok());
        assert_eq!(listed(), tenants, "{setting}");
    }
}

#[test]
fn two_threads_that_set_one_ceiling_each_do_not_undo_each_other() {
    let volume = volume();
    std::thread::scope(|scope| {
        for (what, end) in [("iops", ','), ("bw", '}')] {
            let process = volume.process(Credentials::root());
            scope.spawn(move || {
                for limit in 1..=2_000 {
                    let (said, text) =
                        asked(&process, &format!("sched limit user:5 {what}={limit}"));
                    let field = format!("\"{what}\":{limit}{end}");
                    assert!(said.is_ok() && text.contains(&field), "{field}: {text}");
                }
            });
        }
    });
}

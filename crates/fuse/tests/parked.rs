//! Requests that lack something, on a real mount: they wait for the backend, and nobody waits for
//! them.

#![allow(clippy::unwrap_used)]

mod harness;

use hearth_testing::threads::SetOnDrop;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const FILES: usize = 16;

mod dev {
    #[test]
    fn a_core_goes_on_while_the_backend_takes_its_time() {
        super::a_core_goes_on_while_the_backend_takes_its_time("transport=dev");
    }

    #[test]
    fn what_the_backend_answers_is_answered() {
        super::what_the_backend_answers_is_answered("transport=dev");
    }

    #[test]
    fn a_copy_that_the_backend_stops_says_how_far_it_came() {
        super::a_copy_that_the_backend_stops_says_how_far_it_came("transport=dev");
    }

    #[test]
    fn a_backend_that_panics_costs_the_request_that_asked_it() {
        super::a_backend_that_panics_costs_the_request_that_asked_it("transport=dev");
    }

    #[test]
    fn what_a_panic_keeps_from_being_written_back_is_told_as_lost() {
        super::what_a_panic_keeps_from_being_written_back_is_told_as_lost("transport=dev");
    }

    #[test]
    fn everything_works_while_everything_is_forgotten() {
        super::everything_works_while_everything_is_forgotten("transport=dev");
    }

    #[test]
    fn a_mount_needs_no_worker() {
        super::a_mount_needs_no_worker("transport=dev");
    }
}

mod uring {
    #[test]
    fn a_core_goes_on_while_the_backend_takes_its_time() {
        super::a_core_goes_on_while_the_backend_takes_its_time("transport=uring");
    }

    #[test]
    fn what_the_backend_answers_is_answered() {
        super::what_the_backend_answers_is_answered("transport=uring");
    }

    #[test]
    fn a_copy_that_the_backend_stops_says_how_far_it_came() {
        super::a_copy_that_the_backend_stops_says_how_far_it_came("transport=uring");
    }

    #[test]
    fn a_backend_that_panics_costs_the_request_that_asked_it() {
        super::a_backend_that_panics_costs_the_request_that_asked_it("transport=uring");
    }

    #[test]
    fn what_a_panic_keeps_from_being_written_back_is_told_as_lost() {
        super::what_a_panic_keeps_from_being_written_back_is_told_as_lost("transport=uring");
    }

    #[test]
    fn everything_works_while_everything_is_forgotten() {
        super::everything_works_while_everything_is_forgotten("transport=uring");
    }

    #[test]
    fn a_mount_needs_no_worker() {
        super::a_mount_needs_no_worker("transport=uring");
    }
}

/// Keeps the calling thread, and those it will start, on CPU 0.
fn stay_on_one_cpu() {
    // SAFETY: an all-zero set is empty, CPU 0 fits, and the size is right.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn statfs(path: &Path) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a C string, and room for the answer.
    let answer = unsafe { libc::statvfs(path.as_ptr(), &mut std::mem::zeroed()) };
    assert_eq!(answer, 0);
}

fn a_core_goes_on_while_the_backend_takes_its_time(transport: &str) {
    const DELAY: Duration = Duration::from_millis(300);
    let mut mounted = harness::Mounted::start_slow(&format!("{transport},direct_io"));
    for file in 0..FILES {
        mounted.command(&format!("write /{file} text-{file}"));
    }
    mounted.command("evict");
    mounted.command(&format!("delay {}", DELAY.as_millis()));
    let path = mounted.path().to_owned();
    let (reading, meanwhile) = (AtomicUsize::new(FILES), AtomicUsize::new(0));
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            stay_on_one_cpu();
            for file in 0..FILES {
                let (path, reading) = (&path, &reading);
                scope.spawn(move || {
                    let text = fs::read_to_string(path.join(file.to_string()));
                    reading.fetch_sub(1, SeqCst);
                    assert_eq!(text.unwrap(), format!("text-{file}"));
                });
            }
            while reading.load(SeqCst) > 0 {
                statfs(&path);
                meanwhile.fetch_add(1, SeqCst);
                thread::sleep(Duration::from_millis(2));
            }
        });
    });
    // Entry, inode and page of each are asked for, one after the other.
    let took = begin.elapsed();
    assert!(took >= 2 * DELAY, "{took:?}: the backend was not asked");
    assert!(took < DELAY * FILES as u32, "{took:?}: one at a time");
    let meanwhile = meanwhile.into_inner();
    assert!(meanwhile >= 20, "{meanwhile} other requests in {took:?}");
}

/// Once, the error of the backend was answered though much had been copied.
fn a_copy_that_the_backend_stops_says_how_far_it_came(transport: &str) {
    const HALF: usize = 2 << 20;
    let mut mounted = harness::Mounted::start_slow(&format!("{transport},direct_io"));
    let path = mounted.path().join("from");
    fs::write(&path, vec![7; 2 * HALF]).unwrap();
    let from = fs::File::open(&path).unwrap();
    let to = fs::File::create(mounted.path().join("to")).unwrap();
    mounted.command("evict");
    from.read_exact_at(&mut vec![0; HALF], 0).unwrap();
    mounted.command("fail load_pages");
    let mut at = 0;
    let mut copy = || {
        // SAFETY: both offsets live through the call.
        let copied = unsafe {
            let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
            libc::copy_file_range(from, &raw mut at, to, std::ptr::null_mut(), 2 * HALF, 0)
        };
        match copied {
            0.. => Ok(copied as usize),
            _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        }
    };
    let mut copied = 0;
    let error = loop {
        match copy() {
            Ok(more) => copied += more,
            Err(errno) => break errno,
        }
        assert!(copied <= 2 * HALF);
    };
    assert_eq!(error, libc::EIO);
    assert!(copied >= HALF, "{copied} bytes");
    assert_eq!(to.metadata().unwrap().len(), copied as u64);
}

fn what_the_backend_answers_is_answered(transport: &str) {
    let mut mounted = harness::Mounted::start_slow(&format!("{transport},direct_io"));
    mounted.command("write /file text");
    mounted.command("evict");
    mounted.command("fail load_entry");
    let path = mounted.path().join("file");
    let error = fs::read(&path).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    mounted.command("fail load_pages");
    let file = fs::File::open(&path).unwrap();
    let error = file.read_at(&mut [0; 4], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    mounted.command("fail nothing");
    let mut text = [0; 4];
    file.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"text");
}

/// More often than there are threads that load: each that panicked is there for the next.
fn a_backend_that_panics_costs_the_request_that_asked_it(transport: &str) {
    let options = format!("{transport},direct_io,errors=continue");
    let mut mounted = harness::Mounted::start_slow(&options);
    // What was missed before is asked for with what is beside it.
    for calls in [
        "load_entry,load_directory",
        "load_inode,load_inodes",
        "load_pages",
    ] {
        let (call, _) = calls.split_once(',').unwrap_or((calls, ""));
        // One that the kernel does not know yet.
        mounted.command(&format!("write /{call} text"));
        mounted.command("evict");
        let path = mounted.path().join(call);
        mounted.command(&format!("crash {calls}"));
        for _ in 0..20 {
            let error = fs::read(&path).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{call}");
        }
        mounted.command("fail nothing");
        assert_eq!(fs::read(&path).unwrap(), b"text", "{call}");
    }
}

/// The kernel has acknowledged the pages, so nobody but `fsync` and the events can say it.
fn what_a_panic_keeps_from_being_written_back_is_told_as_lost(transport: &str) {
    let mut mounted = harness::Mounted::start_slow(&format!("{transport},errors=continue"));
    mounted.command(&format!("write /f {}", "x".repeat(5000)));
    let options = fs::OpenOptions::new().read(true).write(true).clone();
    let file = options.open(mounted.path().join("f")).unwrap();
    let events = mounted.path().join(".hearth/quota/events");
    let told = || fs::read_to_string(&events).unwrap();
    assert!(!told().contains("write-lost"), "{}", told());
    // The kernel has the pages, and the daemon has not.
    file.read_exact_at(&mut [0; 5000], 0).unwrap();
    mounted.command("evict");
    mounted.command("crash load_pages");
    file.write_all_at(&[7; 5000], 0).unwrap();
    let failed = file.sync_all().unwrap_err();
    mounted.command("fail nothing");
    assert_eq!(failed.raw_os_error(), Some(libc::EIO));
    let lost = told();
    let ino = format!("inode={}", file.metadata().unwrap().ino());
    for part in ["write-lost", "errno=EIO", "lost=904", &ino] {
        assert!(lost.contains(part), "{lost}");
    }
    file.write_all_at(b"again", 4096).unwrap();
    file.sync_all().unwrap();
}

fn everything_works_while_everything_is_forgotten(transport: &str) {
    let options =
        format!("{transport},direct_io,entry_timeout=0,attr_timeout=0,negative_timeout=0");
    let mut mounted = harness::Mounted::start_slow(&options);
    let root = mounted.path().to_owned();
    let ended = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = SetOnDrop(&ended);
        for client in 0..4 {
            let (root, ended) = (&root, &ended);
            scope.spawn(move || {
                let mut rounds = 0;
                while !ended.load(SeqCst) {
                    let home = root.join(format!("client-{client}"));
                    fs::create_dir(&home).unwrap();
                    for number in 0..8u8 {
                        let bytes = vec![number; 3 * 4096 + usize::from(number)];
                        fs::write(home.join(format!("file-{number}")), &bytes).unwrap();
                    }
                    for number in 0..8u8 {
                        let from = home.join(format!("file-{number}"));
                        let to = home.join(format!("moved-{number}"));
                        fs::rename(&from, &to).unwrap();
                        let bytes = fs::read(&to).unwrap();
                        assert_eq!(bytes, vec![number; 3 * 4096 + usize::from(number)]);
                    }
                    let mut names: Vec<_> = fs::read_dir(&home)
                        .unwrap()
                        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                        .collect();
                    names.sort();
                    let expected: Vec<_> = (0..8).map(|n| format!("moved-{n}")).collect();
                    assert_eq!(names, expected);
                    fs::remove_dir_all(&home).unwrap();
                    rounds += 1;
                }
                assert!(rounds > 0);
            });
        }
        let end = Instant::now() + Duration::from_secs(4);
        while Instant::now() < end {
            mounted.command("evict");
        }
    });
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    let stats = fs::read_to_string(root.join(".hearth/stats")).unwrap();
    let loads = stats
        .lines()
        .find(|line| line.starts_with("hearth_home_loads_total "));
    let loads = loads.unwrap_or_else(|| panic!("{stats}"));
    let loads: u64 = loads.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(loads > 100, "{loads} loads");
}

/// Delayed requests and parked ones run at the desks, the volume's own work when it is asked for.
fn a_mount_needs_no_worker(transport: &str) {
    let options = format!("{transport},park=every,hot_track");
    let mut mounted = harness::Mounted::start_without_workers(&options);
    let root = mounted.path().to_owned();
    thread::scope(|scope| {
        for client in 0..4 {
            let root = &root;
            scope.spawn(move || {
                let home = root.join(format!("client-{client}"));
                for round in 0..20u8 {
                    fs::create_dir(&home).unwrap();
                    let (one, other) = (home.join("one"), home.join("other"));
                    fs::write(&one, vec![round; 5000]).unwrap();
                    fs::File::open(&one).unwrap().sync_all().unwrap();
                    fs::rename(&one, &other).unwrap();
                    assert_eq!(fs::read(&other).unwrap(), vec![round; 5000]);
                    fs::remove_dir_all(&home).unwrap();
                }
            });
        }
    });
    let threads = mounted.threads();
    // A worker has the number of its station in its name.
    let is_worker = |name: &String| {
        let station = name.strip_prefix("hearth-");
        station.is_some_and(|station| station.parse::<usize>().is_ok())
    };
    assert!(!threads.iter().any(is_worker), "{threads:?}");
    let ask = |question: &str| {
        let options = fs::File::options().read(true).write(true).clone();
        let mut file = options.open(root.join(".hearth/ask")).unwrap();
        file.write_all(question.as_bytes()).unwrap();
    };
    ask("sched limit user:0 iops=50");
    let begin = Instant::now();
    for _ in 0..40 {
        statfs(&root);
    }
    let took = begin.elapsed();
    assert!(
        took >= Duration::from_millis(500),
        "{took:?} for 40 of 50 a second"
    );
    ask("sched limit user:0 iops=none");
    // Averages come from two passes that are some seconds apart, and from nowhere else.
    let stats = root.join(".hearth/stats");
    let rate = || -> f64 {
        let text = fs::read_to_string(&stats).unwrap();
        let name = "hearth_ops_per_second{window=\"1m\"} ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse().unwrap()
    };
    assert_eq!(rate(), 0.0, "nobody has asked for a pass yet");
    let begin = Instant::now();
    while rate() == 0.0 {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "no pass was made"
        );
        mounted.command("background");
        statfs(&root);
        thread::sleep(Duration::from_millis(200));
    }
}

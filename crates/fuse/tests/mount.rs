//! What programs see on a real mount, on both transports.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::Mounted;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::{io, thread, time};

fn errno(result: io::Result<impl Sized>) -> i32 {
    result.map(|_| ()).unwrap_err().raw_os_error().unwrap()
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn check(result: i64) -> i64 {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

/// Bytes that differ from place to place.
fn pattern(size: usize) -> Vec<u8> {
    (0..size as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// Drops what the kernel has of a file's contents, so that the next read asks the daemon.
fn forget_pages(file: &File) {
    file.sync_all().unwrap();
    // SAFETY: a descriptor and numbers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

fn names_in(dir: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(dir).unwrap().map(name).collect()
}

fn used_inodes(path: &Path) -> u64 {
    // SAFETY: an all-zero statvfs is valid, and statvfs fills it.
    let st = unsafe {
        let mut st: libc::statvfs = std::mem::zeroed();
        check(i64::from(libc::statvfs(c(path).as_ptr(), &mut st)));
        st
    };
    st.f_files - st.f_ffree
}

on_both_transports! {
    fn what_was_written_is_read_back(mounted, "") {
        for size in [0, 1, 4096, 4097, (1 << 20) + 1, 5 << 20] {
            let (path, bytes) = (mounted.path().join(format!("f{size}")), pattern(size));
            let mut options = OpenOptions::new();
            let mut file = options.read(true).write(true).create_new(true).open(&path).unwrap();
            file.write_all(&bytes).unwrap();
            forget_pages(&file);
            let mut back = Vec::new();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut back).unwrap();
            assert!(back == bytes, "{size} bytes differ");
            assert_eq!(fs::metadata(&path).unwrap().len(), size as u64);
        }
    }

    fn appending_goes_to_the_end_whatever_is_cached(mounted, "") {
        let path = mounted.path().join("log");
        let mut one = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let mut two = OpenOptions::new().append(true).open(&path).unwrap();
        for turn in 0..200u8 {
            one.write_all(&[turn; 33]).unwrap();
            two.write_all(&[turn; 7]).unwrap();
        }
        forget_pages(&one);
        let expected: Vec<u8> = (0..200u8).flat_map(|turn| [turn; 40]).collect();
        assert!(fs::read(&path).unwrap() == expected);
    }

    fn a_listing_has_every_name_once_with_and_without_attributes(mounted, "") {
        let dir = mounted.path().join("dir");
        fs::create_dir(&dir).unwrap();
        for i in 0..3000 {
            fs::write(dir.join(format!("name-{i:05}")), [0; 3]).unwrap();
        }
        let names = || {
            let mut names = names_in(&dir);
            names.sort();
            names
        };
        let expected: Vec<_> = (0..3000).map(|i| format!("name-{i:05}")).collect();
        assert_eq!(names(), expected);
        // Asking for attributes has the kernel list with attributes from now on.
        for entry in fs::read_dir(&dir).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().len(), 3);
        }
        assert_eq!(names(), expected);
    }

    fn a_cached_listing_shows_what_the_library_made_since(mounted, "") {
        let dir = mounted.path().join("dir");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("old"), b"").unwrap();
        let open = fs::File::open(&dir).unwrap();
        // Nothing but listings, which ask for no attributes and look no name up.
        let names = || {
            let (mut buffer, mut names) = ([0u8; 4096], Vec::new());
            // SAFETY: a descriptor and numbers.
            check(unsafe { libc::lseek(open.as_raw_fd(), 0, libc::SEEK_SET) });
            loop {
                // SAFETY: the kernel writes at most as many bytes as the buffer has.
                let size = check(unsafe {
                    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
                    libc::syscall(libc::SYS_getdents64, open.as_raw_fd(), at, len)
                }) as usize;
                let mut rest = &buffer[..size];
                if rest.is_empty() {
                    return names;
                }
                while !rest.is_empty() {
                    let len = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
                    let name = rest[19..len].split(|&byte| byte == 0).next().unwrap();
                    names.push(String::from_utf8(name.to_vec()).unwrap());
                    rest = &rest[len..];
                }
            }
        };
        for _ in 0..3 {
            assert!(!names().contains(&"new".to_owned()));
        }
        mounted.command("create /dir/new");
        assert!(names().contains(&"new".to_owned()));
        mounted.command("unlink /dir/new");
        assert!(!names().contains(&"new".to_owned()));
    }

    fn a_nameless_file_can_be_given_a_name(mounted, "") {
        let mut file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE)
            .open(mounted.path()).unwrap();
        file.write_all(b"found").unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        let source = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        let target = c(&mounted.path().join("named"));
        // SAFETY: two C strings.
        check(unsafe {
            let (cwd, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
            libc::linkat(cwd, source.as_ptr(), cwd, target.as_ptr(), follow)
        }.into());
        assert_eq!(fs::read(mounted.path().join("named")).unwrap(), b"found");
    }

    fn data_and_holes_are_found_and_punched(mounted, "") {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true)
            .open(mounted.path().join("sparse")).unwrap();
        file.write_all_at(&[1; 8192], 1 << 20).unwrap();
        file.set_len(2 << 20).unwrap();
        file.sync_all().unwrap();
        // SAFETY: a descriptor and numbers.
        let seek = |off, whence| unsafe { libc::lseek(file.as_raw_fd(), off, whence) };
        assert_eq!(seek(0, libc::SEEK_DATA), 1 << 20);
        assert_eq!(seek(1 << 20, libc::SEEK_HOLE), (1 << 20) + 8192);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a descriptor and numbers.
        check(unsafe { libc::fallocate(file.as_raw_fd(), mode, 1 << 20, 4096) }.into());
        assert_eq!(seek(0, libc::SEEK_DATA), (1 << 20) + 4096);
        let mut byte = [9];
        file.read_exact_at(&mut byte, 1 << 20).unwrap();
        assert_eq!(byte, [0]);
    }

    fn a_range_is_copied_inside_the_volume(mounted, "") {
        let bytes = pattern(9 << 20);
        fs::write(mounted.path().join("from"), &bytes).unwrap();
        let from = File::open(mounted.path().join("from")).unwrap();
        let to = File::create(mounted.path().join("to")).unwrap();
        let mut left = bytes.len();
        while left > 0 {
            let null = std::ptr::null_mut();
            // SAFETY: descriptors; null offsets mean the files' own.
            left -= check(unsafe {
                libc::copy_file_range(from.as_raw_fd(), null, to.as_raw_fd(), null, left, 0)
            } as i64) as usize;
        }
        assert!(fs::read(mounted.path().join("to")).unwrap() == bytes);
    }

    /// Whoever else asks the same core must not wait for it.
    fn a_large_cut_is_done_by_a_worker(mounted, "") {
        let path = mounted.path().join("file");
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.unwrap();
        let large = 64 << 20;
        file.write_all_at(&pattern(1 << 20), large - (1 << 20)).unwrap();
        file.set_len(large / 2).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), 0);
        for part in 0..64 {
            file.write_all_at(&pattern(1 << 20), part << 20).unwrap();
        }
        file.sync_all().unwrap();
        let has_worker = || mounted.threads().iter().any(|name| name == "hearth-whole");
        file.set_len(large - 4096).unwrap();
        assert!(!has_worker(), "{:?}", mounted.threads());
        // By its descriptor, then by its name.
        file.set_len(large / 2 + 100).unwrap();
        assert!(has_worker(), "{:?}", mounted.threads());
        let cut = file.metadata().unwrap();
        assert_eq!((cut.len(), cut.blocks()), (large / 2 + 100, (large / 2 + 4096) / 512));
        // SAFETY: a C string and a number.
        check(i64::from(unsafe { libc::truncate(c(&path).as_ptr(), 10) }));
        let cut = file.metadata().unwrap();
        assert_eq!((cut.len(), cut.blocks()), (10, 8));
        assert_eq!(fs::read(&path).unwrap(), &pattern(1 << 20)[..10]);
    }

    fn inode_flags_are_set_and_obeyed(mounted, "") {
        let path = mounted.path().join("kept");
        fs::write(&path, b"one").unwrap();
        let chattr = |flag: &str| {
            let status = Command::new("chattr").arg(flag).arg(&path).status().unwrap();
            assert!(status.success());
        };
        chattr("+i");
        assert_eq!(errno(fs::remove_file(&path)), libc::EPERM);
        assert_eq!(errno(fs::write(&path, b"x")), libc::EPERM);
        chattr("-i");
        chattr("+a");
        assert_eq!(errno(OpenOptions::new().write(true).open(&path)), libc::EPERM);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"two").unwrap();
        chattr("-a");
        assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    }

    fn a_birth_time_is_told(mounted, "") {
        let path = mounted.path().join("born");
        fs::write(&path, b"").unwrap();
        let age = fs::metadata(&path).unwrap().created().unwrap().elapsed().unwrap_or_default();
        assert!(age < time::Duration::from_secs(60), "{age:?}");
    }

    fn forgotten_inodes_are_given_back(mounted, "") {
        let before = used_inodes(mounted.path());
        for i in 0..2000 {
            let path = mounted.path().join(format!("f{i}"));
            fs::write(&path, b"x").unwrap();
            fs::remove_file(&path).unwrap();
        }
        let deadline = time::Instant::now() + time::Duration::from_secs(20);
        while used_inodes(mounted.path()) > before + 5 {
            let left = used_inodes(mounted.path()) - before;
            assert!(time::Instant::now() < deadline, "{left} inodes are left");
            thread::sleep(time::Duration::from_millis(20));
        }
    }

    fn changes_by_the_library_are_seen_at_once(mounted, "") {
        let path = mounted.path().join("a");
        assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
        mounted.command("write /a first");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        mounted.command("write /a second-and-longer");
        assert_eq!(fs::read(&path).unwrap(), b"second-and-longer");
        mounted.command("chmod /a 600");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names_in(mounted.path()), ["a"]);
        mounted.command("rename /a /b");
        assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
        assert_eq!(fs::read(mounted.path().join("b")).unwrap(), b"second-and-longer");
        assert_eq!(names_in(mounted.path()), ["b"]);
        mounted.command("unlink /b");
        assert_eq!(errno(fs::metadata(mounted.path().join("b"))), libc::ENOENT);
    }

    /// Each is looked at before, so that the kernel has what it was.
    fn whatever_the_library_changes_is_seen_at_once(mounted, "") {
        let root = mounted.path().to_owned();
        let at = |name: &str| root.join(name);
        let links = |name: &str| fs::metadata(at(name)).map(|stat| stat.nlink());
        let absent = |name: &str| assert_eq!(errno(fs::symlink_metadata(at(name))), libc::ENOENT);

        absent("d");
        assert_eq!(links("").unwrap(), 2);
        mounted.command("mkdir /d");
        assert!(fs::metadata(at("d")).unwrap().is_dir());
        assert_eq!(links("").unwrap(), 3, "of the directory above");

        fs::write(at("a"), b"contents").unwrap();
        absent("d/again");
        assert_eq!(links("a").unwrap(), 1);
        mounted.command("link /a /d/again");
        assert_eq!((links("a").unwrap(), links("d/again").unwrap()), (2, 2));
        assert_eq!(names_in(&at("d")), ["again"]);

        assert_eq!(fs::read(at("a")).unwrap(), b"contents");
        mounted.command("truncate /a 3");
        assert_eq!(fs::metadata(at("a")).unwrap().len(), 3);
        assert_eq!(fs::read(at("a")).unwrap(), b"con");
        mounted.command("truncate /a 5");
        assert_eq!(fs::read(at("d/again")).unwrap(), b"con\0\0");

        fs::write(at("b"), b"other").unwrap();
        assert_eq!(fs::read(at("b")).unwrap(), b"other");
        mounted.command("exchange /a /b");
        assert_eq!(fs::read(at("a")).unwrap(), b"other");
        assert_eq!(fs::read(at("b")).unwrap(), b"con\0\0");
        mounted.command("exchange /b /d");
        assert!(fs::metadata(at("b")).unwrap().is_dir());
        assert!(fs::metadata(at("d")).unwrap().is_file());
        mounted.command("exchange /b /d");

        absent("s");
        mounted.command("symlink /elsewhere /s");
        assert_eq!(fs::read_link(at("s")).unwrap(), Path::new("/elsewhere"));

        assert_eq!(fs::metadata(at("a")).unwrap().uid(), 0);
        mounted.command("chown /a 1234");
        assert_eq!(fs::metadata(at("a")).unwrap().uid(), 1234);

        let acl = || {
            let (path, name) = (c(&at("a")), c"system.posix_acl_access");
            let mut value = [0u8; 256];
            // SAFETY: strings that end, and room for the value.
            let len = unsafe {
                libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), 256)
            };
            usize::try_from(len).map(|len| value[..len].to_vec()).unwrap_or_default()
        };
        assert_eq!((acl(), links("a").unwrap()), (vec![], 1));
        // user::rw-, user:7:r--, group::r--, mask::r--, other::---
        let entries = [(1, 6, !0), (2, 4, 7), (4, 4, !0), (16, 4, !0), (32, 0, !0_u32)];
        let mut value = vec![2, 0, 0, 0];
        for (tag, perm, id) in entries {
            value.extend([tag, 0, perm, 0]);
            value.extend(id.to_le_bytes());
        }
        let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        mounted.command(&format!("acl /a {hex}"));
        assert_eq!(acl(), value);
        assert_eq!(fs::metadata(at("a")).unwrap().permissions().mode() & 0o777, 0o640);

        mounted.command("unlink /d/again");
        assert_eq!(links("b").unwrap(), 1);
        mounted.command("rmdir /d");
        absent("d");
        assert_eq!(links("").unwrap(), 2);
    }

    fn a_file_that_the_library_changes_while_it_is_open_is_fresh_after_close(mounted, "") {
        let path = mounted.path().join("shared");
        fs::write(&path, b"old contents").unwrap();
        let open = File::open(&path).unwrap();
        mounted.command("write /shared new");
        drop(open);
        let deadline = time::Instant::now() + time::Duration::from_secs(10);
        while fs::read(&path).unwrap() != b"new" || fs::metadata(&path).unwrap().len() != 3 {
            assert!(time::Instant::now() < deadline, "{:?}", fs::read(&path));
            thread::sleep(time::Duration::from_millis(10));
        }
    }

    fn changes_by_the_mount_are_seen_by_the_library_after_close(mounted, "") {
        fs::write(mounted.path().join("x"), b"from-the-mount").unwrap();
        assert_eq!(mounted.command("read /x"), "from-the-mount");
    }

    fn the_transport_is_shown_in_the_statistics(mounted, "") {
        let stats = fs::read_to_string(mounted.path().join(".hearth/stats")).unwrap();
        let transport = if module_path!().ends_with("uring") { "uring" } else { "dev" };
        let label = format!("transport=\"{transport}\"");
        let info = stats.lines().filter(|line| line.starts_with("hearth_info{"));
        let info: Vec<_> = info.collect();
        assert!(info.len() == 1 && info[0].contains(&label), "{info:?}");
    }

    fn statistics_tell_requests_from_calls_of_the_library(mounted, "") {
        fs::create_dir(mounted.path().join("dir")).unwrap();
        fs::write(mounted.path().join("x"), b"from-the-mount").unwrap();
        assert_eq!(mounted.command("read /x"), "from-the-mount");
        let stats = fs::read_to_string(mounted.path().join(".hearth/stats")).unwrap();
        let has = |start: &str| stats.lines().any(|line| line.starts_with(start));
        assert!(has("hearth_op_seconds_count{op=\"mkdir\"} 1"), "{stats}");
        assert!(!has("hearth_library_ops_total{op=\"mkdirat\"}"), "{stats}");
        assert!(has("hearth_library_ops_total{op=\"openat\"}"), "{stats}");
        assert!(has("hearth_library_op_errors_total{op=\"openat\"} 0"), "{stats}");
    }

    fn a_killed_daemon_leaves_errors_and_no_hang(mounted, "") {
        let file = File::create(mounted.path().join("open")).unwrap();
        mounted.kill();
        // What is on its way while the daemon dies is cancelled; after that nobody is there.
        let gone = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];
        assert!(gone.contains(&errno(fs::metadata(mounted.path().join("other")))));
        let deadline = time::Instant::now() + time::Duration::from_secs(10);
        while errno(fs::metadata(mounted.path().join("other"))) != libc::ENOTCONN {
            assert!(time::Instant::now() < deadline);
        }
        assert!(errno(file.sync_all()) > 0);
    }

    fn an_unmount_ends_the_daemon_even_while_files_are_open(mounted, "") {
        let mut file = File::create(mounted.path().join("open")).unwrap();
        file.write_all(b"kept open").unwrap();
        assert_eq!(mounted.end(), Some(0));
        assert!(file.sync_all().is_err());
    }

    fn names_at_the_limits_get_the_right_errors(mounted, "") {
        let name = |len: usize| mounted.path().join("n".repeat(len));
        fs::write(name(255), b"").unwrap();
        assert_eq!(errno(fs::write(name(256), b"")), libc::ENAMETOOLONG);
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"new\nline \xff\xfe\\"));
        fs::write(mounted.path().join(odd), b"odd").unwrap();
        assert_eq!(fs::read(mounted.path().join(odd)).unwrap(), b"odd");
    }

    fn nothing_cached_works_as_well(
        mounted, "entry_timeout=0,attr_timeout=0,negative_timeout=0,no_writeback,readdirplus=yes"
    ) {
        let path = mounted.path().join("f");
        fs::write(&path, pattern(100_000)).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"end").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_003);
        assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 1);
        fs::rename(&path, mounted.path().join("g")).unwrap();
        assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
    }

    fn opening_without_asking_works_as_well(mounted, "no_open,no_opendir,no_flush") {
        let path = mounted.path().join("f");
        let bytes = pattern(300_000);
        fs::write(&path, &bytes).unwrap();
        forget_pages(&File::open(&path).unwrap());
        assert!(fs::read(&path).unwrap() == bytes);
        for i in 0..500 {
            fs::write(mounted.path().join(format!("n{i}")), b"").unwrap();
        }
        assert_eq!(fs::read_dir(mounted.path()).unwrap().count(), 501);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let copy = mounted.path().join("copy");
        assert_eq!(fs::copy(&path, &copy).unwrap(), 300_000);
        assert!(fs::read(&copy).unwrap() == bytes);
        // SAFETY: a descriptor and numbers.
        check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 400_000) }.into());
        assert_eq!(fs::metadata(&path).unwrap().len(), 400_000);
        file.set_len(10).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes[..10]);
    }

    fn direct_io_reads_and_writes_the_same_bytes(mounted, "direct_io") {
        let (path, bytes) = (mounted.path().join("f"), pattern(3 << 20));
        fs::write(&path, &bytes).unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn a_panic_costs_one_request_and_makes_the_volume_read_only() {
    for transport in ["transport=dev", "transport=uring"] {
        // Reads that no cache answers.
        let mut mounted = Mounted::start(&format!("{transport},direct_io"));
        fs::write(mounted.path().join("f"), b"before").unwrap();
        assert_eq!(mounted.log(), "");
        mounted.command("break");
        assert_eq!(errno(fs::create_dir(mounted.path().join("d"))), libc::EIO);
        mounted.command("repair");
        let log = mounted.log();
        assert!(log.contains("the clock fell down"), "{log}");
        let frames = ["mkdir", "hearth_fuse::dispatch"];
        let missing = frames.iter().find(|frame| !log.contains(**frame));
        assert_eq!(missing, None, "{log}");
        assert_eq!(fs::read(mounted.path().join("f")).unwrap(), b"before");
        assert_eq!(
            errno(fs::write(mounted.path().join("g"), b"after")),
            libc::EROFS
        );
    }
}

/// The kernel has acknowledged the write and hands it over when the file is immutable.
#[test]
fn what_was_written_before_a_file_became_immutable_is_kept() {
    for transport in ["transport=dev", "transport=uring"] {
        let mounted = Mounted::start(transport);
        let script = "exec 3> f; printf text >&3; chattr +i f; sync f; sync -f f; exec 3>&-
            grep -qx text f && ! sh -c ': >> f' 2>/dev/null; same=$?; chattr -i f; exit $same";
        let mut shell = Command::new("sh");
        let output = shell.args(["-ec", script]).current_dir(mounted.path());
        let output = output.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{error}");
    }
}

/// The mount may believe attributes for a minute.
#[test]
fn a_read_by_the_library_moves_the_access_time_that_the_mount_shows() {
    for transport in ["transport=dev", "transport=uring"] {
        let mut mounted = Mounted::start(transport);
        let path = mounted.path().join("f");
        fs::write(&path, b"text").unwrap();
        let file = fs::File::open(&path).unwrap();
        let old = time::UNIX_EPOCH + time::Duration::from_secs(1000);
        let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
        file.set_times(times).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().atime(), 1000);
        mounted.command("read /f");
        assert!(fs::metadata(&path).unwrap().atime() > 1_000_000);
    }
}

#[test]
fn a_panic_costs_one_request_and_no_more_where_it_was_asked_to_go_on() {
    for transport in ["transport=dev", "transport=uring"] {
        let mut mounted = Mounted::start(&format!("{transport},errors=continue"));
        let at = |name: &str| mounted.path().join(name);
        let (directory, file) = (at("d"), at("f"));
        mounted.command("break");
        assert_eq!(errno(fs::create_dir(&directory)), libc::EIO);
        mounted.command("repair");
        fs::create_dir(&directory).unwrap();
        fs::write(&file, b"after").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"after");
    }
}

#[test]
fn a_panic_ends_the_daemon_where_it_was_asked_to() {
    for transport in ["transport=dev", "transport=uring"] {
        let mut mounted = Mounted::start(&format!("{transport},errors=panic"));
        mounted.command("break");
        let error = errno(fs::create_dir(mounted.path().join("d")));
        assert!(
            [libc::ECONNABORTED, libc::ENOTCONN].contains(&error),
            "errno {error}"
        );
        assert_eq!(mounted.end(), None, "it ended by a signal");
    }
}

#[test]
fn a_mount_that_cannot_be_made_says_why_and_changes_nothing() {
    let dir = harness::fresh_directory();
    fs::write(dir.join("file"), b"").unwrap();
    let missing = dir.join("missing");
    let cases = [
        (missing.as_path(), "size=1m", "does not exist"),
        (&dir.join("file"), "size=1m", "not a directory"),
        (&dir, "size=1m", "not empty"),
        (&dir, "frobnicate", "unknown mount option 'frobnicate'"),
        (&dir, "max_write=7", "max_write=7"),
    ];
    for (path, options, text) in cases {
        let output = Command::new(harness::daemon())
            .arg(path)
            .args(["-o", options])
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            error.contains(text) && error.lines().count() == 1,
            "{error}"
        );
    }
    let mounted = Mounted::start("transport=dev");
    let output = Command::new(harness::daemon())
        .arg(mounted.path())
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("already mounted"),
        "{output:?}"
    );
    fs::remove_dir_all(&dir).unwrap();
}

//! Directories of the host: what the mount shows is what the directory has, for every caller, also
//! while others change it behind the mount.

use crate::harness;
#[path = "host/refusals.rs"]
mod refusals;
#[path = "host/rights.rs"]
mod rights;
#[path = "host/scripts.rs"]
mod scripts;

use harness::{Below, Mounted, Transport, hearth, program, said, shell, succeed, until};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, linkat, open, openat};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

harness::on_both_transports!(
    what_is_made_on_the_mount_is_a_plain_file_below_and_the_other_way_round,
    what_others_change_is_seen_when_the_timeouts_are_over_and_at_open,
);

/// Longer than the kernel believes anything.
const WAIT: Duration = Duration::from_millis(1_100);

fn over(below: &Below) -> Mounted {
    Mounted::over(Transport::Dev, below.path(), "")
}

fn what_is_made_on_the_mount_is_a_plain_file_below_and_the_other_way_round(transport: Transport) {
    let below = Below::tmpfs();
    let mounted = Mounted::over(transport, below.path(), "");
    fs::create_dir(mounted.at("d")).unwrap();
    fs::write(mounted.at("d/f"), "through").unwrap();
    assert_eq!(fs::read(below.at("d/f")).unwrap(), b"through");
    fs::write(below.at("d/g"), "behind").unwrap();
    assert_eq!(fs::read(mounted.at("d/g")).unwrap(), b"behind");
    // A large one, in parts of every size.
    let bytes: Vec<u8> = (0..5_000_001u32).map(|at| (at % 251) as u8).collect();
    fs::write(mounted.at("large"), &bytes).unwrap();
    assert!(fs::read(below.at("large")).unwrap() == bytes);
    assert!(fs::read(mounted.at("large")).unwrap() == bytes);
    fs::rename(mounted.at("d/f"), mounted.at("f")).unwrap();
    let names: BTreeSet<_> = names(below.path());
    assert_eq!(names, ["d", "f", "large"].map(String::from).into());
    mounted.unmount();
    assert_eq!(fs::read(below.at("f")).unwrap(), b"through");
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect()
}

fn what_others_change_is_seen_when_the_timeouts_are_over_and_at_open(transport: Transport) {
    let below = Below::ext4();
    let mounted = Mounted::over(transport, below.path(), "");
    let (behind, through) = (below.at("f"), mounted.at("f"));
    fs::write(&behind, "X").unwrap();
    sleep(Duration::from_millis(200));
    assert_eq!(fs::read(&through).unwrap(), b"X");
    assert_eq!(fs::read(&through).unwrap(), b"X");
    // The same size, the same inode, and the old time put back: at once by a new open.
    let old = fs::metadata(&behind).unwrap().modified().unwrap();
    fs::write(&behind, "Y").unwrap();
    File::options()
        .write(true)
        .open(&behind)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(fs::read(&through).unwrap(), b"Y");
    // A descriptor that was open before sees it after a while, also that the file has grown.
    let held = File::open(&through).unwrap();
    let mut byte = [0; 2];
    assert_eq!(held.read_at(&mut byte, 0).unwrap(), 1);
    fs::write(&behind, "ZZ").unwrap();
    sleep(WAIT);
    assert_eq!(held.read_at(&mut byte, 0).unwrap(), 2);
    assert_eq!(&byte, b"ZZ");
    assert_eq!(fs::metadata(&through).unwrap().len(), 2);
    // Names that come and go.
    fs::rename(&behind, below.at("g")).unwrap();
    fs::create_dir(below.at("f")).unwrap();
    sleep(WAIT);
    assert!(fs::metadata(&through).unwrap().is_dir());
    assert_eq!(fs::read(mounted.at("g")).unwrap(), b"ZZ");
    assert_eq!(names(mounted.path()), names(below.path()));
}

/// git makes its lock files like this.
#[test]
fn a_name_that_was_removed_behind_is_made_again_at_once() {
    let below = Below::ext4();
    let mounted = over(&below);
    for round in 0..100 {
        fs::write(mounted.at("lock"), format!("{round}")).unwrap();
        let known = fs::metadata(mounted.at("lock")).unwrap().ino();
        fs::remove_file(below.at("lock")).unwrap();
        fs::write(mounted.at("lock"), "again").unwrap();
        assert_eq!(
            fs::read(below.at("lock")).unwrap(),
            b"again",
            "{round} {known}"
        );
        fs::remove_file(below.at("lock")).unwrap();
        let stale = fs::read(mounted.at("lock"));
        assert_eq!(stale.unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}

/// ext4 gives a number out again at once.
#[test]
fn an_inode_number_that_is_used_again_is_another_file() {
    let below = Below::ext4();
    let mounted = over(&below);
    let mut reused = 0;
    for round in 0..50 {
        fs::write(below.at("f"), format!("old {round}")).unwrap();
        let number = fs::metadata(mounted.at("f")).unwrap().ino();
        let mut held = File::open(mounted.at("f")).unwrap();
        fs::remove_file(below.at("f")).unwrap();
        fs::write(below.at("f"), format!("new {round}")).unwrap();
        assert_eq!(
            fs::read_to_string(mounted.at("f")).unwrap(),
            format!("new {round}")
        );
        let mut text = String::new();
        held.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("old {round}"), "whoever has it open goes on");
        drop(held);
        // Another type under the same number.
        fs::remove_file(below.at("f")).unwrap();
        fs::create_dir(below.at("f")).unwrap();
        sleep(Duration::from_millis(20));
        reused += u32::from(fs::metadata(below.at("f")).unwrap().ino() == number);
        let seen = until_answered(&mounted.at("f"));
        assert!(seen.is_dir() || seen.len() > 0);
        fs::remove_dir(below.at("f")).unwrap();
    }
    assert!(reused > 0, "this filesystem does not use numbers again");
}

/// What `stat` says: old or new, but an answer.
fn until_answered(path: &Path) -> fs::Metadata {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_file_without_a_name_goes_on_as_long_as_it_is_open() {
    for below in [Below::ext4(), Below::tmpfs()] {
        let mounted = over(&below);
        let path = mounted.at("f");
        fs::write(&path, "text").unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        drop_caches();
        fchmod(&file, Mode::from_raw_mode(0o640)).unwrap();
        file.set_len(1 << 20).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        rustix::fs::fsetxattr(&file, "trusted.x", b"1", rustix::fs::XattrFlags::empty()).unwrap();
        file.write_at(b"more", 4).unwrap();
        file.sync_all().unwrap();
        let seen = file.metadata().unwrap();
        assert_eq!((seen.nlink(), seen.mode() & 0o777), (0, 0o640));
        let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        assert_eq!(&fs::read(&again).unwrap()[..8], b"textmore");
        let name = mounted.at("again");
        let linked = linkat(CWD, &*again, CWD, &name, AtFlags::SYMLINK_FOLLOW);
        assert_eq!(linked, Err(rustix::io::Errno::NOENT));
        // The same of a directory, and of what never had a name.
        fs::create_dir(mounted.at("d")).unwrap();
        let directory = open(
            mounted.at("d"),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .unwrap();
        fs::remove_dir(mounted.at("d")).unwrap();
        assert_eq!(
            File::from(directory.try_clone().unwrap())
                .metadata()
                .unwrap()
                .nlink(),
            0
        );
        let made = openat(&directory, "x", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU);
        assert_eq!(made.err(), Some(rustix::io::Errno::NOENT));
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let nameless = File::from(open(mounted.path(), flags, Mode::RUSR).unwrap());
        nameless.write_at(b"nameless", 0).unwrap();
        let again = format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&nameless)
        );
        linkat(CWD, &*again, CWD, &name, AtFlags::SYMLINK_FOLLOW).unwrap();
        assert_eq!(fs::read(below.at("again")).unwrap(), b"nameless");
    }
}

fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
}

#[test]
fn the_room_of_a_removed_file_comes_back_when_nobody_has_it_open() {
    for below in [Below::ext4(), Below::tmpfs()] {
        let mounted = over(&below);
        let free = || rustix::fs::statvfs(below.path()).unwrap().f_bfree;
        for (removes, by) in [(mounted.path(), "through"), (below.path(), "behind")] {
            let before = free();
            fs::write(mounted.at("f"), vec![7; 20 << 20]).unwrap();
            assert_eq!(fs::read(mounted.at("f")).unwrap().len(), 20 << 20);
            File::open(mounted.at("f")).unwrap().sync_all().unwrap();
            assert!(free() + 4000 < before, "{by}");
            fs::remove_file(removes.join("f")).unwrap();
            until(by, || free() + 100 > before);
        }
    }
}

#[test]
fn a_filesystem_below_is_seen_and_can_be_unmounted_at_once() {
    let below = Below::tmpfs();
    for name in ["before", "after"] {
        fs::create_dir(below.at(name)).unwrap();
    }
    let mount = |name: &str| {
        let mut mount = program("mount");
        succeed(mount.args(["-t", "tmpfs", "x"]).arg(below.at(name)));
        fs::create_dir_all(below.at(name).join("a/b")).unwrap();
        fs::write(below.at(name).join("a/b/f"), name).unwrap();
    };
    mount("before");
    let mounted = over(&below);
    mount("after");
    for name in ["before", "after"] {
        let file = mounted.at(name).join("a/b/f");
        assert_eq!(fs::read_to_string(&file).unwrap(), name);
        let linked = fs::hard_link(&file, mounted.at("link"));
        assert_eq!(linked.unwrap_err().raw_os_error(), Some(libc::EXDEV));
        let moved = fs::rename(mounted.at(name).join("a/b"), mounted.at("moved"));
        assert_eq!(moved.unwrap_err().raw_os_error(), Some(libc::EXDEV));
    }
    // To programs all is one device: no two files have one number.
    let mut numbers = BTreeSet::new();
    let files = mounted.shell("find . ! -name .. -printf '%i\\n'");
    assert!(
        files.lines().all(|number| numbers.insert(number)),
        "{files}"
    );
    for name in ["before", "after"] {
        // A close by a program is told without waiting for it.
        let unmounts = || said(program("umount").arg(below.at(name))).success();
        until("nothing keeps it busy", unmounts);
        let gone = fs::read(mounted.at(name).join("a/b/f")).unwrap_err();
        let gone = gone.raw_os_error();
        assert!(
            [Some(libc::ENOENT), Some(libc::ESTALE)].contains(&gone),
            "{gone:?}"
        );
    }
    sleep(WAIT);
    mounted.shell("test -z \"$(ls -A before; ls -A after)\"");
}

#[test]
fn with_xdev_a_filesystem_below_is_not_entered() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("sub")).unwrap();
    succeed(
        program("mount")
            .args(["-t", "tmpfs", "x"])
            .arg(below.at("sub")),
    );
    let mounted = Mounted::over(Transport::Dev, below.path(), "xdev");
    let entered = fs::metadata(mounted.at("sub")).unwrap_err();
    assert_eq!(entered.raw_os_error(), Some(libc::EXDEV));
    assert!(names(mounted.path()).contains("sub"));
    succeed(program("umount").arg(below.at("sub")));
    sleep(WAIT);
    assert!(fs::metadata(mounted.at("sub")).unwrap().is_dir());
}

#[test]
fn the_mount_shown_below_itself_is_not_entered() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("loop")).unwrap();
    let mounted = over(&below);
    let mut bind = program("mount");
    succeed(bind.arg("--bind").arg(mounted.path()).arg(below.at("loop")));
    sleep(WAIT);
    let entered = fs::metadata(mounted.at("loop")).unwrap_err();
    assert_eq!(entered.raw_os_error(), Some(libc::ELOOP));
    let found = mounted.shell("timeout 20 find . -maxdepth 8 2> /dev/null || test $? = 1");
    assert!(found.lines().count() <= 2, "{found}");
    succeed(program("umount").arg("-l").arg(below.at("loop")));
}

#[test]
fn numbers_and_totals_are_those_of_the_directory() {
    let below = Below::ext4();
    succeed(&mut shell(
        below.path(),
        "mkdir -p a/b c; for i in $(seq 100); do head -c 20000 /dev/zero > a/f$i; \
         ln a/f$i c/l$i; ln a/f$i a/b/l$i; done",
    ));
    let mounted = over(&below);
    for directory in ["", "a", "c"] {
        for entry in fs::read_dir(mounted.at(directory)).unwrap() {
            let entry = entry.unwrap();
            let seen = entry.metadata().unwrap();
            let under = below.at(directory).join(entry.file_name());
            let native = fs::symlink_metadata(under).unwrap();
            assert_eq!(entry.ino(), seen.ino());
            assert_eq!((seen.ino(), seen.nlink()), (native.ino(), native.nlink()));
            assert_eq!(seen.created().unwrap(), native.created().unwrap());
            assert_eq!(seen.blocks(), native.blocks());
        }
    }
    let total = |place: &Path| succeed(&mut shell(place, "du -s .; find . | wc -l"));
    assert_eq!(total(mounted.path()), total(below.path()));
    let links = |name: &str| fs::metadata(mounted.at(name)).unwrap().nlink();
    fs::hard_link(mounted.at("a/f1"), mounted.at("one-more")).unwrap();
    assert_eq!((links("a/f1"), links("c/l1")), (4, 4));
    fs::remove_file(mounted.at("one-more")).unwrap();
    assert_eq!(links("c/l1"), 3);
}

#[test]
fn a_listing_of_many_names_has_each_once_from_wherever_it_goes_on() {
    for below in [Below::ext4(), Below::tmpfs()] {
        let mounted = over(&below);
        fs::create_dir(mounted.at("many")).unwrap();
        for number in 0..5_000 {
            File::create(below.at(format!("many/{number}"))).unwrap();
        }
        let listed = mounted.shell("ls -U many | wc -l; ls -U many | sort -u | wc -l");
        assert_eq!(listed, "5000\n5000\n");
        assert_eq!(mounted.shell("ls -l many | wc -l"), "5001\n");
        mounted.shell("rm -r many; test -z \"$(ls -A)\"");
    }
}

#[test]
fn holes_flags_and_ranges_are_those_of_the_directory() {
    let below = Below::ext4();
    let mounted = over(&below);
    let script = "
        rm -rf t; mkdir t; cd t
        truncate -s 1M sparse; printf x | dd of=sparse bs=1 seek=500000 conv=notrunc status=none
        cp --sparse=always sparse copy; stat -c '%b %s' sparse copy
        fallocate -l 64k whole; stat -c '%b %s' whole
        fallocate -p -o 4096 -l 8192 whole; stat -c '%b %s' whole
        fallocate -z -o 16384 -l 8192 whole; stat -c '%b %s' whole
        chattr +d whole; lsattr whole; chattr -d whole; lsattr whole
        touch only; chattr +a only; echo more >> only; ! echo less 2> /dev/null > only
        chattr -a only; cat only
        chattr +i only; ! rm -f only 2> /dev/null; chattr -i only
        ln -s nowhere link; readlink link; mkfifo fifo
        mknod null c 1 3; stat -c '%F %t %T' fifo null
        setfattr -n user.a -v b only; getfattr -d only; setfattr -x user.a only
    ";
    let on = |place: &Path| succeed(&mut shell(place, script));
    assert_eq!(on(mounted.path()), on(below.path()));
}

/// Nothing of the tree is hidden.
#[test]
fn the_control_directory_gives_way_to_a_file_of_that_name() {
    let below = Below::tmpfs();
    let mounted = over(&below);
    let stats = succeed(hearth().arg("stats").arg(mounted.path()));
    assert!(stats.contains("lookup"), "{stats}");
    mounted.unmount();
    fs::create_dir(below.at(".hearth")).unwrap();
    fs::write(below.at(".hearth/x"), "mine").unwrap();
    mounted.mount_again(Transport::Dev, "");
    assert_eq!(fs::read(mounted.at(".hearth/x")).unwrap(), b"mine");
    mounted.shell("rm -rf .hearth; test -z \"$(ls -A)\"");
}

/// A server that waits for the other end of a FIFO serves nobody else.
#[test]
fn fifos_sockets_and_devices_are_never_opened_by_the_daemon() {
    let below = Below::tmpfs();
    let mounted = over(&below);
    succeed(&mut shell(
        below.path(),
        "for i in $(seq 60); do mkfifo f$i; mknod n$i c 1 3; done
         python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'",
    ));
    mounted.shell(
        "ls -l > /dev/null; getfattr -d * > /dev/null; chmod 600 *; tar cf /dev/null .
         lsattr f1 2> /dev/null && exit 1
         (cat f1 > out &) ; echo through > f1; sleep 0.2; cat out
         find . -name 'f*' | wc -l",
    );
    // A name that has become a FIFO since the kernel looked.
    fs::write(mounted.at("was"), "").unwrap();
    fs::remove_file(below.at("was")).unwrap();
    succeed(program("mkfifo").arg(below.at("was")));
    let mut late = program("bash");
    late.args(["-c", "timeout 1 bash -c ': > was'; test $? = 124"]);
    succeed(late.current_dir(mounted.path()));
    mounted.shell("rm -r * ; test -z \"$(ls -A)\"");
}

#[test]
fn many_files_need_few_descriptors() {
    let below = Below::tmpfs();
    succeed(&mut shell(
        below.path(),
        "for d in $(seq 40); do mkdir -p $d/sub; (cd $d/sub; touch $(seq 100)); done",
    ));
    let open = |mounted: &Mounted| {
        let list = fs::read_dir(format!("/proc/{}/fd", mounted.daemon()));
        list.unwrap().count()
    };
    let mounted = over(&below);
    assert_eq!(mounted.shell("find . -ls | wc -l"), "4081\n");
    assert!(open(&mounted) < 60, "{}", open(&mounted));
    mounted.unmount();
    // Without the right to open by handle, and with few descriptors.
    let mut mount = shell(
        below.path(),
        "ulimit -n 256; exec setpriv --bounding-set -dac_read_search \"$HEARTH\" mount \
         -o transport=dev \"host:$PWD\" \"$MNT\"",
    );
    mount.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    succeed(mount.env("MNT", mounted.path()));
    let stats = mounted.shell("grep -o 'found_by=\"[a-z]*\"' .hearth/stats");
    assert_eq!(stats, "found_by=\"descriptors\"\n");
    let held: Vec<File> = (1..=60)
        .map(|name| File::open(mounted.at(format!("1/sub/{name}"))).unwrap())
        .collect();
    assert_eq!(mounted.shell("find . -ls | wc -l"), "4081\n");
    assert!(open(&mounted) < 200, "{}", open(&mounted));
    fs::rename(mounted.at("2"), mounted.at("3/moved")).unwrap();
    assert_eq!(mounted.shell("find . | wc -l; cat 3/moved/sub/7"), "4081\n");
    let mut file = File::options()
        .append(true)
        .open(mounted.at("4/sub/9"))
        .unwrap();
    fs::rename(mounted.at("4"), mounted.at("5/sub/also")).unwrap();
    file.write_all(b"goes on").unwrap();
    assert_eq!(fs::read(below.at("5/sub/also/sub/9")).unwrap(), b"goes on");
    mounted.shell("rm -r [6-9] 1; ls | wc -l");
    drop(held);
}

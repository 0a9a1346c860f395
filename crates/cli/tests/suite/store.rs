//! Volumes in a directory: made, mounted, described, checked, copied, and refused in one line that
//! changes nothing.

use crate::harness;

use crate::place::Place;
use harness::{mounts_below, program, refused, said, shell, succeed};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

impl Place {
    fn shell(&self, script: &str) -> String {
        let mut shell = shell(self.path(), script);
        succeed(shell.env("HEARTH", env!("CARGO_BIN_EXE_hearth")))
    }

    /// Names, kinds, modes, owners, sizes, times and contents below a directory.
    fn tree(&self, of: &str) -> String {
        let script = "find . -path ./.hearth -prune -o -path ./lost+found -prune -o \
             -printf '%P %y %m %U:%G %n %l %T@ ' \
             \\( -type d -printf '\\n' -o -type f -printf '%s ' -exec sha256sum {} \\; \
             -o -printf '\\n' \\) \
             | sort; find . -path ./.hearth -prune -o -type f -exec getfattr -d -m - {} + | sort";
        succeed(&mut shell(&self.at(of), script))
    }

    /// All bytes of a directory that is not mounted.
    fn bytes(&self, of: &str) -> String {
        let script = "find . -printf '%P %y %m %s %T@\\n' | sort; \
             find . -type f -exec sha256sum {} + | sort";
        succeed(&mut shell(&self.at(of), script))
    }

    /// What tells of a write at once, where sums of a volume's 192 MiB would take seconds.
    fn stamps(&self, of: &str) -> String {
        let script = "find . -printf '%P %y %m %i %s %T@ %C@\\n' | sort";
        succeed(&mut shell(&self.at(of), script))
    }

    /// What `info` says once the kernel has taken the lock from a daemon that was killed.
    fn info_after_its_end(&self) -> serde_json::Value {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let info = self.json("info --json v");
            if info["state"] != "in use" || Instant::now() > end {
                return info;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn json(&self, typed: &str) -> serde_json::Value {
        let said = said(&mut self.hearth(typed));
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{typed}: {error} {said:?}"))
    }
}

/// A tree with one of much.
const TREE: &str = "
    cd m
    mkdir -p a/b/c; echo text > a/file; ln a/file a/b/again; ln -s ../file a/b/link
    mkfifo a/pipe; mknod a/null c 1 3
    head -c 3000000 /dev/urandom > a/large; truncate -s 1G a/sparse
    printf x | dd of=a/sparse bs=1 seek=500000000 conv=notrunc status=none
    setfattr -n user.key -v value a/file
    chown 12:34 a/large; chmod 4711 a/large; chmod 000 a/b/c
    touch -d '1968-01-02 03:04:05.123456789' a/large; touch -h -d '2100-01-01' a/b/link
    touch -d '2001-01-01' a/b
";

#[test]
fn a_volume_keeps_its_tree_over_an_unmount() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    place.shell(TREE);
    let before = place.tree("m");
    place.unmount();
    place.mount("store:v", "");
    assert_eq!(place.tree("m"), before);
    place.unmount();
    let fsck = succeed(&mut place.hearth("fsck --data v"));
    assert!(fsck.ends_with(": clean\n"), "{fsck}");
    let info = place.json("info --json store:v");
    assert_eq!(
        (&info["state"], &info["clean"]),
        (&"clean".into(), &true.into()),
        "{info}"
    );
    assert_eq!(
        (&info["codec"], &info["cipher"]),
        (&"lz4".into(), &serde_json::Value::Null)
    );
    let text = succeed(&mut place.hearth("info v"));
    assert!(
        text.contains("state       clean") && text.contains("features    none"),
        "{text}"
    );
}

#[test]
fn what_was_synced_survives_a_kill() {
    let place = Place::with_volume("");
    place.mount("store:v", "commit=3600");
    place.shell("echo text > m/file; mkdir m/dir");
    succeed(&mut place.hearth("sync m"));
    place.kill();
    let info = place.info_after_its_end();
    // Idle work may have made a checkpoint since.
    assert!(
        info["state"] == "to replay" || info["state"] == "clean",
        "{info}"
    );
    place.mount("store:v", "");
    assert_eq!(place.shell("cat m/file; ls m"), "text\ndir\nfile\n");
    place.unmount();
    succeed(&mut place.hearth("fsck v"));
}

#[test]
fn only_a_person_or_the_option_create_makes_a_volume() {
    let place = Place::new();
    place.directory("empty");
    for source in ["store:empty", "store:new"] {
        let answer = said(&mut place.hearth(&format!("mount -o transport=dev {source} m")));
        refused(source, &answer, 1, &["no volume", "hearth mkfs"]);
    }
    // As mount(8) calls it, even from a terminal.
    let helper = place.at("mount.hearth");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hearth"), &helper).unwrap();
    let typed = format!(
        "{} store:empty {}",
        helper.display(),
        place.at("m").display()
    );
    let mut script = program("script");
    let answer = said(
        script
            .args(["-qec", &typed, "/dev/null"])
            .current_dir(place.path()),
    );
    assert!(
        !answer.success() && answer.out.contains("hearth mkfs"),
        "{answer:?}"
    );
    assert_eq!(
        place.shell("ls -A empty; ls -d new 2>/dev/null || true"),
        ""
    );
    assert_eq!(mounts_below(&place.at("m")), Vec::<PathBuf>::new());
    // By hand at a terminal, and by the option.
    let hearth = env!("CARGO_BIN_EXE_hearth");
    let typed = format!("{hearth} mount -o transport=dev --log log store:empty m");
    let mut script = program("script");
    let out = succeed(
        script
            .args(["-qec", &typed, "/dev/null"])
            .current_dir(place.path()),
    );
    assert!(out.contains("empty is a new volume"), "{out}");
    place.unmount();
    let mut mount = place.hearth("mount -o create,transport=dev --log log store:new m");
    let made = said(&mut mount);
    assert!(
        made.success() && made.err.contains("new is a new volume"),
        "{made:?}"
    );
    place.unmount();
    let mut mount = place.hearth("mount -o create,transport=dev --log log store:new m");
    let again = said(&mut mount);
    assert!(again.success() && again.err.is_empty(), "{again:?}");
    place.unmount();
}

/// What is typed beside `v`, a volume, `full`, a directory with a file, `file`, and `m`; the
/// status; words of the answer.
const WRONG: &[(&str, i32, &[&str])] = &[
    ("mkfs full", 1, &["full", "not empty", "empty directory"]),
    ("mkfs v", 1, &["v", "not empty", "a volume"]),
    ("mkfs file", 1, &["file", "no directory"]),
    (
        "mkfs no/such/v",
        1,
        &["its parent does not exist", "mkdir -p no/such"],
    ),
    (
        "mkfs new -o compress=zip",
        2,
        &["'compress=zip'", "zstd:LEVEL"],
    ),
    (
        "mkfs new -o memory=1G",
        2,
        &["'memory'", "size, compress, encrypt"],
    ),
    (
        "mkfs new -o encrypt=none",
        1,
        &["encrypt=none", "a file with the passphrase"],
    ),
    ("mkfs store:", 2, &["'store:'", "store:DIR"]),
    ("mkfs memory:", 2, &["'memory:'", "store:DIR"]),
    ("info full", 1, &["full", "no volume", "hearth mkfs"]),
    ("info file", 1, &["file", "no volume"]),
    ("info none", 1, &["none", "no volume"]),
    (
        "info v -o encrypt=file",
        1,
        &["is not encrypted", "leave encrypt out"],
    ),
    (
        "mount store:v m -o encrypt=file",
        1,
        &["is not encrypted", "leave encrypt out"],
    ),
    ("fsck full", 8, &["full", "no volume"]),
    ("fsck --repair full", 8, &["full", "no volume"]),
    ("fsck none", 8, &["none", "no volume"]),
    ("fsck", 16, &["<DIR>", "--help"]),
    ("fsck v --frob", 16, &["'--frob'", "--help"]),
    (
        "fsck v -o size=1G",
        16,
        &["'size'", "hearth fsck takes encrypt"],
    ),
    ("dump full out", 1, &["full", "no volume"]),
    (
        "dump v file",
        1,
        &["file", "exists already", "another name"],
    ),
    ("dump v no/such/file", 1, &["no/such/file", "can be made"]),
    ("load file new", 1, &["file", "no dump of a volume"]),
    ("load file store:new", 1, &["file", "no dump of a volume"]),
    ("load none store:new", 1, &["none", "'hearth dump' wrote"]),
    (
        "load file new -o size=1G",
        2,
        &["store:new", "leave them out"],
    ),
    (
        "passphrase v -o encrypt=file --new file",
        1,
        &["is not encrypted", "load it"],
    ),
    ("passphrase v --new file", 2, &["--options", "--help"]),
    ("sync m", 1, &["m: lies on ", "not on a Hearth mount"]),
    ("sync none", 1, &["none"]),
    ("mount store:full m", 1, &["full", "no volume"]),
    ("mount -o create store:full m", 1, &["full", "no volume"]),
    ("mount store:file m", 1, &["file", "no volume"]),
    ("mount -o create store:no/such/v m", 1, &["no/such/v"]),
    (
        "mount -o create store:new none",
        1,
        &["none", "does not exist"],
    ),
    ("mount -o create store:new full", 1, &["full", "not empty"]),
    (
        "mount -o create store:m/below m",
        1,
        &["below the mount point", "mount elsewhere"],
    ),
    ("mount store:v v", 1, &["below the mount point"]),
    (
        "mount store:v v/log",
        1,
        &["holds the mount point", "outside"],
    ),
    (
        "mount v/ m",
        1,
        &["/v/: is a Hearth volume", "use 'store:/"],
    ),
    ("mount -o commit=0 store:v m", 2, &["'commit=0'", "seconds"]),
    ("mount -o create memory: m", 2, &["'create'", "store:DIR"]),
];

#[test]
fn what_cannot_be_a_volume_is_refused_in_one_line_and_stays_as_it_is() {
    let place = Place::with_volume("");
    place.shell("mkdir full; echo x > full/inside; echo x > file");
    let (stamps, bytes) = (place.stamps("."), place.bytes("."));
    for (typed, status, words) in WRONG {
        refused(typed, &said(&mut place.hearth(typed)), *status, words);
        assert_eq!(place.stamps("."), stamps, "{typed}");
    }
    assert_eq!(place.bytes("."), bytes);
}

#[test]
fn a_newer_or_damaged_superblock_and_a_foreign_segment_are_named() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    place.shell("head -c 3000000 /dev/urandom > m/large; echo x > m/small");
    place.unmount();
    // A flipped bit in a block: the file is named, all else is read.
    let file = place.shell("find v/segments -type f -size +100k | head -1");
    let file = place.at(file.trim());
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    succeed(&mut place.hearth("fsck v"));
    let fsck = said(&mut place.hearth("fsck --data v"));
    assert_eq!(fsck.status.code(), Some(4), "{fsck:?}");
    assert!(
        fsck.out.contains("F055 loss   /large (inode "),
        "{}",
        fsck.out
    );
    let json = place.json("fsck --data --json v");
    assert_eq!(json["findings"][0]["code"], "F055", "{json}");
    assert_eq!(json["findings"][0]["path"], "/large");
    // A segment that ends early, and none at all.
    std::fs::write(&file, &bytes[..middle]).unwrap();
    let fsck = said(&mut place.hearth("fsck v"));
    assert!(
        fsck.out.contains("F043") && fsck.out.contains("F054"),
        "{fsck:?}"
    );
    std::fs::remove_file(&file).unwrap();
    let refused = said(&mut place.hearth("mount store:v m"));
    assert!(
        !refused.success() && refused.err.contains("the segment is missing"),
        "{refused:?}"
    );
    let fsck = said(&mut place.hearth("fsck --repair v"));
    assert_eq!(fsck.status.code(), Some(4), "{fsck:?}");
    assert!(fsck.out.contains("F042 loss   /large"), "{fsck:?}");
    for options in ["ro", "rw"] {
        place.mount("store:v", options);
        assert_eq!(
            place.shell("cat m/small; cat m/large > /dev/null 2>&1 || echo lost"),
            "x\nlost\n",
            "{options}"
        );
        if options == "rw" {
            place.shell("dd if=/dev/zero of=m/large bs=64k count=1 conv=notrunc,fsync");
        }
        place.unmount();
    }
    // What was lost and has been written since is no longer of that segment, whose record is gone.
    let json = place.json("fsck --json v");
    let codes = json["findings"].as_array().unwrap().iter();
    assert!(
        codes.map(|found| &found["code"]).all(|code| code == "F042"),
        "{json}"
    );
    // Both slots of a newer format, with digests that fit.
    let superblock = place.at("v/superblock");
    let mut bytes = std::fs::read(&superblock).unwrap();
    bytes[8] = 99;
    bytes[4096 + 8] = 99;
    std::fs::write(&superblock, &bytes).unwrap();
    let before = place.bytes("v");
    for typed in [
        "info v",
        "dump v out",
        "mount -o create store:v m",
        "mkfs v",
    ] {
        let answer = said(&mut place.hearth(typed));
        assert!(
            !answer.success() && answer.err.lines().count() == 1,
            "{typed}: {answer:?}"
        );
    }
    assert_eq!(place.bytes("v"), before);
}

#[test]
fn a_volume_in_use_is_looked_at_and_not_repaired() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    place.shell(TREE);
    succeed(&mut place.hearth("sync m"));
    place.shell("(for i in $(seq 200); do echo $i > m/f$i; rm -f m/f$((i-3)); done) &");
    for _ in 0..3 {
        let fsck = said(&mut place.hearth("fsck v"));
        assert!(fsck.success() && fsck.out.contains(": clean\n"), "{fsck:?}");
    }
    let user = place.at("m").display().to_string();
    for typed in [
        "fsck --repair v",
        "mount -o transport=dev store:v other",
        "load d.tar store:v",
    ] {
        place.shell("mkdir -p other; test -e d.tar || \"$HEARTH\" dump v d.tar > /dev/null");
        let answer = said(&mut place.hearth(typed));
        assert!(
            !answer.success() && answer.err.contains(&user),
            "{typed}: {answer:?}"
        );
        assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    }
    let info = place.json("info --json v");
    assert_eq!(info["state"], "in use", "{info}");
    assert!(info["used_by"].as_str().unwrap().contains(&user), "{info}");
    place.shell("wait");
    place.unmount();
    succeed(&mut place.hearth("fsck --repair v"));
}

/// The collector of the writer removed segments that a read-only mount read: EIO for good files.
#[test]
fn a_store_has_one_writer_or_several_readers() {
    let place = Place::with_volume("");
    place.directory("other");
    place.mount("store:v", "");
    let user = place.at("m").display().to_string();
    let read = "mount -o ro,transport=dev store:v other";
    let beside_a_writer = |what: &str| {
        let said = place.say(read);
        refused(what, &said, 1, &[&*user, "unmount it there", "hearth dump"]);
    };
    beside_a_writer("a reader");
    for typed in ["info v", "fsck v", "dump v d.tar"] {
        place.done(typed);
    }
    // A remount changes who may write to the mount, not who has the store.
    place.done("mount -o remount,ro m");
    beside_a_writer("a reader of what is remounted");
    place.done("mount -o remount,rw m");
    place.shell("head -c 5M /dev/urandom > m/big");
    place.unmount();

    place.mount("store:v", "ro");
    place.done(read);
    let daemon = harness::pids_naming(&place.at("m"))[0].to_string();
    let write = "mount -o transport=dev store:v third";
    place.directory("third");
    let said = place.say(write);
    refused(
        "a writer",
        &said,
        1,
        &["which reads it", "unmount it there"],
    );
    let is_named = |said: &harness::Said| said.err.contains(&format!("process {daemon},"));
    place.done("umount other");
    harness::until("the first reader is named", || is_named(&place.say(write)));
    let remount = place.say("mount -o remount,rw m");
    refused("rw", &remount, 1, &["opened for reading"]);
    assert_eq!(std::fs::read(place.at("m/big")).unwrap().len(), 5 << 20);
    place.unmount();

    // A disk that can only be read needs no lock.
    std::fs::remove_file(place.at("v/lock")).unwrap();
    place.shell("mount --bind v v; mount -o remount,ro,bind v");
    place.mount("store:v", "ro");
    place.unmount();
    place.shell("umount v");
    // A copy without the file gets one.
    place.mount("store:v", "ro");
    let said = place.say(write);
    refused("a writer of a copy", &said, 1, &["unmount it there"]);
    // umount(8) does not wait for the reader's daemon, so the writer does.
    place.shell("umount m");
    place.mount("store:v", "");
    place.unmount();
}

/// A load passed the size of its volume, and forgot the one of the volume that was dumped.
#[test]
fn a_load_keeps_the_size_of_the_volume_and_does_not_pass_it() {
    let place = Place::with_volume("size=200M");
    place.mount("store:v", "");
    place.shell("head -c 2400000 /dev/urandom > m/f; setfattr -n user.k -v v m/f");
    place.unmount();
    place.done("dump v d.tar");
    let said = place.say("load -o size=1M d.tar store:small");
    let words = ["take 2400256 bytes", "size=2400256", "a part", "remove it"];
    refused("a load", &said, 1, &words);
    let mount = place.say("mount store:small m");
    refused("a mount of it", &mount, 1, &["a part of a dump"]);
    place.done("load d.tar store:w");
    assert_eq!(place.json("info --json w")["size"], 200 << 20);
    place.done("load -o size=2400256 d.tar store:x");
    place.mount("store:x", "");
    let free = succeed(&mut shell(&place.at("m"), "stat -f -c %f ."));
    assert_eq!(free.trim(), "0");
    place.unmount();
}

/// It was "damaged", of a healthy volume.
#[test]
fn a_volume_that_a_user_may_not_read_is_not_called_damaged() {
    let place = Place::with_volume("");
    // As older versions made it.
    place.shell("chmod -R go+rX .; chmod 700 v/engine");
    let user = "setpriv --reuid 65534 --regid 65534 --clear-groups \"$HEARTH\" info";
    for typed in ["v", "--json v"] {
        let mut shell = shell(place.path(), &format!("{user} {typed}"));
        let said = said(shell.env("HEARTH", env!("CARGO_BIN_EXE_hearth")));
        refused(typed, &said, 1, &["not readable", "v/engine", "as root"]);
    }
    assert_eq!(place.json("info --json v")["state"], "clean");
}

/// It was "no superblock; hearth mkfs makes one".
#[test]
fn a_directory_that_is_served_is_said_to_be_served() {
    let place = Place::new();
    place.directory("srv");
    place.mount(&format!("host:{}", place.at("srv").display()), "");
    let at = place.at("m").display().to_string();
    for (typed, status) in [("info srv", 1), ("dump srv d.tar", 1), ("fsck srv", 8)] {
        let words = ["srv: no volume", "served", &*format!("hearth info {at}")];
        refused(typed, &place.say(typed), status, &words);
    }
    place.unmount();
}

/// It was `'.', open: ENOENT`.
#[test]
fn a_volume_that_was_never_mounted_is_dumped_as_its_root_and_loaded_again() {
    let place = Place::with_volume("");
    place.shell("chown 1234:1235 v");
    let before = place.bytes("v");
    let dumped = succeed(&mut place.hearth("dump v d.tar"));
    assert!(dumped.starts_with("hearth: d.tar: 1 names, "), "{dumped}");
    assert_eq!(place.bytes("v"), before, "a dump changes nothing");
    let listed = place.shell("tar --numeric-owner -tvf d.tar 2>/dev/null");
    assert!(listed.starts_with("drwxr-xr-x 1234/1235 "), "{listed}");
    assert_eq!(listed.lines().count(), 1, "{listed}");
    succeed(&mut place.hearth("load d.tar store:w"));
    assert!(succeed(&mut place.hearth("fsck --data w")).ends_with(": clean\n"));
    place.mount("store:w", "");
    assert_eq!(
        place.shell("stat -c %a:%u:%g m; ls -A m"),
        "755:1234:1235\n"
    );
    place.unmount();
    succeed(&mut place.hearth("load d.tar plain"));
    assert_eq!(
        place.shell("stat -c %a:%u:%g plain; ls -A plain"),
        "755:1234:1235\n"
    );
}

#[test]
fn a_dump_is_loaded_into_a_volume_and_into_a_directory() {
    let place = Place::with_volume("");
    place.mount("store:v", "");
    place.shell(TREE);
    let tree = place.tree("m");
    place.unmount();
    let before = place.bytes("v");
    succeed(&mut place.hearth("dump v d.tar"));
    assert_eq!(place.bytes("v"), before, "a dump changes nothing");
    assert!(
        place
            .shell("tar -tf d.tar 2>/dev/null")
            .contains("a/b/link\n")
    );
    succeed(&mut place.hearth("load d.tar store:w -o compress=zstd:9"));
    place.mount("store:w", "");
    assert_eq!(place.tree("m"), tree);
    place.unmount();
    assert!(succeed(&mut place.hearth("fsck --data w")).ends_with(": clean\n"));
    succeed(&mut place.hearth("load d.tar plain"));
    assert_eq!(place.tree("plain"), tree);
    let blocks = place.at("plain/a/sparse").metadata().unwrap().blocks();
    assert!(blocks < 1000, "{blocks}");
    // The two as a pipe, into a directory that has files, and cut short.
    let hearth = env!("CARGO_BIN_EXE_hearth");
    place.shell(&format!("{hearth} dump v | {hearth} load - x"));
    assert_eq!(place.tree("x"), tree);
    let full = said(&mut place.hearth("load d.tar x"));
    refused(
        "load into files",
        &full,
        1,
        &["x", "a new or an empty place"],
    );
    place.shell("head -c 100000 d.tar > cut.tar");
    let cut = said(&mut place.hearth("load cut.tar store:y"));
    refused(
        "a dump that is cut",
        &cut,
        1,
        &["y", "ends too early", "remove it"],
    );
}

#[test]
fn an_encrypted_volume_opens_with_its_passphrase_alone() {
    let place = Place::new();
    place.shell("printf 'one\\n' > one; printf two > two");
    succeed(&mut place.hearth("mkfs v -o encrypt=one"));
    let wrong: &[(&str, &[&str])] = &[
        (
            "mount -o transport=dev store:v m",
            &["encrypted", "encrypt=FILE"],
        ),
        (
            "mount -o transport=dev,encrypt=two store:v m",
            &["no key", "passphrase"],
        ),
        ("dump v out", &["encrypted", "encrypt=FILE"]),
        (
            "passphrase v -o encrypt=two --new one",
            &["no key", "passphrase"],
        ),
    ];
    let before = place.bytes("v");
    for (typed, words) in wrong {
        refused(typed, &said(&mut place.hearth(typed)), 1, words);
        assert_eq!(place.bytes("v"), before, "{typed}");
    }
    assert_eq!(said(&mut place.hearth("fsck v")).status.code(), Some(8));
    place.mount("store:v", "encrypt=one");
    place.shell("echo some-secret-text > m/some-secret-name; cd m; ln -s some-secret-target l");
    place.unmount();
    let found = place.shell("grep -rlE 'some-secret|one$' v || true");
    assert_eq!(found, "", "what is on the disk");
    succeed(&mut place.hearth("passphrase v -o encrypt=one --new two"));
    let old = said(&mut place.hearth("fsck v -o encrypt=one"));
    assert_eq!(old.status.code(), Some(8), "{old:?}");
    let fsck = succeed(&mut place.hearth("fsck --data v -o encrypt=two"));
    assert!(fsck.ends_with(": clean\n"), "{fsck}");
    let mut mount = place.hearth("mount -o transport=dev,encrypt=env --log log store:v m");
    succeed(mount.env("HEARTH_PASSPHRASE", "two"));
    assert_eq!(
        place.shell("cat m/some-secret-name; readlink m/l"),
        "some-secret-text\nsome-secret-target\n"
    );
    place.unmount();
    assert_eq!(place.json("info --json v")["cipher"], "xchacha20-poly1305");
    assert_eq!(place.json("info --json v")["state"], "locked");
}

#[test]
fn a_full_disk_and_a_read_only_one_are_named_at_mkfs() {
    let place = Place::new();
    place.directory("disk");
    let script = "
        mount -t tmpfs -o size=20m tmpfs disk
        trap 'umount disk' EXIT
        \"$HEARTH\" mkfs disk/v 2>&1 || true
        ls -A disk
        mount -o remount,ro disk
        \"$HEARTH\" mkfs disk/w 2>&1 || true
        ls -A disk
    ";
    let mut namespace = program("unshare");
    namespace.args(["--mount", "bash", "-euo", "pipefail", "-c", script]);
    namespace.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    let out = succeed(namespace.current_dir(place.path()));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(
        lines[0].contains("disk/v: no room")
            && lines[0].contains("takes 129 MiB")
            && lines[0].contains("add room"),
        "{out}"
    );
    assert!(
        lines[1].contains("disk/w") && lines[1].to_lowercase().contains("read-only"),
        "{out}"
    );
}

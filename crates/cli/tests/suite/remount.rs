//! `mount -o remount,...`, `mount -a` and the other ways in which mount(8) calls its helper.

use crate::harness;

use harness::{Below, Mounted, Private, Transport, hearth, program, said, succeed, until};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A bash script in a mount namespace of its own where mount(8) finds the helpers.
fn script(directory: &Path, text: &str) -> Command {
    let bin = directory.join("bin");
    fs::create_dir(&bin).unwrap();
    for helper in ["mount.hearth", "mount.fuse.hearth"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hearth"), bin.join(helper)).unwrap();
    }
    let install = "sbin=$(realpath /sbin)
        mount -t overlay -o \"lowerdir=$PWD/bin:$sbin\" overlay \"$sbin\"
        has() { findmnt -n -o VFS-OPTIONS \"$2\" | tr , '\\n' | grep -qx \"$1\"; }
        lacks() { ! has \"$1\" \"$2\"; }
        refused() { if \"$@\" > said 2>&1; then echo \"not refused: $*\"; exit 1; fi; cat said; }
        trap 'umount -l m 2> /dev/null || true' EXIT";
    let mut namespace = program("unshare");
    namespace.args(["--mount", "bash", "-euo", "pipefail", "-c"]);
    namespace.arg(format!("{install}\n{text}"));
    namespace.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    namespace.current_dir(directory);
    namespace
}

/// What a script printed; it has to work, and its daemon to end.
fn run(text: &str) -> String {
    harness::demand_root();
    let private = Private::new();
    let place = private.directory("m");
    let out = succeed(&mut script(private.path(), text));
    until("the daemon ends", || {
        harness::pids_naming(&place).is_empty()
    });
    out
}

#[test]
fn flags_of_a_mount_change_while_files_are_open() {
    let out = run("mount -t hearth memory: m -o transport=dev
        cp /bin/true m/true; exec 3< m/true; m/true
        mount -o remount,noexec,nosuid,nodev m
        has noexec m; has nosuid m; has nodev m; has rw m
        if m/true 2> /dev/null; then exit 1; fi
        mount -o remount,exec,suid m
        lacks noexec m; lacks nosuid m; has nodev m
        m/true
        mount -o remount,noatime,nodiratime m
        has noatime m; has nodiratime m; cat m/.hearth/sys/fs/atime
        mount -o remount,strictatime m
        lacks noatime m; cat m/.hearth/sys/fs/atime
        mount -o remount,relatime,hot_track m
        has relatime m; cat m/.hearth/sys/fs/atime m/.hearth/sys/fs/hot-track
        exec 3<&-; umount m");
    assert_eq!(out, "noatime\nstrictatime\nrelatime\n1\n");
}

#[test]
fn a_volume_becomes_read_only_and_writable_again_for_all_who_use_it() {
    let out = run("mount -t hearth memory: m -o transport=dev
        echo 1 > m/f
        exec 3> m/open
        refused mount -o remount,ro m
        echo 2 > m/f; cat m/.hearth/sys/fs/read-only
        exec 3>&-
        mount -o remount,ro m
        has ro m; cat m/.hearth/sys/fs/read-only
        refused touch m/g
        mount -o remount,rw m
        has rw m; cat m/.hearth/sys/fs/read-only
        echo 3 > m/f; cat m/f; umount m
        mount -t hearth memory: m -o ro,transport=dev
        has ro m; mount -o remount,rw m; touch m/g; ls m; umount m");
    let lines: Vec<&str> = out.lines().collect();
    let [busy, before, ro, refused, rw, text, listed] = &lines[..] else {
        panic!("{out}");
    };
    assert!(busy.contains("files are open for writing"), "{busy}");
    assert_eq!(
        (*before, *ro, *rw, *text, *listed),
        ("0", "1", "0", "3", "g")
    );
    assert!(refused.contains("Read-only file system"), "{refused}");
}

/// `systemctl reload NAME.mount` runs exactly `mount WHAT WHERE -o remount,OPTIONS [-s] [-w] -t
/// TYPE`, with the options of the unit: `mount_enter_remounting` in systemd's `src/core/mount.c`.
/// `-s` is `SloppyOptions=`, `-w` is `ReadWriteOnly=`.
#[test]
fn a_unit_that_systemd_reloads_gets_the_flags_that_it_has_now() {
    let out = run("unit() { echo \"mount store:$PWD/v $PWD/m\"; }
        options=create,size=64m,transport=dev,nosuid,x-systemd.automount,_netdev
        $(unit) -o $options -t hearth
        echo kept > m/f
        for flags in '' '-s' '-w' '-s -w'; do
            $(unit) -o remount,$options $flags -t hearth
        done
        has nosuid m; lacks nodev m
        # As the file of the unit was changed meanwhile.
        $(unit) -o remount,$options,nodev,noatime -t hearth
        has nosuid m; has nodev m; has noatime m
        $(unit) -o remount,${options/nosuid,},ro -t fuse.hearth
        lacks nosuid m; lacks nodev m; has ro m
        $(unit) -o remount -t hearth; has rw m
        refused $(unit) -o remount,${options/64m/32m} -t hearth
        cat m/f; umount m");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].contains("option 'size=32m' cannot change while it is mounted"),
        "{out}"
    );
    assert_eq!(lines.last(), Some(&"kept"), "{out}");
}

#[test]
fn what_the_kernel_keeps_of_a_filesystem_is_refused_unless_it_is_so() {
    let out = run("mount -t hearth memory: m -o transport=dev
        shown=$(findmnt -n -o FS-OPTIONS m); mount -o remount,nodev,$shown m; has nodev m
        for option in max_read=4096 user_id=7 group_id=7 blksize=512 rootmode=100000; do
            refused mount -o remount,nosuid,$option m; lacks nosuid m
            refused \"$HEARTH\" mount -o remount,nosuid,$option m; lacks nosuid m
        done
        mount -o remount,nosuid,allow_other m; has nosuid m
        umount m");
    let told = out.matches("cannot change while it is mounted").count();
    assert_eq!(told, 8, "{out}");
    assert_eq!(out.matches("option 'max_read=4096'").count(), 2, "{out}");
    assert_eq!(
        out.matches("unknown mount option 'rootmode'").count(),
        2,
        "{out}"
    );
}

/// The kernel would keep it as it is, and say nothing.
#[test]
fn a_mount_that_others_may_not_use_is_not_opened_to_them_by_a_remount() {
    harness::demand_root();
    let private = Private::new();
    let place = private.directory("m");
    succeed(program("chown").arg("daemon:daemon").arg(&place));
    let as_user = "setpriv --reuid daemon --regid daemon --clear-groups env HOME=/nowhere";
    let typed = format!(
        "{as_user} \"$HEARTH\" mount m -o transport=dev
        if \"$HEARTH\" mount -o remount,nosuid,allow_other m 2> said; then exit 1; fi
        cat said; {as_user} \"$HEARTH\" umount m"
    );
    let device = "mknod -m 666 /dev/fuse c 10 229";
    let out = succeed(&mut harness::with_devices(&private, device, &typed));
    let told = "option 'allow_other' cannot change while it is mounted";
    assert!(out.contains(told), "{out}");
    until("the daemon ends", || {
        harness::pids_naming(&place).is_empty()
    });
}

/// mount(8) with more than a unit says.
#[test]
fn what_systemd_asks_for_at_a_reload_is_done_with_all_options_of_fstab() {
    let out = run("options=rw,nosuid,size=64m,transport=dev
        echo \"memory: $PWD/m hearth $options,x-systemd.automount 0 0\" > fstab
        mount --fstab fstab m
        echo kept > m/f
        mount memory: $PWD/m -o remount,$options,noexec -t hearth
        has noexec m; has nosuid m
        mount --fstab fstab -o remount,ro m; has ro m
        mount --fstab fstab -o remount m; has rw m
        refused mount memory: $PWD/m -o remount,rw,size=128m,transport=dev -t hearth
        refused mount -o remount,nonsense m
        cat m/f; umount m
        refused mount -o remount,ro,frobnicate -t hearth memory: $PWD/m");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].contains("option 'size=128m' cannot change while it is mounted"),
        "{out}"
    );
    assert!(out.contains("unknown mount option 'nonsense'"), "{out}");
    assert!(lines.contains(&"kept"), "{out}");
    assert!(out.contains("nothing of Hearth is mounted here"), "{out}");
}

#[test]
fn a_helper_is_silent_unless_it_is_asked_to_speak() {
    let out = run("mount -t hearth memory: m -o transport=dev; umount m
        mount -t fuse.hearth memory: m -o transport=dev; mount -o remount,nodev m; umount m
        echo \"memory: $PWD/m hearth transport=dev 0 0\" > fstab
        mount --fstab fstab -a; mount --fstab fstab -a; findmnt -n -o FSTYPE,SOURCE m; umount m
        mount --fstab fstab -a; kill -9 $(cat m/.hearth/pid); sleep 0.2
        mount --fstab fstab m 2>&1; touch m/again; umount m
        mount -v -t hearth memory: m -o transport=dev; mount -v -o remount,nodev m; umount m");
    let lines: Vec<&str> = out.lines().collect();
    let [mounted, rest @ ..] = &lines[..] else {
        panic!("nothing was said");
    };
    let words: Vec<&str> = mounted.split_whitespace().collect();
    assert_eq!(words, ["fuse.hearth", "memory"], "{out}");
    let ours = rest.iter().filter(|line| line.starts_with("hearth: "));
    let ours: Vec<&str> = ours.copied().collect();
    assert_eq!(ours.len(), 2, "{out}");
    assert!(ours[0].ends_with("transport dev"), "{out}");
    assert!(ours[1].ends_with(": remounted"), "{out}");
    assert!(
        rest.iter()
            .all(|line| ours.contains(line) || line.starts_with("mount: ")),
        "{out}"
    );
}

/// Once, it was silent, and quotas that somebody had asked for were not there.
#[test]
fn a_mount_that_is_there_already_with_other_options_says_so() {
    let out = run(
        "echo \"memory: $PWD/m hearth transport=dev,size=10m,nosuid 0 0\" > fstab
        mount --fstab fstab -a 2>&1; mount --fstab fstab -a 2>&1
        sed -i s/10m/99m/ fstab; mount --fstab fstab -a 2>&1
        mount -t hearth memory: m -o size=10m,hot_track 2>&1
        mount -t hearth memory: m -o ro 2>&1; df --output=size m | tail -1; umount m",
    );
    let lines: Vec<&str> = out.lines().collect();
    let said = [
        "option 'size=99m' cannot change while it is mounted; unmount it, and mount it with",
        "is not mounted with 'hot_track'; use 'mount -o remount,hot_track ",
        "is not mounted with 'ro'; use 'mount -o remount,ro ",
        "10240",
    ];
    assert_eq!(lines.len(), said.len(), "{out}");
    for (line, said) in lines.iter().zip(said) {
        assert!(line.contains(said), "{line}");
    }
}

/// Without SELinux the kernel would refuse them; with it the kernel takes them.
#[test]
fn contexts_are_for_the_kernel() {
    let out = run("context='context=\"system_u:object_r:tmp_t:s0:c1,c2\"'
        mount -t hearth memory: m -o \"$context,nodev,transport=dev\"
        has nodev m; touch m/f; ls m; umount m");
    assert_eq!(out, "f\n");
}

#[test]
fn a_directory_of_the_host_keeps_the_flags_of_its_own_mount() {
    let below = Below::ext4();
    let mounted = Mounted::over(Transport::Dev, below.path(), "");
    let remount = |options: &str| {
        let mut mount = hearth();
        mount.args(["mount", "-o", options]);
        said(mount.arg(mounted.path()))
    };
    for options in ["remount,ro", "remount,rw,nosuid", "remount,suid"] {
        let said = remount(options);
        assert!(said.success(), "{options}: {said:?}");
        let written = fs::write(mounted.at("f"), options);
        assert_eq!(
            written.is_ok(),
            options != "remount,ro",
            "{options}: {written:?}"
        );
    }
    let refused = remount("remount,noatime");
    assert!(refused.err.contains("leave the option out"), "{refused:?}");
    // A link that somebody has put in the place of a control file is not followed.
    let precious = mounted.outside("outside").join("precious");
    fs::write(&precious, "old").unwrap();
    fs::create_dir_all(mounted.at("tree/sys/fs")).unwrap();
    std::os::unix::fs::symlink(&precious, mounted.at("tree/sys/fs/read-only")).unwrap();
    fs::write(
        below.at("stats"),
        "hearth_info{source=\"store:x\",options=\"ro\"} 1\n",
    )
    .unwrap();
    fs::rename(below.at("stats"), below.at("tree/stats")).unwrap();
    fs::rename(below.at("tree"), below.at(".hearth")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    for options in ["remount,ro", "remount,rw"] {
        let said = remount(options);
        assert!(said.success(), "{options}: {said:?}");
    }
    assert_eq!(fs::read(&precious).unwrap(), b"old");
    fs::remove_dir_all(below.at(".hearth")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    succeed(
        program("mount")
            .args(["-o", "remount,nosuid"])
            .arg(below.path()),
    );
    let refused = remount("remount,suid");
    assert!(
        refused.err.contains("is mounted with 'nosuid'"),
        "{refused:?}"
    );
}

#[test]
fn a_store_that_was_opened_for_reading_stays_so() {
    let mounted = Mounted::new(Transport::Dev, "create");
    fs::write(mounted.at("f"), "x").unwrap();
    let remount = |options: &str| {
        let mut mount = hearth();
        mount.args(["mount", "-o", options]);
        said(mount.arg(mounted.path()))
    };
    assert!(remount("remount,ro").success());
    fs::write(mounted.at("g"), "x").unwrap_err();
    assert!(remount("remount,rw").success());
    fs::write(mounted.at("g"), "x").unwrap();
    mounted.unmount();
    mounted.mount_again(Transport::Dev, "ro,create");
    let refused = remount("remount,rw");
    assert!(refused.err.contains("opened for reading"), "{refused:?}");
    fs::write(mounted.at("h"), "x").unwrap_err();
}

/// What a refused change had begun is undone, and no more than that.
#[test]
fn a_refused_remount_leaves_the_volume_as_it_was() {
    let out = run("mount -t hearth memory: m -o transport=dev; echo x > m/f
        \"$HEARTH\" tune m fs/atime=strictatime; exec 5>> m/f; echo 1 > m/.hearth/sys/fs/read-only
        refused \"$HEARTH\" mount -o remount,ro,noatime m
        cat m/.hearth/sys/fs/read-only m/.hearth/sys/fs/atime; exec 5>&-
        \"$HEARTH\" mount -o remount,rw m; cat m/.hearth/sys/fs/read-only; touch m/g
        \"$HEARTH\" mount -o remount,ro m
        refused \"$HEARTH\" mount -o remount,hot_track m
        cat m/.hearth/sys/fs/hot-track; umount m");
    let facts = ["1", "strictatime", "0", "0"];
    let seen = out.lines().filter(|line| facts.contains(line));
    assert_eq!(seen.collect::<Vec<_>>(), facts, "{out}");
    assert!(out.contains("files are open for writing"), "{out}");
    assert!(out.contains("while the mount is read-only"), "{out}");
}

/// Regression: a mount with a name of its own was not known again, and one whose name was that of
/// another directory counted as that one.
#[test]
fn what_is_mounted_there_already_is_known_by_what_it_serves() {
    let out = run("mkdir a:b a_b
        for round in 1 2; do
            mount -t hearth \"host:$PWD/a:b\" m -o transport=dev,fsname=other
        done
        refused mount -t hearth \"host:$PWD/a_b\" m -o transport=dev
        umount m
        mount -t hearth \"host:$PWD/a:b\" m -o transport=dev
        refused mount -t hearth \"host:$PWD/a_b\" m -o transport=dev
        umount m
        for round in 1 2; do mount -t hearth memory: m -o transport=dev,fsname=other; done
        umount m");
    assert_eq!(out.matches("already mounted").count(), 2, "{out}");
}

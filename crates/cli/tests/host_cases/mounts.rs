//! Mounts below, above and around.

use crate::case::{Case, WAIT};
use crate::harness::{Below, Mounted, Private, Transport, hearth, program, said, shell, succeed};
use std::fs;
use std::path::Path;
use std::thread::sleep;

fn mount(words: &[&str], place: &Path) {
    succeed(program("mount").args(words).arg(place));
}

fn umount(place: &Path) -> bool {
    said(program("umount").arg(place)).success()
}

fn umounted(place: &Path) {
    crate::harness::until("nothing keeps it busy", || umount(place));
}

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn hr24_a_filesystem_below_can_be_unmounted_also_under_a_running_find() {
    let below = Below::ext4();
    fs::create_dir(below.at("sub")).unwrap();
    let case = Case::over(below);
    let sub = case.below.at("sub");
    mount(&["-t", "tmpfs", "x"], &sub);
    succeed(&mut shell(&sub, "mkdir -p {1..30}/{1..30}"));
    assert_eq!(case.mounted.shell("find sub -ls | wc -l"), "931\n");
    umounted(&sub);
    sleep(WAIT);
    assert_eq!(case.mounted.shell("ls -A sub"), "");
    mount(&["-t", "tmpfs", "x"], &sub);
    succeed(&mut shell(&sub, "mkdir -p {1..30}/{1..30}"));
    let mut find = shell(
        case.mounted.path(),
        "for i in $(seq 20); do find sub -ls; done > /dev/null 2>&1 || true",
    );
    let find = std::thread::spawn(move || said(&mut find));
    umounted(&sub);
    find.join().unwrap();
    // Idle files do not keep the source from becoming read-only.
    case.mounted.shell("touch a; cat a; find . -ls > /dev/null");
    let read_only = || {
        let mut remount = program("mount");
        said(remount.args(["-o", "remount,ro"]).arg(case.below.path())).success()
    };
    crate::harness::until("nothing has it open for writing", read_only);
    assert_eq!(
        errno(fs::write(case.mounted.at("b"), "")),
        Some(libc::EROFS)
    );
}

#[test]
fn hr25_mounts_of_before_and_after_are_seen_and_one_over_the_root_is_not() {
    let below = Below::ext4();
    for name in ["before", "after"] {
        fs::create_dir(below.at(name)).unwrap();
    }
    mount(&["-t", "tmpfs", "x"], &below.at("before"));
    fs::write(below.at("before/f"), "before").unwrap();
    let case = Case::over(below);
    mount(&["-t", "tmpfs", "x"], &case.below.at("after"));
    fs::write(case.below.at("after/f"), "after").unwrap();
    for name in ["before", "after"] {
        let file = case.mounted.at(name).join("f");
        assert_eq!(fs::read_to_string(file).unwrap(), name);
    }
    // As a bind mount of it would show the directory of before.
    mount(&["-t", "tmpfs", "x"], case.below.path());
    sleep(WAIT);
    assert_eq!(case.mounted.shell("ls"), "after\nbefore\n");
    assert_eq!(case.mounted.shell("cat before/f"), "before");
    umounted(case.below.path());
    for name in ["before", "after"] {
        umounted(&case.below.at(name));
    }
    sleep(WAIT);
    assert_eq!(
        case.mounted.shell("ls -A before after"),
        "after:\n\nbefore:\n"
    );
}

#[test]
fn hr26_what_is_moved_between_filesystems_is_where_it_was_told_to_be() {
    let below = Below::ext4();
    for name in ["sub", "d1", "d2"] {
        fs::create_dir(below.at(name)).unwrap();
    }
    mount(&["-t", "tmpfs", "x"], &below.at("sub"));
    let case = Case::over(below);
    let said = case.mounted.shell(
        "echo x > f; mv f sub/; ls sub; ! ln sub/f l 2> /dev/null; ls; mkdir d; echo y > d/g
         mv d sub/; cat sub/d/g; ls",
    );
    assert_eq!(said, "f\nd1\nd2\nsub\ny\nd1\nd2\nsub\n");
    let binds = ["b1", "b2"].map(|name| case.mounted.outside(name));
    for (bind, name) in binds.iter().zip(["d1", "d2"]) {
        let from = case.mounted.at(name);
        mount(&["--bind", from.to_str().unwrap()], bind);
    }
    fs::write(binds[0].join("q"), "q").unwrap();
    let crossed = fs::rename(binds[0].join("q"), binds[1].join("q"));
    assert_eq!(errno(crossed), Some(libc::EXDEV));
    succeed(program("mv").arg(binds[0].join("q")).arg(&binds[1]));
    assert_eq!(case.mounted.shell("ls d1 d2"), "d1:\n\nd2:\nq\n");
    binds.iter().for_each(|bind| umounted(bind));
    umounted(&case.below.at("sub"));
}

#[test]
fn hr27_what_has_left_the_tree_is_not_reached_by_a_path() {
    let below = Below::ext4();
    fs::create_dir(below.at("sub")).unwrap();
    fs::create_dir(below.at("outside")).unwrap();
    fs::create_dir(below.at("tree")).unwrap();
    fs::create_dir(below.at("tree/sub")).unwrap();
    fs::write(below.at("outside/f"), "secret").unwrap();
    let mounted = Mounted::over(Transport::Dev, &below.at("tree"), "");
    let outside = below.at("outside");
    mount(
        &["--bind", outside.to_str().unwrap()],
        &below.at("tree/sub"),
    );
    sleep(WAIT);
    assert_eq!(fs::read(mounted.at("sub/f")).unwrap(), b"secret");
    umounted(&below.at("tree/sub"));
    let gone = errno(fs::read(mounted.at("sub/f")));
    assert!(
        [Some(libc::ENOENT), Some(libc::ESTALE)].contains(&gone),
        "{gone:?}"
    );
    // The same filesystem, whose handles lead everywhere.
    fs::write(below.at("tree/g"), "moved").unwrap();
    assert_eq!(fs::read(mounted.at("g")).unwrap(), b"moved");
    fs::rename(below.at("tree/g"), below.at("outside/g")).unwrap();
    sleep(WAIT);
    assert_eq!(errno(fs::read(mounted.at("g"))), Some(libc::ENOENT));
}

#[test]
fn hr28_a_home_inside_the_source_makes_nothing_wait() {
    let below = Below::ext4();
    fs::create_dir(below.at("home")).unwrap();
    let place = below.outside("place");
    let mut mount = hearth();
    mount.args(["mount", "-o", "transport=dev"]);
    mount
        .env("HOME", below.at("home"))
        .env("XDG_STATE_HOME", below.at("home"));
    succeed(mount.arg(below.path()).arg(&place));
    let found = succeed(&mut shell(&place, "timeout 10 find . | sort"));
    assert!(found.starts_with(".\n./home\n"), "{found}");
    succeed(hearth().arg("umount").arg(&place));
}

/// All access goes through the mount then.
#[test]
fn hr29_the_mount_bound_over_its_source_works() {
    let case = Case::over(Below::ext4());
    fs::write(case.below.at("f"), "in").unwrap();
    let mounted = case.mounted.path().to_str().unwrap();
    mount(&["--bind", mounted], case.below.path());
    let before = case.mounted.stat("hearth_op_seconds_count{op=\"create\"}");
    let said = succeed(&mut shell(
        case.below.path(),
        "timeout 10 ls; timeout 10 touch x; timeout 10 cat f; rm x",
    ));
    assert_eq!(said, "f\nin");
    let after = case.mounted.stat("hearth_op_seconds_count{op=\"create\"}");
    assert!(after > before, "{before} {after}");
    umounted(case.below.path());
    assert_eq!(fs::read(case.below.at("f")).unwrap(), b"in");
}

#[test]
fn hr30_loops_that_are_made_later_make_nobody_wait_for_himself() {
    let below = Below::tmpfs();
    let case = Case::over(below);
    for name in ["loop", "low", "old"] {
        fs::create_dir(case.below.at(name)).unwrap();
    }
    fs::write(case.below.at("f"), "in").unwrap();
    let side = Below::tmpfs();
    for name in ["u", "w"] {
        fs::create_dir(side.at(name)).unwrap();
    }
    // An overlay on the source, with the mount as its lower layer.
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        case.mounted.path().display(),
        side.at("u").display(),
        side.at("w").display()
    );
    mount(&["-t", "overlay", "-o", &options, "o"], case.below.path());
    let script = "timeout 10 ls -l > /dev/null; timeout 10 cat f; timeout 10 touch new";
    assert_eq!(succeed(&mut shell(case.below.path(), script)), "in");
    umounted(case.below.path());
    assert!(side.at("u/new").exists() && !case.below.at("new").exists());
    // The mount below itself.
    let mounted = case.mounted.path().to_str().unwrap();
    mount(&["--bind", mounted], &case.below.at("loop"));
    sleep(WAIT);
    let found = "timeout 10 find . -maxdepth 8 2> /dev/null | wc -l";
    let found = succeed(&mut shell(
        case.mounted.path(),
        &format!("({found}) || true"),
    ));
    assert!(found.trim().parse::<u32>().unwrap() < 10, "{found}");
    umounted(&case.below.at("loop"));
    // It becomes the root of others.
    let mut pivot = program("unshare");
    pivot.args(["-m", "bash", "-euc"]);
    pivot.arg("mount --make-rprivate /; cd \"$M\"; pivot_root . old; read x < /f || echo $x");
    pivot.env("M", case.mounted.path());
    assert_eq!(succeed(&mut pivot), "in\n");
}

/// The kernel ends the connection of all when one bind of a directory is unmounted by force.
#[test]
fn hr31_an_unmount_without_force_of_a_bind_leaves_the_mount() {
    let case = Case::over(Below::tmpfs());
    fs::create_dir(case.mounted.at("d")).unwrap();
    let private = Private::new();
    for words in [&[][..], &["-l"]] {
        let bind = private.path().join("bind");
        fs::create_dir_all(&bind).unwrap();
        let from = case.mounted.at("d");
        mount(&["--bind", from.to_str().unwrap()], &bind);
        fs::write(bind.join("f"), "x").unwrap();
        succeed(program("umount").args(words).arg(&bind));
        assert_eq!(fs::read(case.mounted.at("d/f")).unwrap(), b"x");
    }
}

/// Once, users were refused nearly everything there: the kernel asks for the ACL to check a right.
#[test]
fn users_may_what_modes_allow_where_there_are_no_acls() {
    let below = Below::tmpfs();
    for name in ["ram", "proc"] {
        fs::create_dir(below.at(name)).unwrap();
    }
    mount(&["-t", "ramfs", "x"], &below.at("ram"));
    mount(&["-t", "proc", "x"], &below.at("proc"));
    let case = Case::over(below);
    let mut said = case.script(
        "",
        "mkdir -m 1777 ram/d; mkdir ram/g; echo group > ram/g/f; chgrp -R 5000 ram/g
         chmod 750 ram/g; chmod 640 ram/g/f
         U sh -c 'echo x > ram/d/f; mkdir ram/d/e; cat ram/d/f; mv ram/d/f ram/d/e; ls ram/d/e'
         G 5000 cat ram/g/f; try U cat ram/g/f; U cat proc/version | cmp - /proc/version
         getfacl -cs ram/d; try getfattr -n system.posix_acl_access ram/d
         try setfacl -m u:7:r ram/d",
    );
    assert_eq!(
        succeed(&mut said),
        "x\nf\ngroup\nno 1 Permission denied\nno 1 No such attribute\n\
         no 1 Operation not supported\n"
    );
    for name in ["ram", "proc"] {
        umounted(&case.below.at(name));
    }
}

/// Once, a file of size 0 was at its end before it was read.
#[test]
fn files_that_are_made_up_while_they_are_read_have_their_contents() {
    for options in ["", "passthrough=off"] {
        let below = Below::tmpfs();
        for (name, kind) in [("proc", "proc"), ("sys", "sysfs")] {
            fs::create_dir(below.at(name)).unwrap();
            mount(&["-t", kind, "x"], &below.at(name));
        }
        let mounted = Mounted::over(Transport::Dev, below.path(), options);
        let said = mounted.shell(
            "for f in version cmdline filesystems sys/kernel/ostype sys/kernel/hostname; do
                cmp proc/$f /proc/$f
                setpriv --reuid 1000 --regid 1000 --clear-groups cat proc/$f | cmp - /proc/$f
             done
             cmp {sys,/sys}/kernel/mm/transparent_hugepage/enabled
             cp proc/version copy; cmp copy /proc/version; wc -l < proc/sys/kernel/ostype",
        );
        assert_eq!(said, "1\n", "{options}");
        drop(mounted);
        for name in ["proc", "sys"] {
            umounted(&below.at(name));
        }
    }
}

/// Once, a name that was made and removed was the only one by which a file was looked for.
#[test]
fn a_file_is_found_by_the_name_that_it_had_before_it_got_another() {
    let below = Below::ext4();
    fs::create_dir(below.at("sub")).unwrap();
    mount(&["-t", "tmpfs", "x"], &below.at("sub"));
    let case = Case::over(below);
    let said = case.mounted.shell(
        "cd sub; /usr/bin/python3 - <<'P'
import os
open('h1', 'w').write('text')
f = os.open('h1', os.O_PATH)
os.link('h1', 'h2'); os.unlink('h2')
print(os.fstat(f).st_nlink, open('/proc/self/fd/%d' % f).read())
g = os.open('.', os.O_TMPFILE | os.O_RDWR)
os.write(g, b'new')
os.link('/proc/self/fd/%d' % g, 'h3', src_dir_fd=f, follow_symlinks=True)
p = os.open('h3', os.O_PATH); os.close(g)
print(os.fstat(p).st_nlink, open('h3').read())
g = os.open('h3', os.O_RDONLY); os.unlink('h3')
print(os.fstat(p).st_nlink, open('/proc/self/fd/%d' % p).read())
P",
    );
    assert_eq!(said, "1 text\n1 new\n0 new\n");
    umounted(&case.below.at("sub"));
}

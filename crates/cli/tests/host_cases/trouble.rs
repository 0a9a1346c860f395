//! Trouble below: sources that fail, refuse or forget.

use crate::case::Case;
use crate::harness::{Below, Mounted, Transport, hearth, program, refused, said, shell, succeed};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn hr75_a_directory_can_be_made_durable() {
    Case::on(Below::ext4).agrees(
        "hr75",
        r##"
mkdir d; echo x > d/f
/usr/bin/python3 - <<'P'
import os
d=os.open('d',os.O_RDONLY)
os.fsync(d)
os.fdatasync(d)
f=os.open('d/f',os.O_RDONLY)
os.fsync(f)
os.fdatasync(f)
print('synced')
P
sync d; sync -f d/f; sync d/f; sync -d d/f; echo ok
"##,
    );
}

/// A disk that is gone: errors, and no hang.
#[test]
fn hr71_a_source_that_has_shut_down_is_an_error_and_the_mount_goes_away() {
    let case = Case::over(Below::xfs());
    fs::write(case.mounted.at("f"), "x").unwrap();
    let mut load = shell(
        case.mounted.path(),
        "while echo x > g && mv g h && cat h > /dev/null; do :; done 2> /dev/null; exit 0",
    );
    let load = std::thread::spawn(move || said(&mut load));
    std::thread::sleep(Duration::from_millis(300));
    let mut shutdown = program("xfs_io");
    succeed(
        shutdown
            .args(["-x", "-c", "shutdown"])
            .arg(case.below.path()),
    );
    assert!(load.join().unwrap().success());
    let made = fs::write(case.mounted.at("new"), "").unwrap_err();
    assert_eq!(made.raw_os_error(), Some(libc::EIO));
    let began = Instant::now();
    case.mounted.unmount();
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A user's FUSE mount that others may not enter, root among them.
#[test]
fn hr72_a_source_that_the_daemon_may_not_enter_is_refused_in_one_line() {
    let below = Below::tmpfs();
    let (source, place) = (below.outside("source"), below.outside("place"));
    for directory in [&source, &place] {
        std::os::unix::fs::chown(directory, Some(1000), Some(1000)).unwrap();
    }
    fs::write(source.join("f"), "x").unwrap();
    let mut serve = shell(
        &place,
        "chmod 666 /dev/fuse; exec setpriv --reuid 1000 --regid 1000 --clear-groups bindfs \
         --no-allow-other \"$SOURCE\" \"$PLACE\"",
    );
    succeed(serve.env("SOURCE", &source).env("PLACE", &place));
    let mut mount = hearth();
    mount.arg("mount").arg(&place).arg(below.outside("m"));
    let typed = format!("hearth mount {}", place.display());
    refused(
        &typed,
        &said(&mut mount),
        1,
        &["place", "may not enter", "allow_other"],
    );
    succeed(program("umount").arg(&place));
}

/// As over NFS: a source whose files are gone with their names, for whoever comes by a handle.
#[test]
fn hr73_over_a_source_of_fuse_a_removed_file_goes_on() {
    let below = Below::tmpfs();
    fs::create_dir(below.at("source")).unwrap();
    fs::create_dir(below.at("fuse")).unwrap();
    let (source, fuse) = (below.at("source"), below.at("fuse"));
    succeed(program("bindfs").arg(&source).arg(&fuse));
    let mounted = Mounted::over(Transport::Dev, &fuse, "");
    let script = "
import os, time
f = os.open('g', os.O_CREAT | os.O_RDWR); os.write(f, b'abc'); os.unlink('g')
assert os.pread(f, 3, 0) == b'abc' and os.pwrite(f, b'X', 0) == 1
os.ftruncate(f, 1); os.fchmod(f, 0o600); assert os.fstat(f).st_mode & 0o777 == 0o600
assert os.pread(f, 3, 0) == b'X'; os.close(f)
os.mkdir('d'); open('d/f', 'w').write('x'); f = open('d/f'); os.unlink('d/f')
assert f.read() == 'x'; f.close()
for i in range(100):
    # The close is told without waiting for it.
    try: os.rmdir('d'); break
    except OSError: time.sleep(0.02)
print(os.listdir('.'))";
    let mut python = program("python3");
    let said = succeed(python.args(["-c", script]).current_dir(mounted.path()));
    assert_eq!(said, "[]\n");
    mounted.unmount();
    crate::harness::until("bindfs ends", || said_ok(program("umount").arg(&fuse)));
}

fn said_ok(command: &mut std::process::Command) -> bool {
    said(command).success()
}

/// What root may not, as on NFS with `root_squash`: all is made by the caller's own rights.
#[test]
fn hr74_a_daemon_without_roots_rights_over_files_serves_their_owners() {
    let below = Below::ext4();
    fs::create_dir(below.at("u")).unwrap();
    std::os::unix::fs::chown(below.at("u"), Some(1000), Some(1000)).unwrap();
    let place = below.outside("place");
    let mut mount = shell(
        below.path(),
        "exec setpriv --bounding-set -chown,-dac_override,-fowner,-fsetid \"$HEARTH\" mount \
         -o transport=dev \"$PWD\" \"$MNT\"",
    );
    mount.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    succeed(mount.env("MNT", &place));
    let script = "cd u; umask 077; echo x > f; mkdir -m 500 d; chmod 400 f; ln f g; mv g h
        ln -s f l; mkfifo p; setfattr -n user.a -v b f || true; chmod 600 f; echo y >> f; cat f
        touch -d @5 f; truncate -s 2 f; stat -c '%U %a %s %Y' f; setfacl -m u:1001:r f; rm l p h";
    let mut user = program("setpriv");
    user.args(["--reuid", "1000", "--regid", "1000", "--clear-groups"]);
    user.args(["bash", "-euc", script]).current_dir(&place);
    let said = succeed(&mut user);
    assert!(
        said.starts_with("x\ny\n") && said.contains(" 600 2 "),
        "{said}"
    );
    succeed(hearth().arg("umount").arg(&place));
}

/// Files that were synced through the mount survive the loss of the filesystem's memory.
#[test]
fn hr75_what_was_synced_through_the_mount_is_there_after_a_shutdown() {
    let below = Below::xfs();
    let case = Case::over(below);
    let script = "
import os
for n, syncs in (('file', lambda f: os.fsync(f)), ('data', lambda f: os.fdatasync(f))):
    f = os.open(n + '.tmp', os.O_CREAT | os.O_WRONLY); os.write(f, b'synced' * 1000); syncs(f)
    os.rename(n + '.tmp', n); d = os.open('.', os.O_RDONLY); os.fsync(d)";
    let mut python = program("python3");
    succeed(python.args(["-c", script]).current_dir(case.mounted.path()));
    let mut shutdown = program("xfs_io");
    succeed(
        shutdown
            .args(["-x", "-c", "shutdown"])
            .arg(case.below.path()),
    );
    case.mounted.unmount();
    let remount = "DEV=$(findmnt -no SOURCE \"$S\"); cd /; umount \"$S\"; mount $DEV \"$S\"";
    let mut remount = shell(std::path::Path::new("/"), remount);
    // The loop device goes with its mount, unless it is held meanwhile.
    let held = succeed(
        program("findmnt")
            .args(["-no", "SOURCE"])
            .arg(case.below.path()),
    );
    let _held = fs::File::open(held.trim_end()).unwrap();
    succeed(remount.env("S", case.below.path()));
    for name in ["file", "data"] {
        assert_eq!(fs::read(case.below.at(name)).unwrap().len(), 6000, "{name}");
    }
}

/// ramfs has neither handles nor attributes, birth nor blocks.
#[test]
fn a_source_without_handles_and_attributes_is_served() {
    let plain = || {
        let below = Below::tmpfs();
        succeed(
            program("mount")
                .args(["-t", "ramfs", "x"])
                .arg(below.path()),
        );
        below
    };
    let case = Case::on(plain);
    case.agrees(
        "plain",
        r##"
echo x > f; try setfattr -n user.a -v b f; try getfattr -n user.a f; try setfacl -m u:1:r f
try chattr +i f; try fallocate -l 4096 f; ln f g; mv g h; stat -c '%h %s %a' f; mkdir -p d/e
mv d x; touch x/e/f; rm -r x; exec 3> t; rm t; echo y >&3; stat -L -c '%h %s' /proc/self/fd/3; ls
"##,
    );
    let stats = case
        .mounted
        .shell("grep -o 'found_by=\"[a-z]*\"' .hearth/stats");
    assert_eq!(stats, "found_by=\"descriptors\"\n");
    case.mounted.unmount();
    case.uncovered();
}

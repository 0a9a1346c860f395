//! A second opinion: the same volume behind another FUSE implementation answers programs the same.

#![allow(clippy::unwrap_used)]

mod harness;

use harness::Mounted;
use std::process::Command;

/// Calls of every family, refused ones too; each line prints what a program sees. Times and inode
/// numbers are left out.
const SCRIPT: &str = r#"
    umask 022; export LC_ALL=C
    show() { stat -c '%n %F %a %u:%g %h links %s bytes %b blocks' "$@"; }
    mkdir d d/e; mkdir d; mkdir missing/d
    printf 'one\ntwo\n' > d/file; printf 'three\n' >> d/file; cat d/file
    printf X | dd of=d/file bs=1 seek=2 conv=notrunc status=none; cat d/file
    truncate -s 6 d/file; cat d/file; truncate -s 9000 d/file; show d/file
    dd if=/dev/zero of=d/sparse bs=4096 count=1 seek=9 status=none; show d/sparse
    fallocate -l 100000 d/long; show d/long; fallocate -p -o 0 -l 8192 d/long; show d/long
    fallocate -n -l 200000 d/long; show d/long
    head -c 300000 /dev/urandom > d/random; cp d/random d/copy; cmp d/random d/copy && echo same
    ln d/file d/e/link; ln d d/e/dir; ln -s d/file symbol; ln -s loop loop
    show d/file symbol d/e; readlink symbol loop; cat loop; cat symbol | wc -c
    mkfifo fifo; mknod null c 1 3; mknod block b 7 200; show fifo null block
    stat -c '%t %T' null block; echo gone > null
    mv d/file d/moved; mv d/moved d/e; mv d/e/moved d/e/link; mv d d/e; mv missing here
    rmdir d; rmdir d/e/link; rm d/e; unlink missing; ls d d/e
    chmod 2750 d; chown 1000:1001 d d/long; chmod 4711 d/long; show d d/long
    setpriv --reuid 1000 --regid 1001 --clear-groups sh -c 'echo x > d/mine; cat d/copy; rm symbol
        chmod 777 d/copy; chmod 700 d/mine; chown 0 d/mine; cd d/e; echo x >> ../long' | wc -c
    show d/mine d/long
    setfattr -n user.a -v b d/mine; setfattr -n user.c -v d d/mine; setfattr -x user.c d/mine
    setfattr -n nothing.a -v b d/mine; getfattr -n user.c d/mine; getfattr -d d/mine
    setfacl -m u:7:rw d/mine; getfacl -n d/mine; show d/mine; setfacl -d -m g:7:r d; getfacl -n d
    touch -d '2001-02-03 04:05:06.789 UTC' d/mine; stat -c '%x %y' d/mine
    touch "$(printf 'n%.0s' $(seq 255))"; touch "$(printf 'n%.0s' $(seq 256))"
    mkdir many; (cd many; touch $(seq 1000); rm $(seq 2 2 1000)); ls many | wc -l; show many
    exec 3> d/unlinked; rm d/unlinked; echo kept >&3; cat /proc/self/fd/3; exec 3>&-
    flock d/mine -c 'flock -n d/mine true; echo $?'; flock -w 10 d/mine true; echo $?
    stat -f -c '%s %S %l' d; df --output=fstype . | wc -l
    find . -printf '%p %y %m %n %s\n' | sort
"#;

/// What the script prints on a mount, refusals with their errors among it.
fn said_on(mounted: &Mounted) -> Vec<String> {
    let mut shell = Command::new("timeout");
    let script = format!("exec 2>&1; {SCRIPT}");
    shell.args(["50", "bash", "-c", &script]);
    let output = shell.current_dir(mounted.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = said.lines().map(str::to_owned).collect();
    assert!(output.status.success(), "{said}");
    lines
}

#[test]
fn programs_see_on_another_implementation_what_they_see_here() {
    let peer = said_on(&Mounted::start_peer("no_writeback"));
    for sign in [
        "same",
        "three",
        "Is a directory",
        "Too many levels of symbolic links",
    ] {
        assert!(peer.iter().any(|line| line.contains(sign)), "{peer:#?}");
    }
    for transport in ["transport=dev", "transport=uring"] {
        let ours = said_on(&Mounted::start(&format!("{transport},no_writeback")));
        let other = peer.iter().zip(&ours).find(|(theirs, ours)| theirs != ours);
        assert_eq!(other, None, "{transport}: theirs, ours");
        assert_eq!(peer.len(), ours.len(), "{transport}");
    }
}

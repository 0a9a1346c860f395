//! A mount of a mount, with mapped ids: what a pod with a user namespace has. The kernel then names
//! no user in most requests, on the plain mount neither.

use crate::harness;

use harness::{Mounted, Transport, program, succeed};
use std::path::Path;

harness::on_both_transports!(ids_are_mapped_and_rights_are_those_of_the_mapped_user);

/// What the scripts call. `m` is the mount, `p` the mapped one.
const WHO: &str = "
as() { local id=$1; shift; setpriv --reuid $id --regid $id --clear-groups \"$@\"; }
refused() { local word=$1; shift; if said=$(\"$@\" 2>&1); then echo \"done: $*\"; return 1; fi
    [[ $said == *\"$word\"* ]] || { echo \"$*: $said\"; return 1; }; }
";

fn ids_are_mapped_and_rights_are_those_of_the_mapped_user(transport: Transport) {
    rights(&Mounted::new(transport, "idmap"));
}

#[test]
fn ids_are_mapped_on_a_store() {
    rights(&Mounted::new(Transport::Dev, "idmap,create,memory=32M"));
}

/// Runs a script beside a mapped mount, in a namespace that takes the mount along when it ends.
fn beside(mounted: &Mounted, script: &str) -> String {
    let built = mounted.outside("built").join("idmap");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/c/idmap.c");
    let mut gcc = program("gcc");
    succeed(gcc.args(["-Wall", "-o"]).arg(&built).arg(source));
    let mapped = mounted.outside("mapped");
    let script = format!("{WHO} \"$IDMAP\" \"$m\" \"$p\"; {script}");
    let mut unshare = program("unshare");
    unshare.args(["--mount", "bash", "-euo", "pipefail", "-c", &script]);
    unshare.env("IDMAP", built).env("p", mapped);
    unshare.env("HEARTH", env!("CARGO_BIN_EXE_hearth"));
    succeed(unshare.env("m", mounted.path()))
}

fn rights(mounted: &Mounted) {
    let out = beside(
        mounted,
        "
        as 100000 bash -ec 'echo root > \"$p/of-root\"; mkdir -m 1777 \"$p/all\"'
        as 101000 bash -ec 'echo user > \"$p/all/theirs\"; mkdir \"$p/all/dir\"'
        stat -c %u:%g \"$p/of-root\" \"$m/of-root\" \"$p/all/theirs\" \"$m/all/theirs\"
        # Who it is may change it.
        as 101000 chmod 640 \"$p/all/theirs\"
        as 101000 truncate -s 1 \"$p/all/theirs\"
        as 101000 mv \"$p/all/theirs\" \"$p/all/dir/moved\"
        as 101000 ln \"$p/all/dir/moved\" \"$p/all/other\"
        as 101000 setfattr -n user.x -v y \"$p/all/other\"
        as 101000 rm \"$p/all/dir/moved\"
        # Others may not.
        refused denied as 100001 cat \"$p/all/other\"
        refused denied as 100001 touch \"$p/mine\"
        refused permitted as 100001 chmod 777 \"$p/all/other\"
        refused permitted as 100001 rm -f \"$p/all/other\"
        # Root of the machine has no id there.
        refused 'Value too large' touch \"$p/nobody\"
        # A user of the plain mount.
        as 1000 bash -ec 'cd \"$m/all\"; echo 1 > plain; chmod 600 plain; rm plain'
        refused denied as 1001 cat \"$m/all/other\"
        stat -c %u:%a:%s \"$m/all/other\" \"$p/all/other\"",
    );
    let expected = "100000:100000\n0:0\n101000:101000\n1000:1000\n1000:640:1\n101000:640:1\n";
    assert_eq!(out, expected);
    assert!(!mounted.log().contains("panicked"), "{}", mounted.log());
}

harness::on_both_transports!(commands_know_who_asks_and_a_limit_binds_the_mapped_user);

/// Root of a pod is an ordinary user of the machine, and so of the volume's commands.
fn commands_know_who_asks_and_a_limit_binds_the_mapped_user(transport: Transport) {
    let mounted = Mounted::new(transport, "idmap");
    beside(
        &mounted,
        "
        chmod 1777 \"$m\"
        mount -t tmpfs -o mode=755 program /mnt; cp \"$HEARTH\" /mnt/hearth
        /mnt/hearth quota set user:1000 --hard 64k \"$m\"
        refused 'only' as 100000 /mnt/hearth quota set user:1000 --hard 1M \"$p\"
        refused 'only' as 1000 /mnt/hearth quota set user:1000 --hard 1M \"$m\"
        as 1000 /mnt/hearth quota get user:1000 \"$m\" > /dev/null
        refused '' as 1001 /mnt/hearth quota get user:1000 \"$m\"
        as 101000 dd if=/dev/zero of=\"$p/fits\" bs=32k count=1 status=none
        refused 'quota exceeded' as 101000 dd if=/dev/zero of=\"$p/not\" bs=32k count=2",
    );
}

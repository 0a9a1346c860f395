//! Whole programs: what they make of the mount they make of the directory.

use crate::case::Case;
use crate::harness::{Below, assert_same, program, shell, succeed};
use std::fs;

/// Files of all kinds, holes, links, attributes, ACLs, owners and times.
const TREE: &str = "
    mkdir -p a/b 'with space' empty; for i in $(seq 200); do echo $i > a/b/$i; done
    head -c 3M /dev/urandom > a/large; truncate -s 5M hole; printf x >> hole
    ln a/large 'with space/l'
    ln -s ../a/large with\\ space/s; ln -s nowhere dangling; mkfifo p; mknod n c 1 3
    chown 1000:1001 a/b/1; chmod 4755 a/b/2; chmod 0 a/b/3; setfattr -n user.x -v y a/b/4
    setfattr -n trusted.t -v z a/b/5; setfacl -m u:77:rw,g:5:r a/b/6
    setfacl -d -m g::rwx 'with space'
    setcap cap_net_raw+ep a/b/7; touch -d '1969-12-31 23:00 UTC' a/b/8
    touch -hd @5.000000001 dangling
    mkdir -m 2775 shared; chgrp 7 shared; touch -d @7 empty
    # rsync takes what differs by less than a second for the same.
    find . -newermt '2020-01-01' -exec touch -hd '2020-02-02 02:02:02.020202020' {} +";

#[test]
fn tar_and_rsync_take_a_tree_through_the_mount_and_back() {
    for make in [Below::ext4, Below::xfs, Below::btrfs] {
        let (below, source) = (make(), make());
        succeed(&mut shell(source.path(), &format!("mkdir t; cd t; {TREE}")));
        let from = source.at("t");
        let case = Case::over(below);
        let rsync = |from: &std::path::Path, to: &std::path::Path| {
            let mut rsync = program("rsync");
            rsync.args(["-aHAX", "--numeric-ids", "--sparse"]);
            rsync.arg(from.join(".")).arg(to);
            succeed(&mut rsync);
        };
        rsync(&from, &case.mounted.at("in"));
        assert_same(&from, &case.below.at("in"));
        rsync(&case.mounted.at("in"), &source.at("back"));
        assert_same(&from, &source.at("back"));
        let mut again = program("rsync");
        again.args(["-aHAXn", "--itemize-changes"]);
        again.arg(from.join(".")).arg(case.mounted.at("in"));
        assert_eq!(succeed(&mut again), "", "nothing is left to do");
        let tar = "tar --xattrs --xattrs-include='*' --acls -S";
        let script = format!(
            "mkdir \"$M/tar\"; {tar} -cf - . | {tar} -xpf - -C \"$M/tar\"
             mkdir \"$B\"; cd \"$M/tar\"; {tar} -cf - . | {tar} -xpf - -C \"$B\""
        );
        let mut pack = shell(&from, &script);
        succeed(
            pack.env("M", case.mounted.path())
                .env("B", source.at("tar")),
        );
        assert_same(&from, &case.below.at("tar"));
        assert_same(&from, &source.at("tar"));
        case.mounted.shell("rm -rf in tar");
        assert_eq!(fs::read_dir(case.below.path()).unwrap().count(), 0);
    }
}

/// A few seconds of it; `HEARTH_SECONDS` makes it longer.
#[test]
fn postgresql_runs_on_the_mount_and_goes_on_in_the_directory() {
    let seconds = std::env::var("HEARTH_SECONDS").unwrap_or_else(|_| "3".to_owned());
    let case = Case::over(Below::ext4());
    let home = case.mounted.at("data");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let below = case.below.at("data");
    const BEGIN: &str = "
        PATH=$PATH:$(echo /usr/lib/postgresql/*/bin); cd \"$DATA\"
        run() { setpriv --reuid nobody --regid nogroup --clear-groups \"$@\"; }
        start() {
            run pg_ctl -w -D . -l log -o \"-k $PWD -c listen_addresses=''\" start > /dev/null
        }
        stop() { run pg_ctl -w -D . stop -m \"$1\" > /dev/null; }
        sql() { run psql -h $PWD -U p -Atc \"$1\" postgres; }
        consistent() {
            sql 'select (select sum(abalance) from pgbench_accounts) =
                        (select sum(tbalance) from pgbench_tellers)
                    and (select count(*) from pgbench_accounts) = 100000'
        }";
    // Each through the mount: the load, an end without warning and the recovery after it.
    let through = format!(
        "{BEGIN}
        run initdb -N -D . -U p -A trust > /dev/null; start
        run pgbench -h $PWD -U p -i -q postgres > /dev/null 2>&1
        run pgbench -h $PWD -U p -c 4 -T \"$SECONDS_OF_IT\" postgres 2> /dev/null | grep -c '^tps'
        stop immediate; rm -f .s.*; start; consistent; stop fast"
    );
    let mut script = shell(case.mounted.path(), &through);
    script.env("DATA", &home).env("SECONDS_OF_IT", &seconds);
    assert_eq!(succeed(&mut script), "1\nt\n");
    case.mounted.unmount();
    let native = format!("{BEGIN}\nstart; consistent; stop fast");
    let mut script = shell(case.below.path(), &native);
    assert_eq!(succeed(script.env("DATA", &below)), "t\n");
}

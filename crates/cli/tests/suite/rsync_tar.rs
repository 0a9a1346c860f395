//! rsync and tar: the tree that comes back is the tree that went there.

use crate::harness;

use harness::{Below, Mounted, Transport, assert_same, program, succeed};
use std::fs;
use std::os::unix::fs::MetadataExt;

harness::on_both_transports!(
    a_tree_that_rsync_takes_there_and_back_is_the_same,
    a_tree_that_tar_packs_and_unpacks_is_the_same,
);

/// A tree with one of everything.
const MAKE: &str = r#"
mkdir -p a/b/c empty many 'with space' $'new\nline'
for i in $(seq 1 500); do echo "text $i" > many/f$i; done
head -c 3000000 /dev/urandom > a/large
ln a/large a/b/other-name; ln a/large third-name
ln -s ../large a/b/link; ln -s /no/such/place dangling
truncate -s 64M sparse; printf end | dd of=sparse bs=1 seek=9000000 conv=notrunc status=none
mkfifo fifo; mknod null c 1 3; mknod block b 7 200
printf x > $'bytes\377\001'; printf y > "$(printf 'n%.0s' $(seq 1 255))"
chown 1234:4321 many/f4 a; chown -h 11:12 dangling
chmod 4755 many/f1; chmod 2750 many/f2; chmod 1777 empty; chmod 0 many/f3
setfattr -n user.colour -v green a/large; setfattr -n user.binary -v 0x00ff00 a
setfattr -n trusted.secret -v x many/f5; setfattr -n user.empty many/f8
setfacl -m u:1234:rw-,g:4321:r-x,m::rwx many/f6
setfacl -d -m u:1234:rwx a/b; setfacl -m u:4321:--x a/b
touch -d '2001-02-03 04:05:06.123456789' many/f7
touch -h -d '1999-01-01 00:00:00.5' dangling
touch -d '1960-01-01 00:00:00.25' empty
"#;

/// By itself rsync takes times of the same second for the same.
const RSYNC: [&str; 4] = ["-aHAX", "--sparse", "--numeric-ids", "--modify-window=-1"];

fn a_tree_that_rsync_takes_there_and_back_is_the_same(transport: Transport) {
    rsync_there_and_back(&Mounted::new(transport, ""));
}

#[test]
fn a_tree_that_rsync_takes_to_a_store_and_back_is_the_same() {
    rsync_there_and_back(&Mounted::new(
        Transport::Dev,
        "create,memory=32M,commit=0.2",
    ));
}

/// Over both, since each has attributes that the other lacks.
#[test]
fn a_tree_that_rsync_takes_to_a_directory_of_the_host_and_back_is_the_same() {
    for below in [Below::ext4(), Below::tmpfs()] {
        rsync_there_and_back(&Mounted::over(Transport::Dev, below.path(), ""));
    }
}

fn rsync_there_and_back(mounted: &Mounted) {
    let (home, back) = (mounted.outside("home"), mounted.outside("back"));
    succeed(&mut harness::shell(&home, MAKE));
    let there = mounted.at("there");
    let rsync = |more: &[&str], from: &std::path::Path, to: &std::path::Path| {
        let mut rsync = program("rsync");
        rsync
            .args(RSYNC)
            .args(more)
            .arg(from.join(""))
            .arg(to.join(""));
        succeed(&mut rsync)
    };
    rsync(&[], &home, &there);
    assert_same(&home, &there);
    let sparse = fs::metadata(there.join("sparse")).unwrap();
    assert!(
        sparse.len() == 64 << 20 && sparse.blocks() < 4_096,
        "{}",
        sparse.blocks()
    );
    rsync(&[], &there, &back);
    assert_same(&home, &back);
    let dry = ["--checksum", "--delete", "--dry-run", "--itemize-changes"];
    assert_eq!(rsync(&dry, &home, &there), "");
    mounted.shell("rm -r there; test -z \"$(ls -A)\"");
}

fn a_tree_that_tar_packs_and_unpacks_is_the_same(transport: Transport) {
    let mounted = Mounted::new(transport, "");
    fs::create_dir(mounted.at("tree")).unwrap();
    succeed(&mut harness::shell(&mounted.at("tree"), MAKE));
    mounted.shell(
        "tar --acls --xattrs --xattrs-include='*' --numeric-owner --format=posix --sparse \
             -cf all.tar tree
         mkdir out; cd out
         tar --acls --xattrs --xattrs-include='*' --numeric-owner -xpf ../all.tar",
    );
    assert_same(&mounted.at("tree"), &mounted.at("out/tree"));
    mounted.shell("rm -r tree out all.tar; test -z \"$(ls -A)\"");
}

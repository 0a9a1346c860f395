//! rsync -aHAX onto the mount and back, and tar: the tree that returns is the tree that left.

mod harness;

use harness::{Mount, Place, shell};
use std::path::Path;

/// Makes a tree with one of everything.
const MAKE: &str = r#"
mkdir -p tree/a/b/c tree/empty tree/many 'tree/with space' "tree/new
line"
for i in $(seq 1 500); do echo "text $i" > tree/many/f$i; done
head -c 3000000 /dev/urandom > tree/a/large
ln tree/a/large tree/a/b/other-name; ln tree/a/large tree/third-name
ln -s ../large tree/a/b/link; ln -s /no/such/place tree/dangling
truncate -s 64M tree/sparse; printf end | dd of=tree/sparse bs=1 seek=9000000 conv=notrunc status=none
mkfifo tree/fifo; mknod tree/null c 1 3; mknod tree/block b 7 200
printf x > tree/"$(printf 'bytes\377\001')"; printf y > tree/"$(printf 'n%.0s' $(seq 1 255))"
chmod 4755 tree/many/f1; chmod 2750 tree/many/f2; chmod 1777 tree/empty; chmod 0 tree/many/f3
chown 1234:4321 tree/many/f4 tree/a; chown -h 11:12 tree/dangling
setfattr -n user.colour -v green tree/a/large; setfattr -n user.binary -v 0x00ff00 tree/a
setfattr -n trusted.secret -v x tree/many/f5
setfacl -m u:1234:rw-,g:4321:r-x,m::rwx tree/many/f6
setfacl -d -m u:1234:rwx tree/a/b; setfacl -m u:4321:--x tree/a/b
touch -d '2001-02-03 04:05:06.123456789' tree/many/f7; touch -h -d '1999-01-01 00:00:00.5' tree/dangling
touch -d '2002-01-01 00:00:00.25' tree/empty
"#;

/// Everything that can be seen of a tree, as text. Directory sizes are each filesystem's own.
const SEEN: &str = r#"
find . -type d -printf '%P %y %m %U %G %T@\0' | sort -z | tr '\0' '\n'
find . ! -type d -printf '%P %y %m %U %G %s %n %l %T@\0' | sort -z | tr '\0' '\n'
find . -type f -print0 | sort -z | xargs -0 sha256sum
find . -samefile a/large | sort
stat -c '%n %t %T' null block
find . ! -type l -print0 | sort -z | xargs -0 getfacl -n -p
find . ! -type l -print0 | sort -z | xargs -0 getfattr -d -m '^(user|trusted)' -e hex
"#;

#[test]
fn a_tree_goes_there_and_back_over_io_uring() {
    check("uring");
}

#[test]
fn a_tree_goes_there_and_back_over_dev_fuse() {
    check("dev");
}

fn check(transport: &str) {
    let kernel = Place::new();
    kernel.tmpfs();
    let home = kernel.mount();
    shell(&home, 60, MAKE);
    let expected = seen(&home.join("tree"));
    assert!(expected.lines().count() > 2_000, "{expected}");
    let mount = Mount::start(transport, &[]);
    let there = mount.path();
    let (h, t) = (home.display(), there.display());
    let rsync = "rsync -aHAX --sparse --numeric-ids";
    shell(&home, 120, &format!("{rsync} {h}/tree/ {t}/tree/"));
    same(&expected, &there.join("tree"));
    shell(&home, 120, &format!("{rsync} {t}/tree/ {h}/back/"));
    same(&expected, &home.join("back"));
    let dry = format!("{rsync} --checksum --delete --dry-run --itemize-changes {h}/tree/ {t}/tree/");
    assert_eq!(shell(&home, 120, &dry), "");
    let blocks = "stat -c %b tree/sparse";
    let used: u64 = mount.shell(10, blocks).trim().parse().unwrap();
    assert!(used < 4_096, "a hole of 64 MiB takes {used} blocks");
    mount.shell(
        120,
        "tar --acls --xattrs --xattrs-include='*' --numeric-owner --sparse -cf all.tar tree
         mkdir out; cd out
         tar --acls --xattrs --xattrs-include='*' --numeric-owner -xpf ../all.tar",
    );
    same(&expected, &there.join("out/tree"));
    mount.shell(60, "rm -r tree out all.tar; test -z \"$(ls -A)\"");
    mount.finish();
}

fn seen(tree: &Path) -> String {
    shell(tree, 60, SEEN)
}

fn same(expected: &str, tree: &Path) {
    let found = seen(tree);
    let difference = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
    assert_eq!(difference, None, "{}", tree.display());
    assert_eq!(expected.lines().count(), found.lines().count());
}

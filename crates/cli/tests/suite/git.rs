//! git on the volume: clone, checkout, fsck and gc of a repository of more than 5,000 files.

use crate::harness;

use harness::{Below, Mounted, Transport, git, shell, succeed};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

harness::on_both_transports!(a_repository_is_cloned_checked_out_checked_and_collected);

const FILES: usize = 5_200;

fn a_repository_is_cloned_checked_out_checked_and_collected(transport: Transport) {
    use_repository(&Mounted::new(transport, ""));
}

#[test]
fn a_repository_on_a_store_is_cloned_checked_out_checked_and_collected() {
    use_repository(&Mounted::new(
        Transport::Dev,
        "create,memory=32M,commit=0.2",
    ));
}

#[test]
fn a_repository_in_a_directory_of_the_host_is_cloned_checked_out_checked_and_collected() {
    let below = Below::ext4();
    use_repository(&Mounted::over(Transport::Dev, below.path(), ""));
}

fn use_repository(mounted: &Mounted) {
    let origin = mounted.outside("origin");
    make(&origin);
    let clone = mounted.at("clone");
    let run = |args: &[&str]| succeed(git(&clone).args(args));
    let clean = || assert_eq!(run(&["status", "--porcelain"]), "");

    succeed(
        git(mounted.path())
            .args(["clone", "-q", "--no-hardlinks"])
            .arg(&origin)
            .arg("clone"),
    );
    assert_eq!(run(&["ls-files"]).lines().count(), FILES);
    run(&["checkout", "-q", "other"]);
    clean();
    assert_eq!(
        fs::read_to_string(clone.join("d3/e0")).unwrap(),
        "a file now\n"
    );
    run(&["checkout", "-q", "main"]);
    clean();
    // Times and the owner's settings differ, what git keeps must not.
    let differs = "diff -r --no-dereference --exclude=.git \"$ORIGIN\" .";
    succeed(shell(&clone, differs).env("ORIGIN", &origin));
    run(&["fsck", "--strict", "--full"]);
    run(&["gc", "-q", "--prune=now"]);
    let objects = run(&["count-objects", "-v"]);
    assert!(
        objects.starts_with("count: 0\n") && objects.contains("packs: 1\n"),
        "{objects}"
    );
    run(&["fsck", "--strict", "--full"]);
    run(&["commit", "-q", "--allow-empty", "-m", "more"]);
    assert_eq!(run(&["log", "--oneline"]).lines().count(), 2);
}

/// A repository with two branches that differ in a third of their files.
fn make(origin: &Path) {
    for number in 0..FILES - 1 {
        let folder = origin.join(format!("d{}/e{}", number % 20, number % 7));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("f{number}.txt"));
        fs::write(&file, format!("file {number}\n").repeat(number % 90 + 1)).unwrap();
        if number % 31 == 0 {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    symlink("d0/e0", origin.join("link")).unwrap();
    let run = |args: &[&str]| succeed(git(origin).args(args));
    run(&["init", "-q"]);
    run(&["add", "."]);
    run(&["commit", "-q", "-m", "one"]);
    run(&["checkout", "-q", "-b", "other"]);
    run(&["rm", "-q", "-r", "d3"]);
    run(&["mv", "d4", "moved"]);
    succeed(&mut shell(
        origin,
        "for file in d5/*/*; do echo changed >> $file; done; mkdir d3",
    ));
    fs::write(origin.join("d3/e0"), "a file now\n").unwrap();
    run(&["add", "."]);
    run(&["commit", "-q", "-m", "two"]);
    run(&["checkout", "-q", "main"]);
}

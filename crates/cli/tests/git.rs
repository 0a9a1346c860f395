//! git on the mount: clone, checkout, fsck, gc of a repository of more than 5,000 files.

mod harness;

use harness::{Mount, Place, shell};
use std::fs;
use std::path::Path;

const FILES: u32 = 5_200;

#[test]
fn a_repository_is_cloned_checked_out_and_collected_over_io_uring() {
    check("uring");
}

#[test]
fn a_repository_is_cloned_checked_out_and_collected_over_dev_fuse() {
    check("dev");
}

fn check(transport: &str) {
    let origin = Place::new();
    make(origin.root());
    let mount = Mount::start(transport, &[]);
    let from = origin.root().join("origin");
    let from = from.display();
    mount.shell(
        300,
        &format!(
            "export GIT_CONFIG_GLOBAL=/dev/null
             git clone --quiet --no-hardlinks {from} clone
             cd clone
             test \"$(git ls-files | wc -l)\" -eq {FILES}
             git checkout --quiet other
             test -z \"$(git status --porcelain)\"
             git checkout --quiet main
             test -z \"$(git status --porcelain)\"
             diff -r --exclude=.git {from} .
             git fsck --strict
             git gc --quiet
             git fsck --strict
             git -c user.name=t -c user.email=t@example.org commit --quiet --allow-empty -m more
             git log --oneline | wc -l"
        ),
    );
    mount.finish();
}

/// A repository with two branches that differ in a third of their files.
fn make(root: &Path) {
    let origin = root.join("origin");
    for number in 0..FILES {
        let folder = origin.join(format!("d{}/e{}", number % 20, number % 7));
        fs::create_dir_all(&folder).unwrap();
        let text = format!("file {number}\n").repeat(number as usize % 90 + 1);
        fs::write(folder.join(format!("f{number}.txt")), text).unwrap();
    }
    shell(
        &origin,
        120,
        "export GIT_CONFIG_GLOBAL=/dev/null
         commit() { git -c user.name=t -c user.email=t@example.org commit --quiet -m \"$1\"; }
         ln -s d0/e0 link; chmod +x d1/e1/*; rm d0/e0/f0.txt
         git init --quiet --initial-branch=main
         git add . ; commit one
         git checkout --quiet -b other
         git rm --quiet -r d3; git mv d4 moved
         for f in d5/*/*; do echo changed >> $f; done
         mkdir d3; echo 'a file where a directory was' > d3/e0
         git add . ; commit two
         git checkout --quiet main",
    );
}

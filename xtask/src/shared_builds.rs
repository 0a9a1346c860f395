//! A build for one crate takes the packages that the tests of all crates have built, if it wants
//! them with the same features: the feature `shared` of hearth-testing sees to that.

use crate::process;
use std::collections::BTreeSet;

/// Builds for one crate, as `cargo tree` is asked for them.
const BUILDS: &[&[&str]] = &[
    &["--package=hearth-store", "--edges=normal,build,dev"],
    &["--package=hearth", "--edges=normal,build,dev"],
    &["--package=hearth-host", "--edges=normal,build,dev"],
    &["--package=hearth-fuse", "--edges=normal,build,dev"],
    &[
        "--package=hearth-python",
        "--edges=normal,build",
        "--features=shared",
    ],
];

/// Packages of others with their features.
fn packages(build: &[&str]) -> BTreeSet<String> {
    let mut tree = process::cargo();
    tree.args(["tree", "--locked", "--prefix=none", "--format={p} with {f}"]);
    let output = tree.args(build).output().expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("a text");
    let others = text.lines().filter(|line| !line.contains("(/"));
    others.map(|line| line.replace(" (*)", "")).collect()
}

#[test]
fn what_tests_have_built_is_not_built_anew_for_one_crate() {
    let all = packages(&["--workspace", "--edges=normal,build,dev"]);
    assert!(all.len() > 200, "{} packages", all.len());
    for build in BUILDS {
        let anew: Vec<_> = packages(build).difference(&all).cloned().collect();
        assert!(
            anew.is_empty(),
            "{build:?} is built with {anew:#?}: turn on the other features by `shared` of \
             crates/testing/Cargo.toml, or others that the tests of all have: {:#?}",
            all.iter()
                .filter(|one| anew.iter().any(|new| name(new) == name(one)))
                .collect::<Vec<_>>()
        );
    }
}

fn name(package: &str) -> Option<&str> {
    package.split(' ').next()
}

//! Comparing trees.

use super::{program, succeed};
use std::collections::BTreeSet;
use std::path::Path;

/// One line for each entry of a tree, with everything about it that a copy keeps: kind, mode,
/// owner, size, modification time to the nanosecond, target, checksum, attributes, ACLs, and the
/// other names of the same file.
pub fn describe(root: &Path) -> BTreeSet<String> {
    const SCRIPT: &str = r#"
        find . -type d -printf 'd %m %U:%G %T@ %P\n'
        find . ! -type d -printf '%y %m %U:%G %s %T@ %P -> %l\n'
        find . -type f -print0 | sort -z | xargs -0r sha256sum
        find . -type f -links +1 -printf '%i %P\n' | sort -k2 |
            awk '{ if (!($1 in first)) first[$1] = $2; print "same file:", $2, first[$1] }'
        find . ! -type l -print0 | sort -z | xargs -0r getfattr -m - -d -e hex --absolute-names |
            awk '/^# file:/ { file = $3; next } NF { print "attribute", file, $0 }'
        find . ! -type l -print0 | sort -z | xargs -0r getfacl -pn |
            awk '/^# file:/ { file = $3; next } NF && !/^#/ { print "acl", file, $0 }'
    "#;
    program("getfattr");
    program("getfacl");
    let text = succeed(&mut super::shell(root, SCRIPT));
    text.lines().map(str::to_owned).collect()
}

/// Fails with the entries in which two trees differ.
pub fn assert_same(left: &Path, right: &Path) {
    let (a, b) = (describe(left), describe(right));
    let differences: Vec<String> = (a.difference(&b).map(|line| format!("- {line}")))
        .chain(b.difference(&a).map(|line| format!("+ {line}")))
        .take(40)
        .collect();
    assert!(
        differences.is_empty(),
        "{} and {} differ:\n{}",
        left.display(),
        right.display(),
        differences.join("\n")
    );
}

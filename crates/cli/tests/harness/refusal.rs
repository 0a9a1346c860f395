//! What a refusal looks like, and that it has changed nothing.

use super::{Said, mounts_below, pids_naming, shell, succeed};
use std::path::{Path, PathBuf};

/// One line on standard error, nothing on standard output.
pub fn refused(typed: &str, said: &Said, status: i32, words: &[&str]) {
    let Said { out, err, .. } = said;
    assert_eq!(said.status.code(), Some(status), "{typed}: {said:?}");
    assert!(
        out.is_empty() && err.lines().count() == 1,
        "{typed}: {said:?}"
    );
    assert!(err.starts_with("hearth: "), "{typed}: {said:?}");
    let missing: Vec<_> = words.iter().filter(|word| !err.contains(**word)).collect();
    assert!(missing.is_empty(), "{typed}: {missing:?} is not in {err}");
}

/// Entries below a directory with their times, mounts, and daemons of what refusals are about.
pub fn state(directory: &Path) -> (String, Vec<PathBuf>, Vec<u32>) {
    let entries = succeed(&mut shell(
        directory,
        "find . -printf '%P %y %m %U %s %T@\\n' | sort",
    ));
    let daemons = ["m", "full", "file", "missing"];
    let daemons = daemons.map(|name| pids_naming(&directory.join(name)));
    (entries, mounts_below(directory), daemons.concat())
}

//! Folders of the repository, and the files in them.

use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The folder of test programs from the registry (`cargo install --root`). The suites of
/// `crates/cli/tests` look here.
pub fn tools() -> PathBuf {
    root().join("target/tools")
}

/// Every file under `dir` whose name ends in one of `endings`, sorted; build output and hidden
/// folders other than `.ci`, `.cargo` are left out.
pub fn files(dir: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(dir, endings, &mut found);
    found.sort();
    found
}

fn walk(dir: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
            if name != "target" && !hidden {
                walk(&path, endings, found);
            }
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// `path` relative to the root, as people write it.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

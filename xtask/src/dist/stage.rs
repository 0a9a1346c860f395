//! A folder with everything that is packed, as `packaging/debian/rules` expects it.

use crate::{place, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is copied: from the repository, to the folder.
const COPIED: &[(&str, &str)] = &[
    ("packaging/debian", "debian"),
    ("packaging/example.toml", "files/etc/example.toml"),
    ("packaging/Dockerfile", "files/Dockerfile"),
    ("contrib/systemd", "files/systemd"),
    ("contrib/grafana", "files/grafana"),
    ("contrib/prometheus", "files/prometheus"),
    ("README.md", "files/docs/README.md"),
    ("docs/options.md", "files/docs/options.md"),
    ("docs/fsck.md", "files/docs/fsck.md"),
    (
        "docs/coming-from-quotas.md",
        "files/docs/coming-from-quotas.md",
    ),
    ("docs/metrics.md", "files/docs/metrics.md"),
    ("docs/packaging.md", "files/docs/packaging.md"),
    ("docs/quota-rules.md", "files/docs/quota-rules.md"),
    ("docs/semantics.md", "files/docs/semantics.md"),
    ("LICENSE-MIT", "files/LICENSE-MIT"),
    ("LICENSE-APACHE", "files/LICENSE-APACHE"),
];

/// Shell, and what a file of its completions is called.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "hearth.bash"),
    ("zsh", "_hearth"),
    ("fish", "hearth.fish"),
];

/// Makes the folder `whole` around a program.
///
/// # Errors
/// A file that cannot be written, or a program that prints no pages.
pub fn make(whole: &Path, program: &Path) -> Result<(), String> {
    // What an interrupted run has left.
    let _ = std::fs::remove_dir_all(whole);
    let files = whole.join("files");
    for folder in ["bin", "man", "completions", "etc", "docs"] {
        let folder = files.join(folder);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let mut strip = Command::new("strip");
    let hearth = files.join("bin/hearth");
    process::run(strip.arg("-o").arg(&hearth).arg(program))?;
    process::run(Command::new(&hearth).arg("man").arg(files.join("man")))?;
    for (shell, name) in COMPLETIONS {
        let file = files.join("completions").join(name);
        let text = output(Command::new(&hearth).args(["completions", shell]))?;
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    for (from, to) in COPIED {
        let mut copy = Command::new("cp");
        process::run(
            copy.arg("-a")
                .arg(place::root().join(from))
                .arg(whole.join(to)),
        )?;
    }
    Ok(())
}

/// What a program prints.
///
/// # Errors
/// It fails.
pub fn output(command: &mut Command) -> Result<String, String> {
    let line = process::line(command);
    let output = command
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{line}` ended with {}: {said}", output.status))
}

/// The single file in `folder` whose name ends so.
///
/// # Errors
/// There is none, or more than one.
pub fn only(folder: &Path, ending: &str) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found = paths.filter(|path| path.to_string_lossy().ends_with(ending));
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(format!("{}: not one file {ending}", folder.display())),
    }
}

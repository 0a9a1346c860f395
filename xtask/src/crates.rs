//! The crates of the workspace and which way they may import.

use crate::place;
use std::path::PathBuf;

/// A product crate and the crates of the workspace that it may depend on.
pub struct Rule {
    /// Name in `Cargo.toml`.
    pub name: &'static str,
    /// Everything that lies below it.
    pub below: &'static [&'static str],
}

/// The crates in their order. What is shipped may depend on the model and on the mount harness in
/// its tests alone.
pub const RULES: &[Rule] = &[
    Rule {
        name: "hearth-sync",
        below: &[],
    },
    Rule {
        name: "hearth-model",
        below: &[],
    },
    Rule {
        name: "hearth-sched",
        below: &["hearth-sync"],
    },
    Rule {
        name: "hearth-backend",
        below: &[],
    },
    Rule {
        name: "hearth-store",
        below: &["hearth-backend", "hearth-sched", "hearth-sync"],
    },
    Rule {
        name: "hearth",
        below: &[
            "hearth-store",
            "hearth-backend",
            "hearth-sched",
            "hearth-sync",
        ],
    },
    Rule {
        name: "hearth-control",
        below: &["hearth", "hearth-sched", "hearth-sync"],
    },
    Rule {
        name: "hearth-host",
        below: &["hearth", "hearth-sync"],
    },
    Rule {
        name: "hearth-fuse",
        below: &["hearth-control", "hearth", "hearth-sched", "hearth-sync"],
    },
    Rule {
        name: "hearth-cli",
        below: &[
            "hearth-fuse",
            "hearth-host",
            "hearth-control",
            "hearth",
            "hearth-store",
            "hearth-sync",
        ],
    },
    Rule {
        name: "hearth-testing",
        below: &[
            "hearth-fuse",
            "hearth-control",
            "hearth",
            "hearth-model",
            "hearth-sched",
            "hearth-sync",
        ],
    },
    Rule {
        name: "hearth-bench",
        below: &[
            "hearth-testing",
            "hearth-control",
            "hearth",
            "hearth-model",
            "hearth-sched",
            "hearth-sync",
        ],
    },
    Rule {
        name: "hearth-conflicts",
        below: &[
            "hearth-control",
            "hearth",
            "hearth-bench",
            "hearth-model",
            "hearth-sched",
            "hearth-sync",
        ],
    },
    Rule {
        name: "hearth-python",
        // The tests' crate for the wheel that is tested, and for its features alone.
        below: &["hearth-fuse", "hearth", "hearth-sync", "hearth-testing"],
    },
    Rule {
        name: "xtask",
        below: &[],
    },
];

/// A member of the workspace as found on disk.
pub struct Member {
    /// Name in `Cargo.toml`.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Names of its normal and build dependencies.
    pub depends: Vec<String>,
}

/// All members, sorted by folder.
pub fn members() -> Vec<Member> {
    let root = place::root();
    let mut dirs = vec![root.join("xtask")];
    if let Ok(entries) = std::fs::read_dir(root.join("crates")) {
        dirs.extend(entries.flatten().map(|entry| entry.path()));
    }
    dirs.sort();
    dirs.into_iter().filter_map(member).collect()
}

fn member(dir: PathBuf) -> Option<Member> {
    let manifest = std::fs::read_to_string(dir.join("Cargo.toml")).ok()?;
    let (name, depends) = parse(&manifest);
    Some(Member { name, dir, depends })
}

/// Package name and names of normal and build dependencies.
pub fn parse(manifest: &str) -> (String, Vec<String>) {
    let (mut section, mut name, mut depends) = (String::new(), String::new(), Vec::new());
    for line in manifest.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            section = head.trim_end_matches(']').to_owned();
            if let Some(dependency) = section.strip_prefix("dependencies.") {
                depends.push(dependency.to_owned());
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim();
        let listed = section.ends_with("dependencies") && !section.contains("dev-");
        if section == "package" && key == "name" {
            name = value.trim().trim_matches('"').to_owned();
        } else if listed && !key.starts_with('#') {
            depends.push(key.split('.').next().unwrap_or(key).to_owned());
        }
    }
    (name, depends)
}

//! Tests that only a feature turns on: those under loom and shuttle.

use std::path::Path;

/// A target that needs a feature, and so a build of its own.
pub struct Extra {
    pub package: &'static str,
    pub feature: &'static str,
    source: &'static str,
}

impl Extra {
    /// The name of the test program: that of its file.
    pub fn target(&self) -> &'static str {
        let stem = Path::new(self.source).file_stem();
        stem.and_then(|stem| stem.to_str()).unwrap_or(self.feature)
    }
}

/// All of them.
pub const EXTRAS: &[Extra] = &[
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom.rs",
    },
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom_epoch.rs",
    },
    Extra {
        package: "hearth-sync",
        feature: "loom",
        source: "crates/sync/tests/loom_quota.rs",
    },
    Extra {
        package: "hearth-sync",
        feature: "shuttle",
        source: "crates/sync/tests/shuttle.rs",
    },
    Extra {
        package: "hearth-sched",
        feature: "loom",
        source: "crates/sched/tests/loom.rs",
    },
    Extra {
        package: "hearth-sched",
        feature: "shuttle",
        source: "crates/sched/tests/shuttle.rs",
    },
    Extra {
        package: "hearth",
        feature: "shuttle",
        source: "crates/fs/tests/shuttle.rs",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo leaves out a target whose feature is off, without a word.
    #[test]
    fn every_test_that_needs_a_feature_is_run() {
        for member in crate::crates::members() {
            let manifest = std::fs::read_to_string(member.dir.join("Cargo.toml")).unwrap();
            let defaults = manifest.lines().find(|line| line.starts_with("default = "));
            for block in manifest.split("[[test]]").skip(1) {
                let block = block.split("\n[").next().unwrap_or(block);
                let Some((_, needs)) = block.split_once("required-features = [\"") else {
                    continue;
                };
                let feature = needs.split('"').next().unwrap();
                let on = defaults.is_some_and(|line| line.contains(&format!("\"{feature}\"")));
                let test = block.split("name = \"").nth(1).unwrap().split('"').next();
                let extra = EXTRAS.iter().any(|extra| {
                    (extra.package, extra.feature) == (&*member.name, feature)
                        && Some(extra.target()) == test
                });
                assert!(on || extra, "{}: nobody runs {test:?}", member.name);
            }
        }
    }
}

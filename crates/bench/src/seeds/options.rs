//! Arguments of `hearth-bench seeds`.

use super::{Family, families};
use crate::options::Options;

/// What this verb understands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedOptions {
    /// What all verbs understand.
    pub common: Options,
    /// Leave out what is counted: the program that counts lines takes minutes to build.
    pub no_count: bool,
    /// The targets, by name or directory; none means the usual ones.
    pub targets: Vec<String>,
}

impl SeedOptions {
    /// Reads `args`.
    ///
    /// # Errors
    /// Which argument is unknown or incomplete.
    pub fn parse(args: &[String]) -> Result<SeedOptions, String> {
        let (mut targets, mut no_count) = (Vec::new(), false);
        let mut others = Vec::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match &**arg {
                "--target" => {
                    let named = args.next().ok_or("--target needs a name or a directory")?;
                    targets.extend(named.split(',').map(str::to_owned));
                }
                "--no-count" => no_count = true,
                // The next one is its value, whatever it looks like.
                "--json" | "--only" => others.extend([arg].into_iter().chain(args.next()).cloned()),
                _ => others.push(arg.clone()),
            }
        }
        Ok(SeedOptions {
            common: Options::parse(&others)?,
            no_count,
            targets,
        })
    }

    /// Whether `--only` names the family, a part of a workload of it, or is not given.
    pub fn wants_family(&self, family: &dyn Family) -> bool {
        let wants = |name: &str| self.wants(family.name(), name);
        self.common.only.is_none() || family.workloads().iter().any(|name| wants(name))
    }

    /// Whether the workload of the family is wanted. A name of a family means that one alone,
    /// although it may be a part of another's workload.
    pub fn wants(&self, family: &str, workload: &str) -> bool {
        let Some(only) = self.common.only.as_deref() else {
            return true;
        };
        if families().iter().any(|family| family.name() == only) {
            return family == only;
        }
        workload.contains(only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::file_ops::FileOps;

    fn parse(args: &[&str]) -> Result<SeedOptions, String> {
        SeedOptions::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn targets_are_collected_and_the_rest_is_as_everywhere() {
        let options = parse(&["--target", "lib,tmpfs", "--quick", "--target", "/tmp"]).unwrap();
        assert_eq!(options.targets, ["lib", "tmpfs", "/tmp"]);
        assert!(options.common.quick && !options.no_count);
        assert!(parse(&["--no-count"]).unwrap().no_count);
        assert!(parse(&["--target"]).unwrap_err().contains("--target"));
        assert!(parse(&["--only"]).unwrap_err().contains("--only"));
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
    }

    #[test]
    fn only_takes_a_family_or_a_part_of_a_workload() {
        let wants = |only: &str| parse(&["--only", only]).unwrap().wants_family(&FileOps);
        assert!(wants("file-ops") && wants("creat/unlink"));
        assert!(!wants("file") && !wants("sendmail"));
        assert!(parse(&[]).unwrap().wants_family(&FileOps));
        let single = parse(&["--only", "single"]).unwrap();
        assert!(single.wants("single", "stat") && !single.wants("thread_perf", "dirsingle"));
    }
}

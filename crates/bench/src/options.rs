//! Arguments of the verbs.

use std::path::PathBuf;

/// Arguments after the verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A first look instead of figures.
    pub quick: bool,
    /// Where the rows go.
    pub json: Option<PathBuf>,
    /// Only what has this in its name.
    pub only: Option<String>,
    /// How often everything is measured, where a run takes long.
    pub rounds: Option<usize>,
    /// `seeds`: leaves out what is counted; the program that counts lines takes minutes to build.
    pub no_count: bool,
    /// `seeds`: the targets, by name or directory; none means the usual ones. `store`: the
    /// directory on whose disk everything lies.
    pub targets: Vec<String>,
}

impl Options {
    /// Whether `name` is to be measured.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(&**only))
    }

    /// The first of the two in a first look, else the second.
    pub fn pick<T>(&self, quick: T, whole: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// The rounds that were asked for, else as [`Options::pick`].
    pub fn rounds_or(&self, quick: usize, whole: usize) -> usize {
        self.rounds.unwrap_or(self.pick(quick, whole))
    }

    /// Whether this part of a verb is to run; `--only` has its whole name.
    pub fn wants_part(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    /// An error that names all `parts` if `--only` names none of them.
    pub fn check_part(&self, parts: &[&str]) -> Result<(), String> {
        match &self.only {
            Some(only) if !parts.contains(&&**only) => {
                let parts = parts.join(", ");
                Err(format!("unknown part '{only}'; there are: {parts}"))
            }
            _ => Ok(()),
        }
    }

    /// Reads the arguments of `verb`; an error names the one that is unknown or incomplete.
    pub fn parse(verb: &str, args: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = |what| args.next().ok_or(format!("{arg} needs {what}"));
            match (&**arg, verb) {
                ("--quick", _) => options.quick = true,
                ("--json", _) => options.json = Some(value("a file")?.into()),
                ("--only", _) => options.only = Some(value("a name")?.clone()),
                ("--rounds", _) => options.rounds = Some(rounds(args.next())?),
                ("--no-count", "seeds") => options.no_count = true,
                ("--target", "seeds" | "store") => {
                    let named = value("a name or a directory")?;
                    options.targets.extend(named.split(',').map(str::to_owned));
                }
                _ => return Err(format!("unknown argument '{arg}'")),
            }
        }
        Ok(options)
    }
}

fn rounds(typed: Option<&String>) -> Result<usize, String> {
    let rounds = typed.and_then(|typed| typed.parse().ok());
    rounds
        .filter(|rounds| (1..=100).contains(rounds))
        .ok_or("--rounds needs a number from 1 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(verb: &str, args: &[&str]) -> Result<Options, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        Options::parse(verb, &args)
    }

    #[test]
    fn an_argument_that_is_unknown_or_incomplete_is_named() {
        assert!(parse("lib", &["--quick"]).unwrap().quick);
        assert_eq!(
            parse("lib", &["--json", "a"]).unwrap().json,
            Some("a".into())
        );
        assert_eq!(parse("lib", &["--rounds", "2"]).unwrap().rounds, Some(2));
        for typed in [
            &["--json"][..],
            &["--only"],
            &["--rounds"],
            &["--rounds", "0"],
            &["--rounds", "x"],
            &["--fast"],
            &["--target", "lib"],
        ] {
            assert!(parse("lib", typed).unwrap_err().contains(typed[0]));
        }
    }

    #[test]
    fn seeds_collects_targets() {
        let args = [
            "--target",
            "lib,tmpfs",
            "--quick",
            "--target",
            "/tmp",
            "--no-count",
        ];
        let options = parse("seeds", &args).unwrap();
        assert_eq!(options.targets, ["lib", "tmpfs", "/tmp"]);
        assert!(options.quick && options.no_count);
        assert!(
            parse("seeds", &["--target"])
                .unwrap_err()
                .contains("--target")
        );
    }

    #[test]
    fn an_unknown_part_is_named_with_those_there_are() {
        let options = parse("heat", &["--only", "ffbs"]).unwrap();
        let said = options.check_part(&["ffsb", "rows"]).unwrap_err();
        assert_eq!(said, "unknown part 'ffbs'; there are: ffsb, rows");
        assert!(options.wants("the ffbs") && !options.wants_part("ffsb"));
    }
}

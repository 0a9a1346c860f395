//! What all verbs understand.

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
}

impl Options {
    /// Whether what has this name is to be measured.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(&**only))
    }

    /// Whether this part of a verb is to run; the name is the whole of it.
    pub fn wants_part(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    /// # Errors
    /// What is asked for is none of these parts; they are named.
    pub fn check_part(&self, parts: &[&str]) -> Result<(), String> {
        match &self.only {
            Some(only) if !parts.contains(&&**only) => {
                let parts = parts.join(", ");
                Err(format!("unknown part '{only}'; there are: {parts}"))
            }
            _ => Ok(()),
        }
    }

    /// Reads `args`.
    ///
    /// # Errors
    /// Which argument is unknown or incomplete.
    pub fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match &**arg {
                "--quick" => options.quick = true,
                "--json" => options.json = Some(args.next().ok_or("--json needs a file")?.into()),
                "--only" => options.only = Some(args.next().ok_or("--only needs a name")?.clone()),
                "--rounds" => options.rounds = Some(rounds(args.next())?),
                other => return Err(format!("unknown argument '{other}'")),
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

    #[test]
    fn an_argument_that_is_unknown_or_incomplete_is_named() {
        let parse = |args: &[&str]| {
            Options::parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
        };
        assert!(parse(&["--quick"]).unwrap().quick);
        assert_eq!(parse(&["--json", "a"]).unwrap().json, Some("a".into()));
        assert!(parse(&["--json"]).unwrap_err().contains("--json"));
        assert_eq!(parse(&["--rounds", "2"]).unwrap().rounds, Some(2));
        for typed in [&["--rounds"][..], &["--rounds", "0"], &["--rounds", "x"]] {
            assert!(parse(typed).unwrap_err().contains("--rounds"));
        }
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
    }
}

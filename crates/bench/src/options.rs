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
}

impl Options {
    /// Whether what has this name is to be measured.
    pub fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(&**only))
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
                other => return Err(format!("unknown argument '{other}'")),
            }
        }
        Ok(options)
    }
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
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
    }
}

//! Files that say what is mounted where: `/etc/hearth/NAME.toml`, which `hearth@NAME.service`
//! reads.

use crate::args::MountArgs;
use crate::failure::Failure;
use crate::{serve, wrong_place};
use hearth::Source;
use hearth_store::GivenFile;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::fmt::{Display, Formatter};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Everything that may stand in a file.
const KEYS: &[&str] = &["source", "mountpoint", "options", "log"];

/// Bytes of a file at most: a path to something else, which may have no end, is told from one.
const LEN_MAX: usize = 1 << 20;

/// What a file says, each with its place in the text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    source: Option<Spanned<String>>,
    mountpoint: Option<Spanned<PathBuf>>,
    options: Option<Spanned<Options>>,
    log: Option<Spanned<PathBuf>>,
}

/// Mount options: a list, or one text with commas as after `-o`.
#[derive(Default)]
struct Options(Vec<Spanned<String>>);

/// The arguments of `hearth mount` with what the file says that they name. What was typed beside
/// comes after it and wins.
///
/// # Errors
/// One line that names the file, the line in it, and what would be right.
pub fn completed(mut args: MountArgs) -> Result<MountArgs, Failure> {
    let Some(path) = &args.config else {
        return Ok(args);
    };
    let text = read(path)?;
    let file = File { path, text: &text };
    let written = file.parse()?;
    let mountpoint = file.mountpoint(written.mountpoint)?;
    let source = file.source(written.source)?;
    let options = file.options(&source, written.options)?;
    if let Some(log) = written.log {
        let span = log.span();
        let log = file.absolute("log", log.into_inner(), span)?;
        args.log.get_or_insert(log);
    }
    args.places = vec![source.into(), mountpoint];
    args.options.splice(0..0, options);
    Ok(args)
}

/// The mount point that a file names.
///
/// # Errors
/// Those of [`completed`].
pub fn mountpoint(path: &Path) -> Result<PathBuf, Failure> {
    let text = read(path)?;
    let file = File { path, text: &text };
    let written = file.parse()?;
    file.mountpoint(written.mountpoint)
}

fn read(path: &Path) -> Result<String, Failure> {
    let give = "give a file such as /etc/hearth/NAME.toml";
    let given = GivenFile::read(path, LEN_MAX);
    match given.map_err(|error| wrong_place::failure(path, &error, give))? {
        GivenFile::Whole(bytes) => String::from_utf8(bytes)
            .map_err(|_| Failure::at(path, format!("what it has is not UTF-8; {give}"))),
        GivenFile::TooLong => {
            let what = format!("is longer than 1 MiB, as no configuration is; {give}");
            Err(Failure::at(path, what))
        }
        GivenFile::NamedPipe => {
            let what = format!("is a named pipe, which nobody may ever write to; {give}");
            Err(Failure::at(path, what))
        }
    }
}

/// A file that is read.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn parse(&self) -> Result<Written, Failure> {
        toml::from_str(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let said = error.message().replace('\n', ", ");
            if !said.starts_with("unknown field") {
                return self.wrong(
                    span,
                    format!("{said}; 'man hearth-mount' shows a whole file"),
                );
            }
            let key = self.text.get(span.clone()).unwrap_or_default();
            self.wrong(span, unknown(key.trim_matches(['"', '\''])))
        })
    }

    /// A line of the file is wrong.
    fn wrong(&self, span: Range<usize>, what: impl Display) -> Failure {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Failure::usage(format!("{}:{line}: {what}", self.path.display()))
    }

    fn mountpoint(&self, written: Option<Spanned<PathBuf>>) -> Result<PathBuf, Failure> {
        let Some(written) = written else {
            let path = self.path.display();
            let line = format!("{path}: no mount point; add a line mountpoint = \"/srv/NAME\"");
            return Err(Failure::usage(line));
        };
        let span = written.span();
        self.absolute("mountpoint", written.into_inner(), span)
    }

    /// The file is read from any directory, so its paths begin at the root.
    fn absolute(&self, key: &str, path: PathBuf, span: Range<usize>) -> Result<PathBuf, Failure> {
        if path.is_absolute() {
            return Ok(path);
        }
        let path = path.display();
        let what = format!("{key} = \"{path}\": begins at no fixed place; give a path from / on");
        Err(self.wrong(span, what))
    }

    fn source(&self, written: Option<Spanned<String>>) -> Result<String, Failure> {
        let Some(written) = written else {
            return Ok("memory:".to_owned());
        };
        let (span, text) = (written.span(), written.into_inner());
        let parsed = text.parse::<Source>();
        let parsed = parsed.map_err(|error| self.wrong(span.clone(), error))?;
        if let Source::Store(path) | Source::Host(path) = parsed {
            self.absolute("source", path, span)?;
        }
        Ok(text)
    }

    /// The options, each of which the source takes.
    fn options(
        &self,
        source: &str,
        written: Option<Spanned<Options>>,
    ) -> Result<Vec<String>, Failure> {
        let Some(written) = written else {
            return Ok(Vec::new());
        };
        let whole = written.span();
        let each = written.into_inner().0;
        // The source was read before.
        let source = source.parse().unwrap_or(Source::Memory);
        let check = |options: &[String]| serve::source_options(&source, options).map(drop);
        for option in &each {
            let span = Some(option.span()).filter(|span| !span.is_empty());
            let span = span.unwrap_or_else(|| whole.clone());
            check(std::slice::from_ref(option.get_ref()))
                .map_err(|failure| self.wrong(span, failure.line))?;
        }
        let options: Vec<String> = each.into_iter().map(Spanned::into_inner).collect();
        check(&options).map_err(|failure| self.wrong(whole, failure.line))?;
        Ok(options)
    }
}

/// What is said of a key that means nothing.
fn unknown(key: &str) -> String {
    let near = |known: &&&str| strsim::damerau_levenshtein(key, known);
    let known = KEYS.join(", ");
    match KEYS.iter().min_by_key(near) {
        Some(nearest) if near(&nearest) <= 1 + nearest.len() / 3 => {
            format!("unknown key '{key}'; did you mean '{nearest}'? The keys are {known}")
        }
        _ => format!("unknown key '{key}'; the keys are {known}"),
    }
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Options, D::Error> {
        deserializer.deserialize_any(OptionsVisitor)
    }
}

struct OptionsVisitor;

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = Options;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of options, or a string of options separated by commas")
    }

    fn visit_str<E>(self, text: &str) -> Result<Options, E> {
        // Its place is that of the whole.
        Ok(Options(vec![Spanned::new(0..0, text.to_owned())]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Options, A::Error> {
        let mut options = Vec::new();
        while let Some(option) = list.next_element()? {
            options.push(option);
        }
        Ok(Options(options))
    }
}

#[cfg(test)]
mod tests;

//! The image of `packaging/Dockerfile`: its root filesystem, made of what the file copies and of
//! nothing else, and the program started in it by chroot. No Docker is needed.

use super::{read, stage};
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a Dockerfile from nothing says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Image {
    /// From a place in the tarball, to a place in the image.
    copied: Vec<(String, String)>,
    entry: Vec<String>,
    arguments: Vec<String>,
}

/// Builds the image from the unpacked tarball `context` and starts it.
///
/// # Errors
/// The Dockerfile asks for what is not there, or the program does not run in the image.
pub fn check(context: &Path) -> Result<(), String> {
    let image = parse(&read(&context.join("Dockerfile"))?)?;
    let root = build(&image, context)?;
    if !process::is_root() {
        println!("not root: the image is built and not started");
        return Ok(());
    }
    let started = |words: &[&str]| {
        let mut chroot = Command::new("chroot");
        chroot.arg(&root).args(&image.entry).args(words);
        chroot
    };
    let arguments: Vec<&str> = image.arguments.iter().map(String::as_str).collect();
    let usage = stage::output(&mut started(&arguments))?;
    if !usage.contains("Usage: hearth") {
        return Err(format!("the image prints no usage: {usage}"));
    }
    process::run(&mut started(&["version"]))?;
    // The names of users are asked of nobody.
    let wrong = started(&["quota", "set", "user:nobody", "--hard", "1M", "/"]).output();
    let wrong = wrong.map_err(|error| format!("chroot: {error}"))?;
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    if !said.contains("no user 'nobody' on this machine") {
        let status = wrong.status;
        return Err(format!("a user where there is none: {status}: {said}"));
    }
    Ok(())
}

/// Makes the root filesystem beside the context.
fn build(image: &Image, context: &Path) -> Result<PathBuf, String> {
    let root = context.with_file_name("image");
    let _ = std::fs::remove_dir_all(&root);
    for (from, to) in &image.copied {
        let to = root.join(to.trim_start_matches('/'));
        let parent = to.parent().unwrap_or(&root);
        std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
        std::fs::copy(context.join(from), &to)
            .map_err(|error| format!("Dockerfile: COPY {from}: {error}"))?;
    }
    let entry = image.entry.first().ok_or("Dockerfile: no ENTRYPOINT")?;
    match root.join(entry.trim_start_matches('/')).is_file() {
        true => Ok(root),
        false => Err(format!("Dockerfile: nothing is copied to {entry}")),
    }
}

/// Reads a Dockerfile. One that needs more than copying, or starts from another image, is refused.
fn parse(text: &str) -> Result<Image, String> {
    let mut image = Image::default();
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    match lines.next() {
        Some("FROM scratch") => {}
        other => return Err(format!("Dockerfile: begins with {other:?}")),
    }
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["COPY", from, to] => image.copied.push((from.to_owned(), to.to_owned())),
            ["ENTRYPOINT", ..] => image.entry = list(line)?,
            ["CMD", ..] => image.arguments = list(line)?,
            _ => return Err(format!("Dockerfile: cannot be tried: {line}")),
        }
    }
    Ok(image)
}

/// The words of a list in the form of JSON, which is the only one that needs no shell.
fn list(line: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("Dockerfile: needs a shell: {line}");
    let inside = line
        .split_once(" [")
        .and_then(|(_, rest)| rest.strip_suffix(']'));
    let words = inside.ok_or_else(wrong)?.split(',');
    words
        .map(|word| {
            let word = word.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some(word.to_owned())
        })
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place;

    #[test]
    fn the_dockerfile_copies_what_the_tarball_has() {
        let text = read(&place::root().join("packaging/Dockerfile")).unwrap();
        let image = parse(&text).unwrap();
        let own = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(image.copied, [own("bin/hearth", "/usr/bin/hearth")]);
        assert_eq!(image.entry, ["/usr/bin/hearth"]);
        assert_eq!(image.arguments, ["--help"]);
    }

    #[test]
    fn a_dockerfile_that_needs_more_is_refused() {
        assert!(parse("FROM debian\nCOPY a /a\n").is_err());
        assert!(parse("FROM scratch\nRUN true\n").is_err_and(|said| said.contains("RUN")));
        assert!(parse("FROM scratch\nENTRYPOINT /hearth\n").is_err());
        let none = parse("FROM scratch\nCOPY a /a\n").unwrap();
        let said = build(&none, Path::new("/no/such")).unwrap_err();
        assert!(said.contains("COPY a"), "{said}");
    }
}

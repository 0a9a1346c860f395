//! Results that are committed: what a verb prints, its rows and its pictures, in `docs/benchmarks`.

use crate::failure::Context;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The argument that asks for it.
pub const RECORD: &str = "--record";

/// Runs `verb` of this program again without [`RECORD`], and keeps what it prints as `VERB.txt` and
/// its rows as `VERB.jsonl`; pictures are drawn beside the rows.
pub fn run(verb: &str, args: &[String]) -> Result<(), String> {
    let args: Vec<&String> = args.iter().filter(|arg| *arg != RECORD).collect();
    if args.iter().any(|arg| *arg == "--json") {
        return Err(format!(
            "{RECORD} names the file of the rows itself; leave --json out"
        ));
    }
    let folder = folder();
    let rows = folder.join(format!("{verb}.jsonl"));
    // What is written here is no change of what is measured.
    let commit = commit();
    // A run that fails early leaves none of its own.
    let _ = std::fs::remove_file(&rows);
    let program = std::env::current_exe().text()?;
    let mut child = Command::new(program)
        .arg(verb)
        .args(&args)
        .arg("--json")
        .arg(&rows)
        .stdout(Stdio::piped())
        .spawn()
        .context(verb)?;
    let out = child.stdout.take().ok_or("the run has no output")?;
    let mut text = String::new();
    for line in BufReader::new(out).lines() {
        let line = line.context(verb)?;
        let _ = writeln!(std::io::stdout(), "{line}");
        text.push_str(&as_page(&line, &folder));
        text.push('\n');
    }
    let status = child.wait().context(verb)?;
    let page = folder.join(format!("{verb}.txt"));
    let words: Vec<&str> = args.iter().map(|arg| arg.as_str()).collect();
    let command = format!("cargo xtask bench {verb} {}", words.join(" "));
    let command = command.trim_end();
    let head = format!("# `{command}`\n\nCommit {commit}; rows: `{verb}.jsonl`.\n\n");
    std::fs::write(&page, head + &text).at(&page)?;
    if let Ok(text) = std::fs::read_to_string(&rows) {
        keep_rows(&rows, command, &commit, &text)?;
    }
    match status.success() {
        true => Ok(()),
        false => Err(format!("{verb}: {status}; what it printed is kept")),
    }
}

/// A picture that was drawn is shown.
fn as_page(line: &str, folder: &Path) -> String {
    let drawn = line.strip_prefix("Drawn: ").map(Path::new);
    match drawn.and_then(|path| path.strip_prefix(folder).ok()) {
        Some(name) => {
            let name = name.display();
            format!("![{name}]({name})")
        }
        None => line.to_owned(),
    }
}

/// Writes `rows` as a file that is committed: before them a line with the command and the commit
/// that they come from.
pub fn keep_rows(path: &Path, command: &str, commit: &str, rows: &str) -> Result<(), String> {
    let from = serde_json::json!({ "command": command, "commit": commit });
    std::fs::write(path, format!("{from}\n{rows}")).at(path)
}

/// Where recorded results are.
pub fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    root.join("docs/benchmarks")
}

/// The commit that this program is built from, marked if the tree has changed since.
pub fn commit() -> String {
    let git = Command::new("git")
        .current_dir(folder())
        .args(["describe", "--always", "--dirty"])
        .output();
    match git {
        Ok(git) if git.status.success() => String::from_utf8_lossy(&git.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_beside_the_page_is_shown_and_other_lines_stay() {
        let folder = Path::new("/a/docs");
        assert_eq!(
            as_page("Drawn: /a/docs/seeds-x.svg", folder),
            "![seeds-x.svg](seeds-x.svg)"
        );
        for line in ["Drawn: /b/x.svg", "| a | b |"] {
            assert_eq!(as_page(line, folder), line);
        }
    }

    #[test]
    fn rows_say_first_what_they_come_from() {
        let name = format!("hearth-test-{}-record.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        keep_rows(
            &path,
            "cargo xtask bench memory",
            "abc123",
            "{\"value\":1}\n",
        )
        .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines[0]["command"], "cargo xtask bench memory");
        assert_eq!(lines[0]["commit"], "abc123");
        assert_eq!((lines.len(), &lines[1]["value"]), (2, &1.into()));
    }

    #[test]
    fn a_second_file_of_rows_is_refused() {
        let args = ["--record", "--json", "x"].map(str::to_owned);
        assert!(run("seeds", &args).unwrap_err().contains("--json"));
    }
}

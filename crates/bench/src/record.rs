//! Results that are committed: what a verb prints, its rows and its pictures, in `docs/benchmarks`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The argument that asks for it.
pub const RECORD: &str = "--record";

/// Runs `verb` of this program again without [`RECORD`], and keeps what it prints as `VERB.md` and
/// its rows as `VERB.jsonl`; pictures are drawn beside the rows.
///
/// # Errors
/// The verb fails (what it printed is kept all the same), or nothing can be written.
pub fn run(verb: &str, args: &[String]) -> Result<(), String> {
    let args: Vec<&String> = args.iter().filter(|arg| *arg != RECORD).collect();
    if args.iter().any(|arg| *arg == "--json") {
        return Err(format!(
            "{RECORD} names the file of the rows itself; leave --json out"
        ));
    }
    let folder = folder();
    let rows = folder.join(format!("{verb}.jsonl"));
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg(verb)
        .args(&args)
        .arg("--json")
        .arg(&rows)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{verb}: {error}"))?;
    let out = child.stdout.take().ok_or("the run has no output")?;
    let mut text = String::new();
    for line in BufReader::new(out).lines() {
        let line = line.map_err(|error| format!("{verb}: {error}"))?;
        let _ = writeln!(std::io::stdout(), "{line}");
        text.push_str(&as_page(&line, &folder));
        text.push('\n');
    }
    let status = child.wait().map_err(|error| format!("{verb}: {error}"))?;
    let page = folder.join(format!("{verb}.md"));
    let words: Vec<&str> = args.iter().map(|arg| arg.as_str()).collect();
    let command = format!("cargo xtask bench {verb} {}", words.join(" "));
    let head = format!(
        "# `{}`\n\nCommit {}; rows: `{verb}.jsonl`.\n\n",
        command.trim_end(),
        commit()
    );
    std::fs::write(&page, head + &text).map_err(|error| format!("{}: {error}", page.display()))?;
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

fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    root.join("docs/benchmarks")
}

fn commit() -> String {
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
    fn a_second_file_of_rows_is_refused() {
        let args = ["--record", "--json", "x"].map(str::to_owned);
        assert!(run("seeds", &args).unwrap_err().contains("--json"));
    }
}

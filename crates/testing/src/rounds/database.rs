//! SQLite told to be durable: what was committed is there, and the file is sound.

use super::Workload;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Two databases, one for each way in which SQLite keeps a journal.
pub struct Database {
    seed: u64,
    /// The highest row that was committed, by database.
    committed: [u64; 2],
    turn: usize,
}

/// The ways to keep a journal, and the setting with which a commit is durable: `full` does not sync
/// the directory after the end of a transaction, which is the removal of its journal.
const MODES: [&str; 2] = ["wal", "delete"];
const SYNCHRONOUS: [&str; 2] = ["full", "extra"];

impl Database {
    /// Nothing is committed yet.
    pub fn new(seed: u64) -> Database {
        Database {
            seed,
            committed: [0; 2],
            turn: 0,
        }
    }

    fn sqlite(at: &Path, file: &str) -> Command {
        // Lines come as they are printed, and nobody waits for ever.
        let mut sqlite = Command::new("timeout");
        sqlite.args(["-s", "KILL", "120", "stdbuf", "-oL", "sqlite3", "-bail"]);
        sqlite.arg(file).current_dir(at);
        sqlite
    }

    fn run(&mut self, at: &Path, end: &AtomicBool) -> std::io::Result<()> {
        let mode = self.turn;
        let mut sqlite = Database::sqlite(at, MODES[mode]);
        sqlite.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut sqlite = sqlite.stderr(Stdio::null()).spawn()?;
        let (input, output) = (sqlite.stdin.take(), sqlite.stdout.take());
        let done = input.zip(output).map_or(Ok(()), |(mut input, output)| {
            let mut lines = BufReader::new(output).lines();
            writeln!(
                input,
                "PRAGMA journal_mode={}; PRAGMA synchronous={};
                 CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, twin INTEGER, pad BLOB);
                 SELECT 'ready';",
                MODES[mode], SYNCHRONOUS[mode]
            )?;
            while lines
                .next()
                .transpose()?
                .is_some_and(|line| line != "ready")
            {}
            while !end.load(Ordering::Relaxed) {
                let next = self.committed[mode] + 1;
                let size = (self.seed ^ next) % 3_000;
                // Before the answer it may be there or not.
                writeln!(
                    input,
                    "BEGIN; INSERT OR REPLACE INTO t VALUES ({next}, {}, randomblob({size}));
                     COMMIT; SELECT {next};",
                    next * 7
                )?;
                match lines.next().transpose()? {
                    Some(line) if line == next.to_string() => self.committed[mode] = next,
                    _ => break,
                }
            }
            Ok(())
        });
        sqlite.wait()?;
        done
    }
}

impl Workload for Database {
    fn name(&self) -> &'static str {
        "database"
    }

    fn work(&mut self, at: &Path, end: &AtomicBool) {
        // The failure of the service is what ends it.
        let _ = self.run(at, end);
        self.turn = 1 - self.turn;
    }

    fn check(&mut self, at: &Path) -> Result<(), String> {
        for (mode, committed) in MODES.iter().zip(&self.committed) {
            if !at.join(mode).exists() {
                match committed {
                    0 => continue,
                    _ => return Err(format!("{mode}: {committed} rows and the file are gone")),
                }
            }
            let question = format!(
                "PRAGMA integrity_check;
                 SELECT count(*) FROM sqlite_schema WHERE name = 't';
                 SELECT count(*) = {committed} FROM t WHERE n <= {committed} AND twin = n * 7;
                 SELECT count(*) <= 1 FROM t WHERE n > {committed};"
            );
            let mut sqlite = Database::sqlite(at, mode);
            let answer = sqlite.arg(question).output();
            let answer = answer.map_err(|error| format!("sqlite3: {error}"))?;
            let text = String::from_utf8_lossy(&answer.stdout);
            let lines: Vec<&str> = text.lines().collect();
            let is_right = match lines[..] {
                ["ok", "0", ..] => *committed == 0,
                _ => lines == ["ok", "1", "1", "1"],
            };
            if !is_right {
                let said = String::from_utf8_lossy(&answer.stderr);
                return Err(format!(
                    "{mode}, {committed} rows committed: {lines:?} {said}{}",
                    answer.status
                ));
            }
        }
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.committed.iter().sum()
    }
}

//! What a racer is told to do in a round, and how the two talk.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// One racer's part of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) seed: u64,
    pub(crate) uid: u32,
    /// Of what it makes.
    pub(crate) gid: u32,
    pub(crate) project: u32,
    /// Operations of the race.
    pub(crate) steps: u64,
    /// Whether it stores through mappings as well.
    pub(crate) maps: bool,
    /// Whether its inodes are limited.
    pub(crate) inodes: bool,
    /// The groups that its files may be of and in which their pages are limited, by whomever.
    pub(crate) limited: Vec<u32>,
    /// The directory of the project.
    pub(crate) place: String,
}

impl Task {
    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "{} {} {} {} {} {} {}",
            self.seed, self.uid, self.gid, self.project, self.steps, self.maps, self.inodes
        );
        let limited: Vec<_> = self.limited.iter().map(u32::to_string).collect();
        write!(line, " {} {}", limited.join(","), self.place).expect("a string grows");
        line
    }

    pub(crate) fn parse(line: &str) -> Task {
        let words: Vec<&str> = line.splitn(9, ' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let limited = words[7].split(',').filter(|word| !word.is_empty());
        Task {
            seed: number(0),
            uid: number(1) as u32,
            gid: number(2) as u32,
            project: number(3) as u32,
            steps: number(4),
            maps: words[5] == "true",
            inodes: words[6] == "true",
            limited: limited.map(|gid| gid.parse().expect("a number")).collect(),
            place: words[8].to_owned(),
        }
    }
}

/// Lines to and from another process.
pub(crate) struct Talk {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

impl Talk {
    pub(crate) fn over(socket: UnixStream) -> Talk {
        let from = socket.try_clone().expect("a descriptor");
        Talk {
            to: socket,
            from: BufReader::new(from),
        }
    }

    /// All of them in one piece. Nobody hears them if the other one is gone.
    pub(crate) fn say(&mut self, lines: &[String]) {
        let mut text = lines.join("\n");
        text.push('\n');
        let _ = self.to.write_all(text.as_bytes());
    }

    /// The next line; `None` if the other one is gone.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        let len = self.from.read_line(&mut line).unwrap_or(0);
        (len > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }
}

mod tests {
    use super::*;

    #[test]
    fn a_task_comes_as_it_was_given() {
        let task = Task {
            seed: u64::MAX,
            uid: 1,
            gid: 2,
            project: 3,
            steps: 40,
            maps: true,
            inodes: false,
            limited: vec![2, 5],
            place: "/a place".into(),
        };
        let free = Task {
            limited: Vec::new(),
            ..task.clone()
        };
        for task in [task, free] {
            assert_eq!(Task::parse(&task.line()), task);
        }
    }
}

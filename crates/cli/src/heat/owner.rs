//! Names of users and groups, as far as the machine's own files have them.

use std::collections::HashMap;

/// Names by number.
#[derive(Debug, Default)]
pub struct Owners(HashMap<u64, String>);

impl Owners {
    /// Of `/etc/passwd`.
    pub fn users() -> Owners {
        Owners::of("/etc/passwd")
    }

    /// Of `/etc/group`.
    pub fn groups() -> Owners {
        Owners::of("/etc/group")
    }

    /// The name, or the number.
    pub fn name(&self, id: u64) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    fn of(file: &str) -> Owners {
        let text = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = |line: &str| {
            let mut words = line.split(':');
            let name = words.next()?.to_owned();
            Some((words.nth(1)?.parse().ok()?, name))
        };
        // The first name of a number is the one that others show.
        Owners(text.lines().rev().filter_map(line).collect())
    }
}

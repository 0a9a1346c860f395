//! What one user does: the published multiset of commands, in an order of the user's own.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The multiset, as `docs/benchmarks/sdet.txt` has it.
const PUBLISHED: &str = include_str!("../../../../../docs/benchmarks/sdet.txt");

/// One line of the multiset.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScriptLine {
    times: usize,
    commands: Vec<String>,
    text: String,
}

/// The commands of a script, without an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiset(Vec<ScriptLine>);

impl Multiset {
    /// The published one; each of its lines once when it is to be `small`.
    pub fn published(small: bool) -> Result<Multiset, String> {
        let mut all = Multiset::parse(PUBLISHED)?;
        if small {
            all.0.iter_mut().for_each(|line| line.times = 1);
        }
        Ok(all)
    }

    fn parse(text: &str) -> Result<Multiset, String> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parsed: Result<_, String> = lines
            .map(|(number, line)| {
                parse_line(line).ok_or_else(|| format!("sdet.txt, line {}: '{line}'", number + 1))
            })
            .collect();
        parsed.map(Multiset)
    }

    /// The commands that lines are counted for, each once, sorted.
    pub fn commands(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .0
            .iter()
            .flat_map(|line| line.commands.iter().map(|name| &**name))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Leaves out the lines whose commands are not all there; returns which commands are missing.
    pub fn leave_out(&mut self, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        let commands = self.commands();
        let missing = commands.iter().filter(|name| !is_there(name));
        let missing: Vec<String> = missing.map(|&name| name.to_owned()).collect();
        let lacks = |line: &ScriptLine| line.commands.iter().any(|name| missing.contains(name));
        self.0.retain(|line| !lacks(line));
        missing
    }

    /// How many lines a script has.
    pub fn steps(&self) -> usize {
        self.0.iter().map(|line| line.times).sum()
    }

    /// The script of user number `user`.
    pub fn script(&self, user: u64) -> String {
        let mut steps: Vec<String> = Vec::new();
        for line in &self.0 {
            let instance = |n: usize| line.text.replace('@', &n.to_string());
            steps.extend((1..=line.times).map(instance));
        }
        shuffle(&mut steps, user);
        steps.join("\n") + "\n"
    }
}

/// Whether a program of this name is in one of the directories that scripts look in.
pub fn is_installed(name: &str) -> bool {
    let directories = std::env::split_paths(OsStr::new(PATH));
    directories
        .map(|directory| -> PathBuf { directory.join(name) })
        .any(|file| file.is_file())
}

/// Where scripts find programs, after their user's own `bin`.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn parse_line(line: &str) -> Option<ScriptLine> {
    let (times, rest) = line.split_once(' ')?;
    let (commands, text) = rest.trim_start().split_once(' ')?;
    let times = times.parse().ok().filter(|&times| times > 0)?;
    Some(ScriptLine {
        times,
        commands: commands.split(',').map(str::to_owned).collect(),
        text: text.trim().to_owned(),
    })
}

/// Fisher and Yates, drawn from `seed`.
fn shuffle(steps: &mut [String], seed: u64) {
    let mut state = seed;
    for last in (1..steps.len()).rev() {
        let other = (splitmix(&mut state) % (last as u64 + 1)) as usize;
        steps.swap(last, other);
    }
}

/// Steele, Lea and Flood's generator: neighbouring seeds give unlike sequences.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_script_has_every_command_that_the_benchmark_is_defined_by() {
        let wanted = "cat cc cp cpio date diff echo ed expr find grep ls make mkdir mv nroff pr rm \
                      rmdir sh spell test time touch wc who";
        let published = Multiset::published(false).unwrap();
        let wanted: Vec<&str> = wanted.split(' ').collect();
        assert_eq!(published.commands(), wanted);
        assert!(published.steps() > 100);
    }

    #[test]
    fn users_do_the_same_in_orders_of_their_own() {
        let set = Multiset::published(false).unwrap();
        let sorted = |script: &str| {
            let mut lines: Vec<String> = script.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let (one, two) = (set.script(1), set.script(2));
        assert_ne!(one, two);
        assert_eq!(one, set.script(1));
        assert_eq!(sorted(&one), sorted(&two));
        assert_eq!(one.lines().count(), set.steps());
        assert!(one.contains("rm old/8\n") && !one.contains('@'));
    }

    #[test]
    fn a_line_goes_with_a_command_that_is_not_installed() {
        let text = "2 a,b a | b\n1 c c @\n";
        let mut set = Multiset::parse(text).unwrap();
        assert_eq!(set.leave_out(|name| name != "b"), ["b"]);
        assert_eq!(set.script(7), "c 1\n");
        assert!(Multiset::parse("0 a a\n").unwrap_err().contains("line 1"));
        assert!(Multiset::parse("# a\nb\n").unwrap_err().contains("line 2"));
    }
}

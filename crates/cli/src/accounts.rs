//! Names and numbers of users and groups.
//!
//! Not by the C library: a static program would load plugins that belong to the library of another
//! version, into itself. The files are read here; where `nsswitch.conf` names more than files, the
//! machine's own getent(1) is asked.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long an answer is believed: a report asks for thousands, a server lives for months.
const AGE: Duration = Duration::from_secs(60);
/// How long getent is waited for where a number would do. Who it asks may be far away, and not
/// answer: nobody is asked again then for [`AGE`].
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it is waited for where a name was typed, without whose number nothing can be done.
const NEED: Duration = Duration::from_secs(60);
/// Numbers that one getent is asked for.
const TOGETHER: usize = 1000;

/// What can be looked up.
#[derive(Clone, Copy, Debug)]
pub enum Accounts {
    /// Of `passwd`.
    Users,
    /// Of `group`.
    Groups,
}

/// What this thread knows of one kind.
type Remembered = RefCell<Option<Answers>>;

thread_local! {
    static FOUND: [Remembered; 2] = const { [Remembered::new(None), Remembered::new(None)] };
}

impl Accounts {
    /// The number of a name.
    pub fn number(self, name: &str) -> Option<u32> {
        self.with(|known| {
            if let Some(found) = known.numbers.get(name) {
                return *found;
            }
            let found = known.ask(|| self.ask(&[name.to_owned()], Instant::now() + NEED));
            let found = found.first().map(|(_, id)| *id);
            known.numbers.insert(name.to_owned(), found);
            found
        })
    }

    /// The name of a number.
    pub fn name(self, id: u32) -> Option<String> {
        self.with(|known| {
            if let Some(found) = known.names.get(&id) {
                return found.clone();
            }
            known.learn([id].into_iter(), |keys| self.ask(keys, patience()));
            known.names.get(&id).cloned().flatten()
        })
    }

    /// Looks for the names of many numbers at once: one by one each would start a program.
    pub fn learn(self, ids: impl Iterator<Item = u32>) {
        let until = patience();
        self.with(|known| known.learn(ids, |keys| self.ask(keys, until)));
    }

    fn with<T>(self, look: impl FnOnce(&mut Answers) -> T) -> T {
        FOUND.with(|known| {
            let mut known = known[self as usize].borrow_mut();
            let fresh = known.take().filter(|known| known.read.elapsed() < AGE);
            look(known.insert(fresh.unwrap_or_else(|| self.read())))
        })
    }

    /// Its name in `nsswitch.conf`, in `/etc`, and for getent.
    fn database(self) -> &'static str {
        match self {
            Accounts::Users => "passwd",
            Accounts::Groups => "group",
        }
    }

    fn read(self) -> Answers {
        let read = |name: &str| std::fs::read(format!("/etc/{name}")).unwrap_or_default();
        let lines = read(self.database());
        let switch = read("nsswitch.conf");
        let switch = String::from_utf8_lossy(&switch);
        Answers::of(
            &String::from_utf8_lossy(&lines),
            asks(&switch, self.database()),
        )
    }

    /// What getent says of names or numbers; `None` if it has not ended by then.
    fn ask(self, keys: &[String], until: Instant) -> Option<Vec<(String, u32)>> {
        let mut getent = Command::new("getent");
        getent.arg("--").arg(self.database()).args(keys);
        getent.stdin(Stdio::null()).stderr(Stdio::null());
        let Ok(mut getent) = getent.stdout(Stdio::piped()).spawn() else {
            return Some(Vec::new());
        };
        let said = getent.stdout.take().and_then(|out| whole(out, until));
        if said.is_none() {
            // It has ended, then.
            let _ = getent.kill();
        }
        let _ = getent.wait();
        let said = said?;
        let said = String::from_utf8_lossy(&said);
        Some(said.lines().filter_map(entry).collect())
    }
}

fn patience() -> Instant {
    Instant::now() + PATIENCE
}

/// All that is written to a pipe, if it ends by then.
fn whole(mut pipe: ChildStdout, until: Instant) -> Option<Vec<u8>> {
    let (mut said, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok()?;
        let ready = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&left));
        match ready {
            Ok(0) => return None,
            Err(rustix::io::Errno::INTR) => continue,
            _ => {}
        }
        match pipe.read(&mut part) {
            Ok(0) => return Some(said),
            Ok(len) => said.extend_from_slice(&part[..len]),
            Err(_) => return None,
        }
    }
}

/// What was found, `None` for what is not there.
struct Answers {
    read: Instant,
    /// Whether others know more than the file.
    asks: bool,
    names: HashMap<u32, Option<String>>,
    numbers: HashMap<String, Option<u32>>,
}

impl Answers {
    /// What the lines of a file say; of two with one name or number the first counts.
    fn of(lines: &str, asks: bool) -> Answers {
        let (mut names, mut numbers) = (HashMap::new(), HashMap::new());
        for (name, id) in lines.lines().filter_map(entry) {
            names.entry(id).or_insert_with(|| Some(name.clone()));
            numbers.entry(name).or_insert(Some(id));
        }
        Answers {
            read: Instant::now(),
            asks,
            names,
            numbers,
        }
    }

    /// What others say, if they are asked: not again once one has taken too long.
    fn ask(&mut self, ask: impl FnOnce() -> Option<Vec<(String, u32)>>) -> Vec<(String, u32)> {
        let said = self.asks.then(ask).flatten();
        self.asks &= said.is_some();
        said.unwrap_or_default()
    }

    /// Looks for the names of numbers that are not known.
    fn learn(
        &mut self,
        ids: impl Iterator<Item = u32>,
        mut ask: impl FnMut(&[String]) -> Option<Vec<(String, u32)>>,
    ) {
        let mut unknown: Vec<u32> = ids.filter(|id| !self.names.contains_key(id)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        for part in unknown.chunks(TOGETHER) {
            let keys: Vec<String> = part.iter().map(u32::to_string).collect();
            let said = self.ask(|| ask(&keys));
            // Of two with one number the first counts.
            let said: HashMap<u32, String> = said
                .into_iter()
                .rev()
                .map(|(name, id)| (id, name))
                .collect();
            for id in part {
                self.names.insert(*id, said.get(id).cloned());
            }
        }
    }
}

/// Name and number of a line `name:password:number:...`, as users and groups have it.
fn entry(line: &str) -> Option<(String, u32)> {
    let mut fields = line.split(':');
    let name = fields
        .next()
        .filter(|name| !name.starts_with(['#', '+', '-']))?;
    let id = fields.nth(1)?.parse().ok()?;
    (!name.is_empty()).then(|| (name.to_owned(), id))
}

/// Whether others than files are asked.
fn asks(switch: &str, database: &str) -> bool {
    let line = |line: &str| {
        Some(
            line.trim()
                .strip_prefix(database)?
                .strip_prefix(':')?
                .to_owned(),
        )
    };
    let Some(services) = switch.lines().find_map(line) else {
        return false;
    };
    let services = services.split('#').next().unwrap_or_default();
    services
        .split_whitespace()
        .any(|service| service != "files" && !service.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_the_first_of_two_counts() {
        let lines = "root:x:0:0:root:/root:/bin/bash\n# a note:x:7\n+nis:x:8\n\
                     toor:x:0:0::/root:/bin/sh\nalice:x:1000:1000\nbroken:x\n:x:9\n";
        let known = Answers::of(lines, false);
        assert_eq!(known.names[&0].as_deref(), Some("root"));
        assert_eq!(
            (known.numbers["toor"], known.numbers["alice"]),
            (Some(0), Some(1000))
        );
        assert_eq!((known.names.len(), known.numbers.len()), (2, 3));
    }

    #[test]
    fn others_are_asked_where_the_switch_names_them() {
        let switch =
            "# passwd: ldap\npasswd:  files systemd # both\ngroup: files [NOTFOUND=return]\n";
        assert!(asks(switch, "passwd"));
        assert!(!asks(switch, "group") && !asks(switch, "shadow") && !asks("", "passwd"));
    }

    #[test]
    fn this_machine_is_asked() {
        assert_eq!(Accounts::Users.number("root"), Some(0));
        assert_eq!(Accounts::Groups.name(0).as_deref(), Some("root"));
        assert_eq!(Accounts::Users.name(4_000_000_000), None);
        // getent itself, which a machine with files alone does not need.
        let ask = |accounts: Accounts, keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            accounts.ask(&keys, patience())
        };
        let root = || Some(vec![("root".to_owned(), 0)]);
        assert_eq!(
            ask(Accounts::Users, &["4000000000", "0", "4000000001"]),
            root()
        );
        assert_eq!(ask(Accounts::Groups, &["--help"]), Some(Vec::new()));
    }

    /// Once, a report of 3,000 users without names started as many programs, one after the other.
    #[test]
    fn many_numbers_are_asked_for_together_and_once() {
        let mut known = Answers::of("root:x:0:0::/root:/bin/sh\n", true);
        let mut asked = Vec::new();
        for _ in 0..2 {
            known.learn((0..3000).chain(0..3000), |keys| {
                asked.push((keys.len(), keys[0].clone()));
                Some(vec![("bob".to_owned(), 1500), ("rob".to_owned(), 1500)])
            });
        }
        let keys = |len, first: &str| (len, first.to_owned());
        assert_eq!(
            asked,
            [keys(1000, "1"), keys(1000, "1001"), keys(999, "2001")]
        );
        assert_eq!(known.names[&1500].as_deref(), Some("bob"));
        assert_eq!((&known.names[&7], known.names.len()), (&None, 3000));
    }

    #[test]
    fn who_does_not_answer_is_not_asked_again() {
        let mut known = Answers::of("", true);
        let mut asked = 0;
        for _ in 0..2 {
            known.learn(0..3000, |_| {
                asked += 1;
                None
            });
        }
        assert_eq!((asked, known.names.len()), (1, 3000));
        assert_eq!(known.ask(|| Some(vec![("bob".to_owned(), 1)])), []);
        // Nothing writes to it, and it does not end.
        let mut stays = Command::new("cat");
        let stays = stays.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut stays = stays.unwrap();
        assert_eq!(whole(stays.stdout.take().unwrap(), Instant::now()), None);
        drop(stays.stdin.take());
        stays.wait().unwrap();
    }
}

//! Names and numbers of users and groups.
//!
//! Not by the C library: a static program would load plugins that belong to the library of another
//! version, into itself. The files are read here; where `nsswitch.conf` names more than files, the
//! machine's own getent(1) is asked.

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long an answer is believed: a report asks for thousands, a server lives for months.
const AGE: Duration = Duration::from_secs(60);

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
            let found = known
                .asks
                .then(|| self.ask(name))
                .flatten()
                .map(|(_, id)| id);
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
            let asked = || self.ask(&id.to_string());
            let found = known.asks.then(asked).flatten().map(|(name, _)| name);
            known.names.insert(id, found.clone());
            found
        })
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

    fn ask(self, key: &str) -> Option<(String, u32)> {
        let mut getent = Command::new("getent");
        getent.arg("--").arg(self.database()).arg(key);
        let output = getent.stdin(Stdio::null()).stderr(Stdio::null()).output();
        entry(
            String::from_utf8_lossy(&output.ok()?.stdout)
                .lines()
                .next()?,
        )
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
        assert_eq!(Accounts::Users.ask("0"), Some(("root".to_owned(), 0)));
        assert_eq!(Accounts::Groups.ask("--help"), None);
    }
}

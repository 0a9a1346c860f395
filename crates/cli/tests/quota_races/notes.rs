//! What a racer did, written down for its parent, which makes the log of the round of it.

use super::log::Log;
use hearth::{Errno, QuotaId, QuotaKind, Resource};
use rustix::time::{ClockId, clock_gettime};

/// Stamps of before and after.
pub(crate) type Span = (u64, u64);

/// The accounts that were refused a resource at last, when nobody gave anything back.
pub(crate) type End = (Vec<QuotaId>, Resource);

/// Nanoseconds of a clock that all processes of the machine share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lines, one for each thing that happened.
#[derive(Default)]
pub(crate) struct Notes {
    lines: Vec<String>,
    pub(crate) refusals: usize,
}

impl Notes {
    pub(crate) fn charged(&mut self, begin: u64, owners: &[QuotaId], amounts: [u64; 2]) {
        self.changed("charged", begin, owners, amounts);
    }

    pub(crate) fn freed(&mut self, end: u64, owners: &[QuotaId], amounts: [u64; 2]) {
        self.changed("freed", end, owners, amounts);
    }

    fn changed(&mut self, how: &str, stamp: u64, owners: &[QuotaId], amounts: [u64; 2]) {
        if amounts != [0, 0] {
            let [pages, inodes] = amounts;
            let owners = words(owners);
            let line = format!("{how} {stamp} {owners} {pages} {inodes}");
            self.lines.push(line);
        }
    }

    pub(crate) fn refused(
        &mut self,
        what: &str,
        (begin, end): Span,
        owners: &[QuotaId],
        [pages, inodes]: [u64; 2],
        errno: Option<Errno>,
    ) {
        let (owners, errno) = (words(owners), errno.map_or(0, |errno| errno.0));
        let line = format!("refused {begin} {end} {owners} {pages} {inodes} {errno} {what}");
        self.lines.push(line);
        self.refusals += 1;
    }

    pub(crate) fn ended(&mut self, owners: &[QuotaId], resource: Resource) {
        let line = format!("ended {} {}", words(owners), resource as usize);
        self.lines.push(line);
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

/// Adds what a line says to a log and to the ends.
pub(crate) fn read(line: &str, log: &mut Log, ends: &mut Vec<End>) {
    let mut rest = line.splitn(8, ' ');
    let mut word = || {
        rest.next()
            .unwrap_or_else(|| panic!("'{line}' is cut short"))
    };
    let number = |word: &str| -> u64 {
        word.parse()
            .unwrap_or_else(|_| panic!("'{word}' in '{line}'"))
    };
    match word() {
        how @ ("charged" | "freed") => {
            let (stamp, owners) = (number(word()), owners(word()));
            let amounts = [number(word()), number(word())];
            match how {
                "charged" => log.charged(stamp, &owners, amounts),
                _ => log.freed(stamp, &owners, amounts),
            }
        }
        "refused" => {
            let (span, owners) = ((number(word()), number(word())), owners(word()));
            let asked = [number(word()), number(word())];
            let errno = match number(word()) {
                0 => None,
                errno => Some(Errno(errno as i32)),
            };
            log.refused(word(), span, &owners, asked, errno);
        }
        "ended" => {
            let (owners, resource) = (owners(word()), number(word()));
            ends.push((owners, Resource::ALL[resource as usize]));
        }
        _ => panic!("nobody says '{line}'"),
    }
}

fn words(owners: &[QuotaId]) -> String {
    let all: Vec<String> = owners.iter().map(QuotaId::to_string).collect();
    all.join(",")
}

fn owners(words: &str) -> Vec<QuotaId> {
    let owner = |word: &str| {
        let (kind, id) = word.split_once(':').expect("a kind and a number");
        let mut kinds = QuotaKind::ALL.into_iter();
        QuotaId {
            kind: kinds.find(|k| k.name() == kind).expect("a kind"),
            id: id.parse().expect("a number"),
        }
    };
    words.split(',').map(owner).collect()
}

mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_noted_is_read_and_a_false_refusal_in_it_is_found() {
        let owners = [QuotaId::user(1), QuotaId::group(2), QuotaId::project(3)];
        let mut notes = Notes::default();
        notes.charged(5, &owners, [3, 1]);
        notes.charged(6, &owners, [0, 0]);
        notes.refused("a write", (8, 9), &owners, [1, 0], Some(Errno::EDQUOT));
        notes.freed(12, &owners[1..2], [2, 0]);
        notes.ended(&owners, Resource::Blocks);
        let lines = notes.into_lines();
        assert_eq!(lines.len(), 4, "nothing is not worth a line");
        let log_of = |lines: &[String]| {
            let (mut log, mut ends) = (Log::default(), Vec::new());
            lines
                .iter()
                .for_each(|line| read(line, &mut log, &mut ends));
            assert_eq!(ends, [(owners.to_vec(), Resource::Blocks)]);
            Log::merged(vec![log])
        };
        let before = BTreeMap::from(owners.map(|who| (who, [0, 0])));
        let hard = |who: QuotaId| match who.kind {
            QuotaKind::User => [3, 9],
            _ => [u64::MAX, 9],
        };
        let log = log_of(&lines);
        assert_eq!(log.last(&before)[&owners[1]], [1, 1]);
        assert!(log.unjust(&before, hard).is_empty());
        // A write of the same, refused before anybody had charged.
        let mut planted = lines;
        planted[1] = planted[1].replace("refused 8 9", "refused 3 4");
        let unjust = log_of(&planted).unjust(&before, hard);
        assert!(
            unjust.len() == 1 && unjust[0].contains("a write"),
            "{unjust:?}"
        );
    }
}

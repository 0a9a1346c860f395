//! Ids that a user may act as beside its own, as containers without root do (`/etc/subuid`). To
//! shares of what there is they are that user: it has 65,536 of them and more.

use std::fs;
use std::ops::Range;

/// The subordinate ids of users.
#[derive(Debug, Default)]
pub struct SubordinateIds {
    /// In the order of the ids, each with the user who has them.
    ranges: Vec<(Range<u32>, u32)>,
}

impl SubordinateIds {
    /// Those that this machine's files tell now. None where they cannot be read.
    pub fn of_this_machine() -> SubordinateIds {
        let read = |path| fs::read(path).unwrap_or_default();
        let (ids, users) = (read("/etc/subuid"), read("/etc/passwd"));
        SubordinateIds::parse(
            &String::from_utf8_lossy(&ids),
            &String::from_utf8_lossy(&users),
        )
    }

    /// Lines of `user:first:count`, where the user is a name or a number.
    fn parse(ids: &str, users: &str) -> SubordinateIds {
        let number_of = |name: &str| {
            let mut lines = users.lines().map(|line| line.split(':'));
            let mut fields = lines.find(|fields| fields.clone().next() == Some(name))?;
            fields.nth(2)?.parse().ok()
        };
        let range_of = |line: &str| {
            let mut fields = line.split(':');
            let user = fields.next()?.trim();
            let first: u32 = fields.next()?.trim().parse().ok()?;
            let count: u32 = fields.next()?.trim().parse().ok()?;
            let user = user.parse().ok().or_else(|| number_of(user))?;
            // An id below is one of the machine's own.
            (first > 0).then_some((first..first.saturating_add(count), user))
        };
        let mut ranges: Vec<_> = ids.lines().filter_map(range_of).collect();
        ranges.sort_by_key(|(range, _)| range.start);
        SubordinateIds { ranges }
    }

    /// The user who has this id: itself if nobody has it beside its own.
    pub fn owner(&self, uid: u32) -> u32 {
        let behind = self.ranges.partition_point(|(range, _)| range.start <= uid);
        let before = behind.checked_sub(1).map(|at| &self.ranges[at]);
        match before {
            Some((range, user)) if range.contains(&uid) => *user,
            _ => uid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subordinate_id_is_its_users() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        let ids = "1001:165536:65536\nann:100000:65536\n# none\nnobody-here:1:1\nann:x:1\n";
        let found = SubordinateIds::parse(ids, users);
        let owner = |uid| found.owner(uid);
        assert_eq!([99_999, 100_000, 165_535].map(owner), [99_999, 1000, 1000]);
        assert_eq!(
            [165_536, 231_071, 231_072].map(owner),
            [1001, 1001, 231_072]
        );
        assert_eq!([0, 1, 1000, u32::MAX].map(owner), [0, 1, 1000, u32::MAX]);
        assert_eq!(SubordinateIds::default().owner(7), 7);
    }
}

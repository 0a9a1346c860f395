//! Ids that a user may act as beside its own, as containers without root do (`/etc/subuid`). To
//! shares of what there is they are that user: it has 65,536 of them and more.

use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;

/// The subordinate ids of users. Those of root count for themselves, as do those of this daemon's
/// user: no share binds these two, nor then a container to which they have given the ids.
#[derive(Debug, Default)]
pub struct SubordinateIds {
    /// In the order of the ids and without overlaps, each with the user who has them.
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
            geteuid().as_raw(),
        )
    }

    /// Lines of `user:first:count`, where the user is a name or a number. An id that two lines have
    /// belongs to the first one. `own` is the user of this daemon.
    fn parse(ids: &str, users: &str, own: u32) -> SubordinateIds {
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
            let is_bound = user != 0 && user != own;
            // An id below is one of the machine's own.
            (first > 0 && is_bound).then_some((first..first.saturating_add(count), user))
        };
        let told: Vec<_> = ids.lines().filter_map(range_of).collect();
        let ranges = without_overlaps(&told);
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

/// Ranges in the order of the ids. What several have is left to the one that came first.
fn without_overlaps(told: &[(Range<u32>, u32)]) -> Vec<(Range<u32>, u32)> {
    let of_range = |(line, (range, _)): (usize, &(Range<u32>, u32))| {
        let Range { start, end } = *range;
        [(start, line), (end, line)]
    };
    let mut edges: Vec<_> = told.iter().enumerate().flat_map(of_range).collect();
    edges.sort_unstable();
    // The lines that an id between two edges is in.
    let (mut lines, mut ranges, mut from) = (BTreeSet::<usize>::new(), Vec::new(), 0);
    for (at, line) in edges {
        if let Some(&first) = lines.first()
            && from < at
        {
            ranges.push((from..at, told[first].1));
        }
        // The first of its edges begins it, the second one ends it.
        if !lines.remove(&line) {
            lines.insert(line);
        }
        from = at;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subordinate_id_is_its_users() {
        let users = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        let ids = "1001:165536:65536\nann:100000:65536\n# none\nnobody-here:1:1\nann:x:1\n";
        let found = SubordinateIds::parse(ids, users, 900);
        let owner = |uid| found.owner(uid);
        assert_eq!([99_999, 100_000, 165_535].map(owner), [99_999, 1000, 1000]);
        assert_eq!(
            [165_536, 231_071, 231_072].map(owner),
            [1001, 1001, 231_072]
        );
        assert_eq!([0, 1, 1000, u32::MAX].map(owner), [0, 1, 1000, u32::MAX]);
        assert_eq!(SubordinateIds::default().owner(7), 7);
    }

    /// Once, containers whose ids root keeps could take all places.
    #[test]
    fn ids_of_root_and_of_the_daemon_are_their_own() {
        let users = "root:x:0:0::/root:/bin/sh\nserve:x:900:900::/:/bin/sh\n";
        let ids = "root:1000000:1000000000\n0:100:5\nserve:2000:10\n7:500000:10\n";
        let found = SubordinateIds::parse(ids, users, 900);
        let owner = |uid| found.owner(uid);
        assert_eq!([1_000_000, 102, 2005].map(owner), [1_000_000, 102, 2005]);
        // Also below what is kept for root.
        assert_eq!([1_500_000, 500_003].map(owner), [1_500_000, 7]);
    }

    /// Once, a short range hid the rest of a long one that it lies in.
    #[test]
    fn ranges_that_overlap_are_those_of_the_first_line() {
        let ids = "7:1000:1000\n8:1200:10\n8:900:200\n9:1500:1000\n9:4294967290:100\n";
        let found = SubordinateIds::parse(ids, "", 900);
        let owner = |uid| found.owner(uid);
        assert_eq!([900, 999, 1000, 1099].map(owner), [8, 8, 7, 7]);
        assert_eq!([1199, 1200, 1210, 1999].map(owner), [7, 7, 7, 7]);
        assert_eq!([2000, 2499, 2500].map(owner), [9, 9, 2500]);
        assert_eq!(owner(u32::MAX - 1), 9);
    }
}

//! Does a case commute? Compares results and state of both orders on the reference model.

use super::case::Case;
use super::reference::{After, Answer, TreeModels};
use hearth_model::Outcome;

/// Calls a side in the longer of the two compared windows. Varying names differ by number only, so
/// what holds for two holds for more.
const TWICE: usize = 2;

/// The verdict of the model on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commutes {
    /// Equal results and equal state in both orders.
    Yes,
    /// Commutes only with `noatime`.
    WithoutAtime,
    /// Results or state differ.
    No,
    /// Linux leaves the result open.
    Unspecified,
}

/// The results of a side's calls, errno or 0, which the library must give as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errnos {
    /// The first call.
    pub first: i32,
    /// Each call after it; `None` if Linux leaves that open.
    pub again: Option<i32>,
}

impl Errnos {
    /// Returns whether the `i`-th call may return `errno`.
    pub fn allow(self, i: usize, errno: i32) -> bool {
        match i {
            0 => errno == self.first,
            _ => self.again.is_none_or(|again| errno == again),
        }
    }
}

/// Returns the model's verdict on a case, and the results of either side.
pub fn commutes(trees: &mut TreeModels, case: &Case) -> (Commutes, [Errnos; 2]) {
    let (once, first) = orders(trees, case, 1);
    let answers = |again: [Option<i32>; 2]| {
        [0, 1].map(|side| Errnos {
            first: first[side],
            again: again[side],
        })
    };
    match once {
        Commutes::Yes | Commutes::WithoutAtime => match orders(trees, case, TWICE) {
            (Commutes::Yes, second) => (once, answers(second.map(Some))),
            // A second `truncate` to the same size moves times in tmpfs only; the first one is
            // decisive.
            (Commutes::Unspecified, _) => (once, answers([None; 2])),
            (other, second) => (other, answers(second.map(Some))),
        },
        other => (other, answers([None; 2])),
    }
}

/// Returns whether `count` calls a side commute, and the result of the last call of each side.
fn orders(trees: &mut TreeModels, case: &Case, count: usize) -> (Commutes, [i32; 2]) {
    let (first, one) = in_order(trees, case, [0, 1], count);
    let (second, other) = in_order(trees, case, [1, 0], count);
    let errnos = [0, 1].map(|side: usize| errno(&first[side][count - 1]));
    let is_open = |answer: &Answer| *answer == Answer::Plain(Outcome::Unspecified);
    let verdict = match () {
        () if first.iter().chain(&second).flatten().any(is_open) => Commutes::Unspecified,
        () if first != second => Commutes::No,
        () if one == other => Commutes::Yes,
        () if without_atime(one) == without_atime(other) => Commutes::WithoutAtime,
        () => Commutes::No,
    };
    (verdict, errnos)
}

fn in_order(
    trees: &mut TreeModels,
    case: &Case,
    order: [usize; 2],
    count: usize,
) -> ([Vec<Answer>; 2], After) {
    let mut reference = trees.state(case, count);
    let mut answers = [Vec::new(), Vec::new()];
    for side in order {
        let op = &case.sides[side];
        answers[side].extend((0..count).map(|i| reference.call(side, op, i)));
    }
    (answers, reference.after())
}

fn without_atime(mut after: After) -> After {
    after.aged.clear();
    after
}

fn errno(answer: &Answer) -> i32 {
    match answer {
        Answer::Plain(Outcome::Error(errno)) | Answer::Attr(Outcome::Error(errno), _) => *errno,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Sharing;
    use super::super::operation::{Dir, Name, Operation, Place, Slot};
    use super::super::verb::Verb;
    use super::*;

    fn op(verb: Verb, name: Name, choice: u8) -> Operation {
        let place = |name| Place {
            dir: Dir::First,
            name,
        };
        Operation {
            verb,
            on: place(name),
            to: None,
            slot: Slot::First,
            choice,
            value: 0,
        }
    }

    fn verdict(a: Operation, b: Operation, sharing: Sharing) -> Commutes {
        let case = Case {
            sides: [a, b],
            sharing,
            is_noatime: false,
        };
        commutes(&mut TreeModels::default(), &case).0
    }

    #[test]
    fn two_creates_commute_unless_they_are_of_one_name() {
        let create = |name| op(Verb::Exclusive, name, 0);
        let (m, n) = (create(Name::Missing), create(Name::Missing2));
        assert_eq!(verdict(m, n, Sharing::Threads), Commutes::Yes);
        assert_eq!(verdict(m, m, Sharing::Threads), Commutes::No);
    }

    #[test]
    fn stat_sees_the_change_time_of_a_concurrent_setxattr() {
        let stat = op(Verb::Stat, Name::File, 0);
        let change = op(Verb::SetXattr, Name::File, 0);
        assert_eq!(verdict(stat, change, Sharing::Processes), Commutes::No);
        let other = op(Verb::SetXattr, Name::File2, 0);
        assert_eq!(verdict(stat, other, Sharing::Processes), Commutes::Yes);
    }

    #[test]
    fn a_read_and_a_write_commute_on_different_pages_and_with_noatime() {
        let write = op(Verb::PWrite, Name::File, 0);
        let near = op(Verb::PRead, Name::File, 1);
        assert_eq!(
            verdict(write, near, Sharing::Threads),
            Commutes::WithoutAtime
        );
        let mut other = write;
        other.value = 1;
        let same = op(Verb::PRead, Name::File, 0);
        assert_eq!(verdict(other, same, Sharing::Threads), Commutes::No);
    }

    #[test]
    fn reads_of_one_offset_do_not_commute_and_of_two_do() {
        let read = op(Verb::Read, Name::File, 0);
        let seek = op(Verb::LSeek, Name::File, 1);
        assert_eq!(verdict(read, seek, Sharing::Kin), Commutes::No);
        assert_eq!(verdict(read, seek, Sharing::Processes), Commutes::Yes);
    }
}

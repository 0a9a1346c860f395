//! Pairs that commute by their results and may conflict all the same, each with its reason.

use super::case::{Case, Place};
use super::verb::Verb;

/// Why a conflict of this case is no fault; `None` if it is one.
pub fn reason(case: &Case) -> Option<&'static str> {
    let is = |a, b| (case.a, case.b) == (a, b) || (case.a, case.b) == (b, a);
    let same = matches!(case.place, Place::Same | Place::OtherPage);
    if is(Verb::Write, Verb::Write) && case.place == Place::Same {
        return Some("both write the same bytes to the same place: idempotent, not independent");
    }
    if (is(Verb::Read, Verb::Append) || is(Verb::Write, Verb::Append)) && same {
        return Some(
            "what lies below the end of a file is read and written, and append moves the end",
        );
    }
    if is(Verb::Dup, Verb::Dup) && same && case.is_one_process {
        return Some("the last close of an open file must be known at once, so they are counted");
    }
    None
}

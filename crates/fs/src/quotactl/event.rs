//! An event as a line of text.

use crate::quota::{Happening, QuotaEvent, Reason};
use std::fmt;

/// Number, time, whose, what, use, limit, and how often if more than once.
impl fmt::Display for QuotaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.sequence, self.time, self.who)?;
        match self.what {
            Happening::SoftCrossed { deadline } => write!(f, "soft-crossed until={deadline}"),
            Happening::GraceEnded => f.write_str("grace-ended"),
            Happening::SoftReturned => f.write_str("soft-returned"),
            Happening::HardCrossed => f.write_str("hard-crossed"),
            Happening::Refused(Reason::Hard) => f.write_str("refused-hard"),
            Happening::Refused(Reason::GraceEnded) => f.write_str("refused-grace-ended"),
        }?;
        write!(
            f,
            " {}={} limit={}",
            self.resource.name(),
            self.used,
            self.limit
        )?;
        match self.times {
            1 => Ok(()),
            times => write!(f, " times={times}"),
        }
    }
}

//! An event as a line of text.

use crate::quota::{QuotaEvent, QuotaEventKind, RefusalReason};
use std::fmt;

/// Sequence number, time, id, kind, file, use, limit, and the number of occurrences above one.
impl fmt::Display for QuotaEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.sequence, self.time)?;
        match self.who.known() {
            Some(_) => write!(f, "{} ", self.who)?,
            None => write!(f, "{}:unknown ", self.who.kind.name())?,
        }
        match self.what {
            QuotaEventKind::SoftCrossed { deadline } => write!(f, "soft-crossed until={deadline}"),
            QuotaEventKind::GraceEnded => f.write_str("grace-ended"),
            QuotaEventKind::SoftReturned => f.write_str("soft-returned"),
            QuotaEventKind::HardCrossed => f.write_str("hard-crossed"),
            QuotaEventKind::Refused(RefusalReason::Hard) => f.write_str("refused-hard"),
            QuotaEventKind::Refused(RefusalReason::GraceEnded) => {
                f.write_str("refused-grace-ended")
            }
            QuotaEventKind::WriteLost { errno, bytes } => {
                write!(f, "write-lost errno={errno:?} lost=")?;
                match bytes {
                    Some(bytes) => write!(f, "{bytes}"),
                    None => f.write_str("unknown"),
                }
            }
            QuotaEventKind::ProjectLeft { uid, pid } => {
                write!(f, "project-left by={uid} pid={pid}")
            }
        }?;
        if let Some(file) = &self.file {
            write!(f, " inode={}", file.ino)?;
            if let Some(generation) = file.generation {
                write!(f, " generation={generation}")?;
            }
            if let Some(path) = &file.path {
                // In quotes, so that a name with spaces or lines stays one word.
                write!(f, " path={:?}", String::from_utf8_lossy(path))?;
            }
        }
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

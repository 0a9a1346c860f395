//! Refusals for want of room, while room may be on its way back.
//!
//! The kernel tells of closed files and of inodes that it forgets by messages of their own, which
//! may be on their way when a call that has seen their effect asks for the room:
//! `docs/design/quota.md`, "Room that is on its way back".

use hearth::{Errno, Volume};
use hearth_sync::primitive::thread;
use std::time::Duration;

/// After so long what was refused is tried again. A tenth of a second together.
pub(crate) const PAUSES: [Duration; 6] = [
    Duration::from_micros(100),
    Duration::from_micros(400),
    Duration::from_micros(1_500),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(75),
];

/// How often an operation was refused.
#[derive(Debug, Default)]
pub(crate) struct Attempts(usize);

impl Attempts {
    /// How long to wait before the next: not at all the first time, since room may have come back.
    pub fn pause(&mut self) -> Duration {
        let before = self.0;
        self.0 += 1;
        match before {
            0 => Duration::ZERO,
            before => PAUSES.get(before - 1).copied().unwrap_or_default(),
        }
    }

    /// Whether the next one is the last.
    pub fn is_last(&self) -> bool {
        self.0 > PAUSES.len()
    }
}

/// Whether there was no room.
pub(crate) fn is_refusal<T>(result: &Result<T, Errno>) -> bool {
    matches!(result, Err(Errno::EDQUOT | Errno::ENOSPC))
}

/// Runs an operation until it is refused for good, on a thread that may wait.
pub(crate) fn keep_asking<T>(
    volume: &Volume,
    mut operation: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut result = operation();
    // At once the first time: room may have come back since.
    let mut pauses = [Duration::ZERO].into_iter().chain(PAUSES);
    while is_refusal(&result)
        && let Some(pause) = pauses.next()
    {
        thread::sleep(pause);
        // Looked at before: what has come back by then is there for this attempt.
        let hopes = volume.awaits_returns();
        result = operation();
        if !hopes {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth::Credentials;

    #[test]
    fn a_refusal_is_final_only_when_nothing_was_on_its_way_before_the_attempt() {
        let volume = Volume::memory();
        let mut asked = 0;
        let refused = keep_asking(&volume, || {
            asked += 1;
            Err::<(), _>(Errno::EDQUOT)
        });
        assert_eq!((refused, asked), (Err(Errno::EDQUOT), 2));
        // Somebody refers to a file that has no name any more.
        let process = volume.process(Credentials::root());
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = process.open("/f", flags, 0o600).unwrap();
        process.unlink("/f").unwrap();
        let mut asked = 0;
        let allowed = keep_asking(&volume, || {
            asked += 1;
            if asked == 4 {
                Ok(())
            } else {
                Err(Errno::ENOSPC)
            }
        });
        assert_eq!((allowed, asked), (Ok(()), 4));
        let failed = keep_asking(&volume, || Err::<(), _>(Errno::EIO));
        assert_eq!(failed, Err(Errno::EIO), "nothing is tried again but room");
        process.close(fd).unwrap();
        assert!(!volume.awaits_returns());
    }
}

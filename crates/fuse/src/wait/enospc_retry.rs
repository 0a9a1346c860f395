//! Retries after `ENOSPC` and `EDQUOT` while space may be on its way back.
//!
//! The kernel reports closed files and forgotten inodes in separate messages. These may still be on
//! their way when a caller that has seen the effect asks for the space: `docs/design/quota.md`,
//! "Room that is on its way back".

use hearth::provisional::attempt;
use hearth::{Errno, Volume};
use hearth_sync::primitive::thread;
use std::time::Duration;

/// The pauses between the retries, a tenth of a second in total.
const PAUSES: [Duration; 6] = [
    Duration::from_micros(100),
    Duration::from_micros(400),
    Duration::from_micros(1_500),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(75),
];

/// Counts how often an operation was refused.
#[derive(Debug, Default)]
pub(crate) struct Retries(usize);

impl Retries {
    /// Counts one more refusal. Returns the pause before the next attempt: zero the first time,
    /// because space may have come back since.
    pub fn pause(&mut self) -> Duration {
        let before = self.0;
        self.0 += 1;
        match before {
            0 => Duration::ZERO,
            before => PAUSES.get(before - 1).copied().unwrap_or_default(),
        }
    }

    /// Whether the next attempt is the last.
    pub fn is_last(&self) -> bool {
        self.0 > PAUSES.len()
    }
}

/// Whether the error says that no space is left.
pub(crate) fn is_enospc(errno: Errno) -> bool {
    matches!(errno, Errno::EDQUOT | Errno::ENOSPC)
}

/// Runs an operation until it succeeds, fails for another reason, or no space can come back. For
/// threads that may block.
pub(crate) fn retry_enospc<T>(
    volume: &Volume,
    mut operation: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut result = attempt(true, &mut operation);
    // The first retry has no pause: space may have come back since.
    let mut pauses = [Duration::ZERO].into_iter().chain(PAUSES).peekable();
    while result.as_ref().err().is_some_and(|&errno| is_enospc(errno))
        && let Some(pause) = pauses.next()
    {
        thread::sleep(pause);
        // Read before the attempt: the attempt finds whatever has come back by now.
        let may_return = volume.awaits_returns();
        let is_last = !may_return || pauses.peek().is_none();
        result = attempt(!is_last, &mut operation);
        if is_last {
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
        let refused = retry_enospc(&volume, || {
            asked += 1;
            Err::<(), _>(Errno::EDQUOT)
        });
        assert_eq!((refused, asked), (Err(Errno::EDQUOT), 2));
        // A descriptor refers to a file that has no name any more.
        let process = volume.process(Credentials::root());
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = process.open("/f", flags, 0o600).unwrap();
        process.unlink("/f").unwrap();
        let mut asked = 0;
        let allowed = retry_enospc(&volume, || {
            asked += 1;
            if asked == 4 {
                Ok(())
            } else {
                Err(Errno::ENOSPC)
            }
        });
        assert_eq!((allowed, asked), (Ok(()), 4));
        let failed = retry_enospc(&volume, || Err::<(), _>(Errno::EIO));
        assert_eq!(failed, Err(Errno::EIO), "only a lack of space is retried");
        process.close(fd).unwrap();
        assert!(!volume.awaits_returns());
    }
}

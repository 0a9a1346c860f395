//! A disk that neither answers nor fails, said as a line in the log of the daemon.

use crate::output::say;
use hearth::Volume;
use std::time::Duration;

/// How long a disk may be silent before that is said.
const SILENCE: Duration = Duration::from_secs(8);

/// Says once that the disk of a volume does not answer, and once that it does again.
pub struct DiskSilence {
    volume: Volume,
    /// The volume as it was typed.
    source: String,
    is_told: bool,
}

impl DiskSilence {
    /// Of a disk that answers.
    pub fn new(volume: &Volume, source: &str) -> DiskSilence {
        DiskSilence {
            volume: volume.clone(),
            source: source.to_owned(),
            is_told: false,
        }
    }

    /// Says what has changed since the last look.
    pub fn look(&mut self) {
        let silent = self.volume.disk_silent();
        let (source, is_silent) = (&self.source, silent >= SILENCE);
        if is_silent && !self.is_told {
            let seconds = silent.as_secs();
            say(format_args!(
                "{source}: a commit or a write-back has waited {seconds} s for the disk; syncs \
                 wait with it, what is in memory is served"
            ));
        } else if self.is_told && !is_silent {
            say(format_args!("{source}: the disk answers again"));
        }
        self.is_told = is_silent;
    }
}

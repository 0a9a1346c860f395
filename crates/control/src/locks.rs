//! `.hearth/locks` and `.hearth/locks.json`: the lock profile and its switch.

use hearth::{Errno, LockSampling, LockSort, Result, Volume};

pub(crate) fn table(volume: &Volume) -> String {
    volume.lock_profile().text(LockSort::default())
}

pub(crate) fn json(volume: &Volume) -> String {
    volume.lock_profile().json()
}

/// `on`, `exact`, `off`, `reset`.
pub(crate) fn switch(volume: &Volume, text: &str) -> Result<()> {
    let has_profile = match text {
        "on" => volume.start_lock_profile(LockSampling::Adaptive),
        "exact" => volume.start_lock_profile(LockSampling::All),
        "off" => {
            volume.stop_lock_profile();
            true
        }
        "reset" => {
            volume.reset_lock_profile();
            true
        }
        _ => return Err(Errno::EINVAL),
    };
    if has_profile {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

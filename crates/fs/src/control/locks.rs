//! `.hearth/locks` and `.hearth/locks.json`: the lock profile and its switch.

use crate::errno::{Errno, Result};
use crate::profile::{LockProfile, LockSampling, LockSort};
use crate::superblock::Superblock;
use hearth_sync::profile;

pub(super) fn table(_core: &Superblock) -> String {
    LockProfile::now().text(LockSort::default())
}

pub(super) fn json(_core: &Superblock) -> String {
    LockProfile::now().json()
}

/// `on`, `exact`, `off`, `reset`.
pub(super) fn switch(_core: &Superblock, text: &str) -> Result<()> {
    let has_profile = match text {
        "on" => profile::start(LockSampling::Adaptive),
        "exact" => profile::start(LockSampling::All),
        "off" => {
            profile::stop();
            true
        }
        "reset" => {
            profile::reset();
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

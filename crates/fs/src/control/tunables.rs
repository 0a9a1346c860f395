//! Tunables below `.hearth/sys`: each a number or a word, checked before it is taken.

use crate::errno::{Errno, Result};
use crate::volume::{AtimeMode, Core};
use std::time::Duration;

pub(super) fn memory_budget(core: &Core) -> String {
    format!("{}\n", core.resident.budget())
}

/// Bytes, 0 for no budget; less than 64 KiB could not hold one operation.
pub(super) fn set_memory_budget(core: &Core, text: &str) -> Result<()> {
    let bytes: u64 = text.parse().map_err(|_| Errno::EINVAL)?;
    if bytes != 0 && bytes < 64 << 10 {
        return Err(Errno::EINVAL);
    }
    core.resident.set_budget(bytes);
    Ok(())
}

const ATIMES: [(AtimeMode, &str); 3] = [
    (AtimeMode::Relatime, "relatime"),
    (AtimeMode::Strict, "strictatime"),
    (AtimeMode::No, "noatime"),
];

pub(super) fn atime(core: &Core) -> String {
    let mode = core.atime();
    let name = ATIMES
        .iter()
        .find(|(m, _)| *m == mode)
        .map_or("relatime", |(_, name)| name);
    format!("{name}\n")
}

pub(super) fn set_atime(core: &Core, text: &str) -> Result<()> {
    let (mode, _) = ATIMES
        .iter()
        .find(|(_, name)| *name == text)
        .ok_or(Errno::EINVAL)?;
    core.set_atime(*mode);
    Ok(())
}

pub(super) fn read_only(core: &Core) -> String {
    format!("{}\n", u8::from(core.is_read_only()))
}

pub(super) fn set_read_only(core: &Core, text: &str) -> Result<()> {
    let read_only = match text {
        "0" => false,
        "1" => true,
        _ => return Err(Errno::EINVAL),
    };
    core.set_read_only(read_only);
    Ok(())
}

/// Whether heat is tracked: 0 or 1.
pub(super) fn hot_track(core: &Core) -> String {
    format!("{}\n", u8::from(core.heat.is_on()))
}

pub(super) fn set_hot_track(core: &Core, text: &str) -> Result<()> {
    match text {
        "0" => core.heat.switch(false),
        "1" => core.heat.switch(true),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Seconds between two passes of ageing, as the seed's `hot-update-interval`.
pub(super) fn hot_update_interval(core: &Core) -> String {
    format!("{}\n", core.heat.settings.interval())
}

pub(super) fn set_hot_update_interval(core: &Core, text: &str) -> Result<()> {
    let seconds = text.parse().map_err(|_| Errno::EINVAL)?;
    core.heat.settings.set_interval(seconds)
}

/// Seconds after which a file that nobody uses is half as warm, and the same of the slow companion.
pub(super) fn hot_half_lives(core: &Core) -> String {
    let [short, long] = core.heat.settings.half_lives().seconds();
    format!("{short} {long}\n")
}

pub(super) fn set_hot_half_lives(core: &Core, text: &str) -> Result<()> {
    let number = |word: &str| word.parse().map_err(|_| Errno::EINVAL);
    let (short, long) = text.split_once(' ').ok_or(Errno::EINVAL)?;
    let lives = [number(short)?, number(long)?].map(Duration::from_secs);
    core.heat.set_half_lives(core, lives[0], lives[1])
}

/// MiB that records of heat may take, 0 for no limit, as the seed's `hot-mem-high-thresh`.
pub(super) fn hot_mem_high_thresh(core: &Core) -> String {
    format!("{}\n", core.heat.settings.memory())
}

pub(super) fn set_hot_mem_high_thresh(core: &Core, text: &str) -> Result<()> {
    let mib = text.parse().map_err(|_| Errno::EINVAL)?;
    core.heat.settings.set_memory(mib)?;
    core.heat.limit();
    Ok(())
}

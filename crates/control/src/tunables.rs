//! Tunables below `.hearth/sys`: each a number or a word, checked before it is taken.

use crate::entry::Setting;
use hearth::{AtimeMode, ControlError, Errno, Result, Volume};
use std::time::Duration;

/// Directory of the tunables, below `.hearth`.
pub(crate) const SYS: &str = "sys/";
/// Characters of a refused value that its refusal shows.
const MAX_SHOWN: usize = 64;

/// Why the setting at `path` did not take `input`, in one line.
pub(crate) fn refusal(path: &str, setting: &Setting, input: &[u8], errno: Errno) -> ControlError {
    let name = path.strip_prefix(SYS).unwrap_or(path);
    let input = String::from_utf8_lossy(input);
    let mut chars = input.trim().chars();
    let shown: String = chars.by_ref().take(MAX_SHOWN).collect();
    let shown = shown.escape_debug();
    let more = if chars.next().is_some() { "..." } else { "" };
    let why = match errno {
        Errno::EINVAL => format!("expected {}", setting.expected),
        // `locks` says so of a build without the lock profile.
        Errno::EOPNOTSUPP if path.starts_with(SYS) => {
            "the filesystem of the directory below decides that".to_owned()
        }
        _ => errno.to_string(),
    };
    ControlError {
        errno,
        reason: format!("{name} '{shown}{more}': {why}"),
    }
}

pub(crate) fn memory_budget(volume: &Volume) -> String {
    format!("{}\n", volume.memory_budget())
}

/// Refuses what has no effect on the files of a directory of the host.
fn check_own_files(volume: &Volume) -> Result<()> {
    match volume.stats().info().contains_key("below") {
        true => Err(Errno::EOPNOTSUPP),
        false => Ok(()),
    }
}

/// Bytes, 0 for no budget; less than 64 KiB could not hold one operation.
pub(crate) fn set_memory_budget(volume: &Volume, text: &str) -> Result<()> {
    let bytes: u64 = text.parse().map_err(|_| Errno::EINVAL)?;
    if bytes != 0 && bytes < 64 << 10 {
        return Err(Errno::EINVAL);
    }
    check_own_files(volume)?;
    volume.set_memory_budget(bytes);
    Ok(())
}

const ATIMES: [(AtimeMode, &str); 3] = [
    (AtimeMode::Relatime, "relatime"),
    (AtimeMode::Strict, "strictatime"),
    (AtimeMode::No, "noatime"),
];

pub(crate) fn atime(volume: &Volume) -> String {
    let mode = volume.atime();
    let name = ATIMES
        .iter()
        .find(|(m, _)| *m == mode)
        .map_or("relatime", |(_, name)| name);
    format!("{name}\n")
}

pub(crate) fn set_atime(volume: &Volume, text: &str) -> Result<()> {
    let (mode, _) = ATIMES
        .iter()
        .find(|(_, name)| *name == text)
        .ok_or(Errno::EINVAL)?;
    check_own_files(volume)?;
    volume.set_atime(*mode);
    Ok(())
}

pub(crate) fn read_only(volume: &Volume) -> String {
    format!("{}\n", u8::from(volume.read_only()))
}

pub(crate) fn set_read_only(volume: &Volume, text: &str) -> Result<()> {
    let read_only = match text {
        "0" => false,
        "1" => true,
        _ => return Err(Errno::EINVAL),
    };
    volume.set_read_only(read_only);
    Ok(())
}

/// Whether heat is tracked: 0 or 1.
pub(crate) fn hot_track(volume: &Volume) -> String {
    format!("{}\n", u8::from(volume.heat().is_on()))
}

pub(crate) fn set_hot_track(volume: &Volume, text: &str) -> Result<()> {
    match text {
        "0" => volume.heat().switch(false),
        "1" => volume.heat().switch(true),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Seconds between two passes of ageing, as the seed's `hot-update-interval`.
pub(crate) fn hot_update_interval(volume: &Volume) -> String {
    format!("{}\n", volume.heat().interval())
}

pub(crate) fn set_hot_update_interval(volume: &Volume, text: &str) -> Result<()> {
    let seconds = text.parse().map_err(|_| Errno::EINVAL)?;
    volume.heat().set_interval(seconds)
}

/// The short and the long half-life in seconds.
pub(crate) fn hot_half_lives(volume: &Volume) -> String {
    let [short, long] = volume.heat().half_lives();
    format!("{short} {long}\n")
}

pub(crate) fn set_hot_half_lives(volume: &Volume, text: &str) -> Result<()> {
    let number = |word: &str| word.parse().map_err(|_| Errno::EINVAL);
    let (short, long) = text.split_once(' ').ok_or(Errno::EINVAL)?;
    let lives = [number(short)?, number(long.trim_start())?].map(Duration::from_secs);
    volume.heat().set_half_lives(lives[0], lives[1])
}

/// MiB that records of heat may take, 0 for no limit, as the seed's `hot-mem-high-thresh`.
pub(crate) fn hot_mem_high_thresh(volume: &Volume) -> String {
    format!("{}\n", volume.heat().memory())
}

pub(crate) fn set_hot_mem_high_thresh(volume: &Volume, text: &str) -> Result<()> {
    let mib = text.parse().map_err(|_| Errno::EINVAL)?;
    volume.heat().set_memory(mib)
}

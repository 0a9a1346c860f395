//! Tunables below `.hearth/sys`: each a number or a word, checked before it is taken.

use super::{FILES, Setting, Takes};
use crate::errno::{Errno, Result};
use crate::superblock::{AtimeMode, Superblock};
use std::time::Duration;

/// Directory of the tunables, below `.hearth`.
const SYS: &str = "sys/";
/// Characters of a refused value that its refusal shows.
const MOST_SHOWN: usize = 64;

/// One line a tunable: its name below `sys`, a tab, what it takes.
pub(super) fn help(_core: &Superblock) -> String {
    let lines = FILES.iter().filter_map(|file| match &file.takes {
        Takes::Setting(setting) => {
            let name = file.path.strip_prefix(SYS)?;
            Some(format!("{name}\t{}\n", setting.expected))
        }
        _ => None,
    });
    lines.collect()
}

/// Why the setting at `path` did not take `input`, in one line.
pub(super) fn refusal(path: &str, setting: &Setting, input: &[u8], errno: Errno) -> String {
    let name = path.strip_prefix(SYS).unwrap_or(path);
    let input = String::from_utf8_lossy(input);
    let mut chars = input.trim().chars();
    let shown: String = chars.by_ref().take(MOST_SHOWN).collect();
    let shown = shown.escape_debug();
    let more = if chars.next().is_some() { "..." } else { "" };
    match errno {
        Errno::EINVAL => format!("{name} '{shown}{more}': expected {}\n", setting.expected),
        _ => format!("{name} '{shown}{more}': {errno}\n"),
    }
}

pub(super) fn memory_budget(sb: &Superblock) -> String {
    format!("{}\n", sb.cache.mem_usage.budget())
}

/// Bytes, 0 for no budget; less than 64 KiB could not hold one operation.
pub(super) fn set_memory_budget(sb: &Superblock, text: &str) -> Result<()> {
    let bytes: u64 = text.parse().map_err(|_| Errno::EINVAL)?;
    if bytes != 0 && bytes < 64 << 10 {
        return Err(Errno::EINVAL);
    }
    sb.cache.mem_usage.set_budget(bytes);
    Ok(())
}

const ATIMES: [(AtimeMode, &str); 3] = [
    (AtimeMode::Relatime, "relatime"),
    (AtimeMode::Strict, "strictatime"),
    (AtimeMode::No, "noatime"),
];

pub(super) fn atime(sb: &Superblock) -> String {
    let mode = sb.atime();
    let name = ATIMES
        .iter()
        .find(|(m, _)| *m == mode)
        .map_or("relatime", |(_, name)| name);
    format!("{name}\n")
}

pub(super) fn set_atime(sb: &Superblock, text: &str) -> Result<()> {
    let (mode, _) = ATIMES
        .iter()
        .find(|(_, name)| *name == text)
        .ok_or(Errno::EINVAL)?;
    sb.set_atime(*mode);
    Ok(())
}

pub(super) fn read_only(sb: &Superblock) -> String {
    format!("{}\n", u8::from(sb.is_read_only()))
}

pub(super) fn set_read_only(sb: &Superblock, text: &str) -> Result<()> {
    let read_only = match text {
        "0" => false,
        "1" => true,
        _ => return Err(Errno::EINVAL),
    };
    sb.set_read_only(read_only);
    Ok(())
}

/// Whether heat is tracked: 0 or 1.
pub(super) fn hot_track(sb: &Superblock) -> String {
    format!("{}\n", u8::from(sb.heat.is_on()))
}

pub(super) fn set_hot_track(sb: &Superblock, text: &str) -> Result<()> {
    match text {
        "0" => sb.heat.switch(false),
        "1" => sb.heat.switch(true),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Seconds between two passes of ageing, as the seed's `hot-update-interval`.
pub(super) fn hot_update_interval(sb: &Superblock) -> String {
    format!("{}\n", sb.heat.settings.interval())
}

pub(super) fn set_hot_update_interval(sb: &Superblock, text: &str) -> Result<()> {
    let seconds = text.parse().map_err(|_| Errno::EINVAL)?;
    sb.heat.settings.set_interval(seconds)
}

/// Seconds after which a file that nobody uses is half as warm, and the same of the slow companion.
pub(super) fn hot_half_lives(sb: &Superblock) -> String {
    let [short, long] = sb.heat.settings.half_lives().seconds();
    format!("{short} {long}\n")
}

pub(super) fn set_hot_half_lives(sb: &Superblock, text: &str) -> Result<()> {
    let number = |word: &str| word.parse().map_err(|_| Errno::EINVAL);
    let (short, long) = text.split_once(' ').ok_or(Errno::EINVAL)?;
    let lives = [number(short)?, number(long.trim_start())?].map(Duration::from_secs);
    sb.heat.set_half_lives(sb, lives[0], lives[1])
}

/// MiB that records of heat may take, 0 for no limit, as the seed's `hot-mem-high-thresh`.
pub(super) fn hot_mem_high_thresh(sb: &Superblock) -> String {
    format!("{}\n", sb.heat.settings.memory())
}

pub(super) fn set_hot_mem_high_thresh(sb: &Superblock, text: &str) -> Result<()> {
    let mib = text.parse().map_err(|_| Errno::EINVAL)?;
    sb.heat.settings.set_memory(mib)?;
    sb.heat.limit();
    Ok(())
}

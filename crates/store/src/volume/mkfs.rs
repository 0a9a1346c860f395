//! Making a volume. The superblock is written last: without it there is none.

use super::ballast::Ballast;
use super::fields::random;
use super::file_names::{LOCK, SEGMENTS, UNFINISHED};
use super::superblock::{self, Slot, Superblock, WRAPPED_MOST};
use super::witness::{Testimony, Witness};
use super::{BLOCK, LOG_FILES, MkfsOptions, Parts, log_name};
use crate::disk::Disk;
use crate::error::{Error, Result};

const NEW_SUPERBLOCK: &str = "superblock.new";
/// Files and folders of a volume besides the superblock.
pub(super) const OWN: [&str; 7] = [
    NEW_SUPERBLOCK,
    super::witness::NAME,
    LOCK,
    "log",
    SEGMENTS,
    "engine",
    "ballast",
];
/// What a directory may hold that counts as empty.
const IGNORED: &str = "lost+found";
const CHUNK: usize = 1 << 20;
/// Bytes of an empty volume besides the log and the ballast, at most.
const SMALL: u64 = 1 << 20;
/// The smallest file of a log, in bytes.
const LOG_LEAST: u64 = 4 * BLOCK;

/// Makes a volume in an empty directory.
pub(crate) fn mkfs(parts: &Parts, options: &MkfsOptions) -> Result<()> {
    let disk = &*parts.disk;
    check_options(options)?;
    clear(disk)?;
    let made = make(parts, options);
    let is_volume = || {
        disk.list("")
            .is_ok_and(|names| names.iter().any(|n| n == superblock::NAME))
    };
    if made.is_err() && !is_volume() {
        // The directory is as it was before, as far as that goes.
        for name in OWN.iter().chain(&[UNFINISHED]) {
            let _ = disk.remove(name);
        }
    }
    made.map_err(|error| match error {
        Error::NoSpace { .. } => Error::NoRoomToMake {
            path: disk.place().to_path_buf(),
            needs: least_room(options.log_len),
        },
        error => error,
    })
}

/// Bytes that an empty volume takes: the log, as much ballast, and what is small.
fn least_room(log_len: u64) -> u64 {
    2 * LOG_FILES * log_len + SMALL
}

fn make(parts: &Parts, options: &MkfsOptions) -> Result<()> {
    let disk = &*parts.disk;
    make_log(disk, options.log_len)?;
    drop(disk.create(LOCK)?);
    disk.make_dir(SEGMENTS)?;
    // The first checkpoint may already find a full disk.
    if !Ballast::open(disk, options.log_len)?.fill() {
        return Err(Error::NoSpace {
            what: "make the volume",
        });
    }
    parts.engines.create()?;
    let slot = Slot {
        id: options.id.map_or_else(random, Ok)?,
        incarnation: random()?,
        sequence: 1,
        name_key: random()?,
        size: options.size,
        codec: options.codec,
        cipher: options.cipher,
        log_blocks: (options.log_len / BLOCK) as u32,
        wrapped_keys: options.wrapped_keys.clone(),
        ..Slot::default()
    };
    let testimony = Testimony {
        incarnation: slot.incarnation,
        ..Testimony::default()
    };
    Witness::create(disk, &testimony)?;
    Superblock::create(disk, NEW_SUPERBLOCK, &slot)?;
    disk.sync_dir("")?;
    disk.rename(NEW_SUPERBLOCK, superblock::NAME)?;
    disk.sync_dir("")?;
    disk.remove(UNFINISHED)?;
    disk.sync_dir("")
}

fn check_options(options: &MkfsOptions) -> Result<()> {
    if options.wrapped_keys.len() > WRAPPED_MOST {
        let most = WRAPPED_MOST as u64;
        let what = "the list of wrapped keys";
        return Err(Error::TooLarge { what, most });
    }
    let most = u64::from(u32::MAX) / LOG_FILES * BLOCK;
    let is_taken = options.log_len >= LOG_LEAST && options.log_len <= most;
    if !options.log_len.is_multiple_of(BLOCK) || !is_taken {
        let what = "a file of the log that is no multiple of 4,096, is below 16,384, or";
        return Err(Error::TooLarge { what, most });
    }
    Ok(())
}

/// Refuses a directory that is in use for something, and removes what an unfinished `mkfs` left.
fn clear(disk: &dyn Disk) -> Result<()> {
    let names = disk.list("").map_err(|error| match error {
        error if error.is_absent() => Error::NotAVolume {
            path: disk.place().to_path_buf(),
            why: "it is no directory",
        },
        error => error,
    })?;
    let is_ours = names.iter().any(|name| name == UNFINISHED)
        && !names.iter().any(|name| name == superblock::NAME);
    let foreign = names.iter().find(|name| {
        let is_own = is_ours && (*name == UNFINISHED || OWN.contains(&&name[..]));
        !is_own && *name != IGNORED
    });
    if let Some(name) = foreign {
        let what = match names.iter().any(|name| name == superblock::NAME) {
            true => "a volume".to_owned(),
            false => name.to_owned(),
        };
        let path = disk.place().to_path_buf();
        return Err(Error::NotEmpty { path, what });
    }
    if !is_ours {
        drop(disk.create(UNFINISHED)?);
        return disk.sync_dir("");
    }
    for name in OWN {
        disk.remove(name)?;
    }
    disk.sync_dir("")
}

/// Makes the files of the log and fills them: only a file that holds data is written over without
/// a commit of the filesystem below.
fn make_log(disk: &dyn Disk, file_len: u64) -> Result<()> {
    disk.make_dir("log")?;
    let zeros = vec![0; CHUNK.min(file_len as usize)];
    for number in 0..LOG_FILES {
        let file = disk.create(&log_name(number))?;
        let mut at = 0;
        while at < file_len {
            let count = zeros.len().min((file_len - at) as usize);
            file.write_at(at, &zeros[..count])?;
            at += count as u64;
        }
        file.sync()?;
    }
    disk.sync_dir("log")
}

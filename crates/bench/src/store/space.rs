//! What files take on the disk, and what a day of changes writes to it.

use super::disk::Disk;
use super::site::noise;
use super::targets::Target;
use crate::children::output;
use crate::failure::Context;
use crate::random::Random;
use crate::stats::Metric;
use crate::watchdog::beat;
use std::fs::File;
use std::io::{Error, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const PER_FILE: Metric = ("bytes_per_file", "bytes on disk per file");
pub const FACTOR: Metric = (
    "bytes_written_per_byte",
    "bytes written to the disk per byte given",
);

const IDLE: usize = 20_000;
/// Changes between two syncs.
const BETWEEN: usize = 20;

/// Bytes on disk of an idle file of 100 bytes, and bytes written for each byte given in a churn at
/// 80 % full; neither for a volume in memory.
pub fn measure(target: &mut Target, disk: &Disk, is_quick: bool) -> Result<(f64, f64), String> {
    let Some(kept) = target.kept.clone() else {
        return Ok((0.0, 0.0));
    };
    let root = target.fresh(0)?;
    let files = if is_quick { IDLE / 10 } else { IDLE };
    // Mounted anew, it has nothing in a log that was there before.
    target.chill()?;
    let before = used(&kept)?;
    for n in 0..files {
        let directory = root.join(format!("d{}", n / 1_000));
        if n % 1_000 == 0 {
            std::fs::create_dir(&directory).at(&directory)?;
        }
        let name = directory.join(n.to_string());
        let made = File::create(&name).and_then(|mut file| file.write_all(&[7; 100]));
        made.at(&name)?;
    }
    sync(&root)?;
    target.chill()?;
    let idle = used(&kept)?.saturating_sub(before) as f64 / files as f64;
    Ok((idle, churn(&root, disk)?))
}

/// Fills the disk to 80 % and changes a half of that: overwrites, replaces and lengthens.
fn churn(root: &Path, disk: &Disk) -> Result<f64, String> {
    let (mut random, block) = (Random::new(3), noise(1 << 20));
    let mut files: Vec<PathBuf> = Vec::new();
    let size = |random: &mut Random| 4096 << random.below(8);
    while filled(disk.path())? < 0.8 {
        let name = root.join(format!("c{}", files.len()));
        let length = size(&mut random) as usize;
        let made = File::create(&name).and_then(|mut file| file.write_all(&block[..length]));
        made.at(&name)?;
        files.push(name);
        if files.len().is_multiple_of(100) {
            beat();
            sync(root)?;
        }
    }
    sync(root)?;
    disk.settle();
    let (before, mut given) = (disk.counts()?, 0_u64);
    for change in 0..files.len() / 2 {
        let name = &files[random.below(files.len() as u64) as usize];
        let length = size(&mut random) as usize / 2;
        let changed = (|| {
            let file = match random.below(4) {
                0 => {
                    std::fs::remove_file(name)?;
                    File::create(name)?
                }
                _ => File::options().write(true).open(name)?,
            };
            let place = random.below(file.metadata()?.len() / 4096 + 1) * 4096;
            file.write_all_at(&block[..length], place)?;
            match change % BETWEEN {
                0 => file.sync_all(),
                _ => Ok::<(), Error>(()),
            }
        })();
        match changed {
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => break,
            changed => changed.at(name)?,
        }
        given += length as u64;
        beat();
    }
    sync(root)?;
    disk.settle();
    Ok(disk.counts()?.since(before).bytes_written as f64 / given.max(1) as f64)
}

/// Everything in the filesystem of a directory is on its disk.
fn sync(root: &Path) -> Result<(), String> {
    output(Command::new("sync").arg("-f").arg(root)).map(drop)
}

/// Bytes that a directory takes.
fn used(kept: &Path) -> Result<u64, String> {
    let said = output(Command::new("du").args(["-s", "-B1"]).arg(kept))?;
    let bytes = said
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    bytes.ok_or(format!("du: {said}"))
}

/// The share of a disk that is in use.
fn filled(disk: &Path) -> Result<f64, String> {
    let said = output(
        Command::new("df")
            .args(["--output=size,avail", "-B1"])
            .arg(disk),
    )?;
    let words: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
    match words[..] {
        [size, free] => Ok(1.0 - free / size),
        _ => Err(format!("df: {said}")),
    }
}

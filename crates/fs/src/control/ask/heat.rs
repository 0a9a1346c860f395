//! Questions about heat.

use super::NoAnswer;
use crate::caller::Credentials;
use crate::control::heat::{self, By};
use crate::errno::Errno;
use crate::heat::{Heat, HeatRank};
use crate::volume::Volume;
use std::time::Duration;

pub(super) const HELP: &str = "\
heat top BY RANK MOST SINCE hottest first, as JSON; BY file|range|dir|user|group|project, RANK
                           accesses|reads|writes|bytes, used within SINCE milliseconds or -
heat info INO CELLS        one file, and so many temperatures along it
heat ranges INO            ranges of one file that have records, in its order
heat map MOST CELLS        the hottest files, and so many temperatures along each
heat what-if BYTES...      shares that fast tiers would have served, these sizes among them
heat export AFTER MOST     lines for .hearth/heat/import, of so many files above an inode number,
                           the last of them the number to go on with, or -";

/// Largest number of rows, files and cells that may be asked for.
const MOST: usize = 1 << 20;

pub(super) fn answer(
    volume: &Volume,
    asker: &Credentials,
    words: &[&str],
) -> Result<String, NoAnswer> {
    let heat = volume.heat();
    if let ["info" | "ranges", ino, ..] = words {
        let ino = number(ino)?;
        may_see(volume, asker, Some(ino))?;
        return match words {
            ["info", _, cells] => Ok(format!("{}\n", heat::info(heat, ino, size(cells)?)?)),
            ["ranges", _] => Ok(heat::lines(Ok(heat::ranges_of(heat, ino)?))),
            _ => Err(unknown(words)),
        };
    }
    may_see(volume, asker, None)?;
    match words {
        ["top", by, rank, most, since] => {
            let rows = heat::top(heat, ranked(by)?, rank_of(rank)?, size(most)?, time(since)?)?;
            Ok(heat::lines(Ok(rows)))
        }
        ["map", most, cells] => Ok(heat::lines(Ok(heat::map(heat, size(most)?, size(cells)?)?))),
        ["what-if", sizes @ ..] => {
            let sizes: Result<Vec<u64>, NoAnswer> = sizes.iter().map(|size| number(size)).collect();
            Ok(format!("{}\n", heat::what_if(heat, &sizes?)))
        }
        ["export", after, most] => export(heat, number(after)?, size(most)?),
        _ => Err(unknown(words)),
    }
}

fn export(heat: Heat<'_>, after: u64, most: usize) -> Result<String, NoAnswer> {
    let done = heat.export(after, most)?;
    let next = done.next.map_or("-".to_owned(), |ino| ino.to_string());
    Ok(format!("{}{next}\n", done.lines))
}

/// What everybody does is for the owner of the volume, one file also for the owner of the file.
fn may_see(volume: &Volume, asker: &Credentials, ino: Option<u64>) -> Result<(), NoAnswer> {
    // It may not be in memory.
    let owns = || {
        let attr = ino.and_then(|ino| volume.vfs().getattr(ino).ok());
        attr.is_some_and(|attr| attr.uid == asker.uid)
    };
    if volume.heat().may_see(asker.uid, None) || owns() {
        return Ok(());
    }
    let reason = match ino {
        Some(_) => "the heat of a file is for its owner, the owner of the mount, and root",
        None => "the heat of all files is for the owner of the mount and root",
    };
    Err(NoAnswer {
        errno: Errno::EACCES,
        reason: reason.to_owned(),
    })
}

fn ranked(word: &str) -> Result<By, NoAnswer> {
    Ok(match word {
        "file" => By::File,
        "range" => By::Range,
        "dir" => By::Directory,
        "user" => By::User,
        "group" => By::Group,
        "project" => By::Project,
        _ => {
            let expected = "file, range, dir, user, group or project";
            return Err(NoAnswer::nonsense(format!("'{word}' is not {expected}")));
        }
    })
}

fn rank_of(word: &str) -> Result<HeatRank, NoAnswer> {
    Ok(match word {
        "accesses" => HeatRank::Accesses,
        "reads" => HeatRank::Reads,
        "writes" => HeatRank::Writes,
        "bytes" => HeatRank::Bytes,
        _ => {
            let expected = "accesses, reads, writes or bytes";
            return Err(NoAnswer::nonsense(format!("'{word}' is not {expected}")));
        }
    })
}

fn number(word: &str) -> Result<u64, NoAnswer> {
    let number = word.parse();
    number.map_err(|_| NoAnswer::nonsense(format!("'{word}' is not a number of 0 or more")))
}

fn size(word: &str) -> Result<usize, NoAnswer> {
    let size = word.parse().ok().filter(|size| (1..=MOST).contains(size));
    size.ok_or_else(|| NoAnswer::nonsense(format!("'{word}' is not 1 to {MOST}")))
}

/// Milliseconds, or `-` for ever.
fn time(word: &str) -> Result<Option<Duration>, NoAnswer> {
    match word {
        "-" => Ok(None),
        _ => match number(word)? {
            0 => Err(NoAnswer::nonsense("'0' is not a time to look back")),
            ms => Ok(Some(Duration::from_millis(ms))),
        },
    }
}

fn unknown(words: &[&str]) -> NoAnswer {
    let words = words.join(" ");
    NoAnswer::nonsense(format!("'heat {words}' is no question; ask 'help'"))
}

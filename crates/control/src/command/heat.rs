//! Commands about heat. Answers are JSON.

use crate::heat::{self, By};
use hearth::heat::{Heat, HeatRank};
use hearth::{ControlError, Credentials, Errno, Volume};
use std::time::Duration;

pub(super) const HELP: &str = "\
heat top BY RANK MOST SINCE hottest first, as JSON; BY file|range|dir|user|group|project, RANK
                           accesses|reads|writes|bytes|temperature, used within SINCE
                           milliseconds or -
heat info INO CELLS        one file, and so many temperatures along it
heat ranges INO            ranges of one file that have records, in its order
heat map MOST CELLS        the hottest files, and so many temperatures along each
heat what-if BYTES...      shares that fast tiers would have served, these sizes among them
heat export AFTER MOST     lines for .hearth/heat/import, of so many files above an inode number,
                           the last of them the number to go on with, or -";

/// Largest number of rows and files of a request.
const MOST: usize = 1 << 20;
/// Largest number of temperatures along a file: as many as a wide picture has points.
const MOST_CELLS: usize = 1 << 12;

pub(super) fn run(
    volume: &Volume,
    caller: &Credentials,
    words: &[&str],
) -> Result<String, ControlError> {
    let heat = volume.heat();
    if let ["info" | "ranges", ino, ..] = words {
        let ino = number(ino)?;
        may_see(volume, caller, Some(ino))?;
        return match words {
            ["info", _, cells] => {
                let info = heat::info(heat, ino, self::cells(cells)?)?;
                Ok(format!("{info}\n"))
            }
            ["ranges", _] => Ok(heat::lines(Ok(heat::ranges_of(heat, ino)?))),
            _ => Err(unknown(words)),
        };
    }
    may_see(volume, caller, None)?;
    match words {
        ["top", by, rank, most, since] => {
            let rows = heat::top(heat, ranked(by)?, rank_of(rank)?, size(most)?, time(since)?)?;
            Ok(heat::lines(Ok(rows)))
        }
        ["map", most, cells] => {
            let rows = heat::map(heat, size(most)?, self::cells(cells)?)?;
            Ok(heat::lines(Ok(rows)))
        }
        ["what-if", sizes @ ..] => {
            let sizes: Result<Vec<u64>, ControlError> =
                sizes.iter().map(|size| number(size)).collect();
            Ok(format!("{}\n", heat::what_if(heat, &sizes?)))
        }
        ["export", after, most] => export(heat, number(after)?, size(most)?),
        _ => Err(unknown(words)),
    }
}

fn export(heat: Heat<'_>, after: u64, most: usize) -> Result<String, ControlError> {
    let part = heat.export(after, most)?;
    let next = part.next.map_or("-".to_owned(), |ino| ino.to_string());
    Ok(format!("{}{next}\n", heat::export_text(&part.records)))
}

/// The heat of all files is for the owner of the volume, that of one file also for its owner.
fn may_see(volume: &Volume, caller: &Credentials, ino: Option<u64>) -> Result<(), ControlError> {
    if volume.heat().may_see(caller.uid, ino) {
        return Ok(());
    }
    let reason = match ino {
        Some(_) => "the heat of a file is for its owner, the owner of the mount, and root",
        None => "the heat of all files is for the owner of the mount and root",
    };
    Err(ControlError {
        errno: Errno::EACCES,
        reason: reason.to_owned(),
    })
}

fn ranked(word: &str) -> Result<By, ControlError> {
    Ok(match word {
        "file" => By::File,
        "range" => By::Range,
        "dir" => By::Directory,
        "user" => By::User,
        "group" => By::Group,
        "project" => By::Project,
        _ => {
            let expected = "file, range, dir, user, group or project";
            return Err(ControlError::invalid(format!("'{word}' is not {expected}")));
        }
    })
}

fn rank_of(word: &str) -> Result<HeatRank, ControlError> {
    Ok(match word {
        "accesses" => HeatRank::Accesses,
        "reads" => HeatRank::Reads,
        "writes" => HeatRank::Writes,
        "bytes" => HeatRank::Bytes,
        "temperature" => HeatRank::Temperature,
        _ => {
            let expected = "accesses, reads, writes, bytes or temperature";
            return Err(ControlError::invalid(format!("'{word}' is not {expected}")));
        }
    })
}

fn number(word: &str) -> Result<u64, ControlError> {
    let number = word.parse();
    number.map_err(|_| ControlError::invalid(format!("'{word}' is not a number of 0 or more")))
}

fn size(word: &str) -> Result<usize, ControlError> {
    up_to(MOST, "", word)
}

fn cells(word: &str) -> Result<usize, ControlError> {
    up_to(MOST_CELLS, " cells", word)
}

fn up_to(most: usize, of: &str, word: &str) -> Result<usize, ControlError> {
    let size = word.parse().ok().filter(|size| (1..=most).contains(size));
    size.ok_or_else(|| ControlError::invalid(format!("'{word}' is not 1 to {most}{of}")))
}

/// Milliseconds, or `-` for ever.
fn time(word: &str) -> Result<Option<Duration>, ControlError> {
    match word {
        "-" => Ok(None),
        _ => match number(word)? {
            0 => Err(ControlError::invalid("'0' is not a time to look back")),
            ms => Ok(Some(Duration::from_millis(ms))),
        },
    }
}

fn unknown(words: &[&str]) -> ControlError {
    let words = words.join(" ");
    ControlError::invalid(format!("'heat {words}' is no question; ask 'help'"))
}

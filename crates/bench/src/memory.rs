//! `hearth-bench memory`: what a file costs, and whether lookups stay flat.

use crate::lookup;
use crate::options::Options;
use crate::row::{Row, write_json};
use crate::table::{Table, short};
use hearth::{Credentials, Process, Volume};
use std::time::Instant;

/// Files of the large volumes.
const FILES: usize = 1_000_000;
/// How the names of files begin; a number follows.
const NAME: &str = "file-";
/// What a file may cost, entry and inode together.
const BYTES_MAX: f64 = 512.0;
/// What a lookup among the most files may take of what it takes on tmpfs.
const LOOKUP_MAX: f64 = 1.0;
/// The verb by which this program measures one volume in a process of its own.
pub const FILL: &str = "memory-fill";

/// Runs the benchmark and prints its table.
///
/// # Errors
/// A file or a lookup costs more than it may, or a listing is not of the names that were made.
pub fn run(options: &Options) -> Result<(), String> {
    let files = if options.quick { FILES / 10 } else { FILES };
    let mut rows = Vec::new();
    let mut table = Table::new(["in memory".to_owned(), "value".to_owned()]);
    let mut add = |workload: String, target: &str, metric, value: f64, unit| {
        table.row([format!("{workload}, {target}, {metric}"), short(value)]);
        rows.push(Row {
            bench: "memory",
            workload,
            target: target.to_owned(),
            tasks: 1,
            metric,
            value,
            unit,
            runs: 1,
            ci95: 0.0,
        });
    };
    let mut dearest = 0.0f64;
    for directories in [1, 1_000] {
        let cost = fill_apart(files, directories)?;
        let name = format!("{files} empty files in {directories} directories");
        add(name.clone(), "lib", "bytes_per_file", cost.bytes, "B");
        add(name.clone(), "lib", "us_per_create", cost.create_us, "us");
        add(name, "lib", "us_per_list", cost.list_us, "us");
        dearest = dearest.max(cost.bytes);
    }
    let (mut few, mut most) = (None, None);
    for count in [1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .filter(|&n| n <= files)
    {
        let name = format!("stat among {count}");
        let price = lookup::price(count)?;
        add(name.clone(), "lib", "ns_per_op", price.library, "ns");
        add(name.clone(), "tmpfs", "ns_per_op", price.tmpfs, "ns");
        most = Some((count, price.library / price.tmpfs));
        let first = few.get_or_insert((price.library, price.tmpfs));
        let (added, tmpfs_added) = (price.library - first.0, price.tmpfs - first.1);
        add(name.clone(), "lib", "added_ns_per_op", added, "ns");
        add(name, "tmpfs", "added_ns_per_op", tmpfs_added, "ns");
    }
    println!("{}", table.text());
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    judge(dearest, most)
}

/// Judges the dearest file, and the lookup among the most files: how many they are, and what it
/// takes of what tmpfs takes.
fn judge(dearest: f64, most: Option<(usize, f64)>) -> Result<(), String> {
    let mut over = Vec::new();
    if dearest > BYTES_MAX {
        over.push(format!(
            "a file costs {dearest:.0} bytes, more than {BYTES_MAX:.0}"
        ));
    }
    match most {
        Some((files, ratio)) if ratio <= LOOKUP_MAX => {
            println!("A stat among {files} takes {ratio:.2} of what it takes on tmpfs");
        }
        Some((files, ratio)) => over.push(format!(
            "a stat among {files} takes {ratio:.2} of what it takes on tmpfs, wanted {LOOKUP_MAX}"
        )),
        None => over.push("no lookup was measured".to_owned()),
    }
    match over.is_empty() {
        true => Ok(()),
        false => Err(over.join("; ")),
    }
}

struct Cost {
    bytes: f64,
    create_us: f64,
    list_us: f64,
}

/// [`fill`] in a process of its own, whose memory nobody has used before.
fn fill_apart(files: usize, directories: usize) -> Result<Cost, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = std::process::Command::new(program);
    child.args([FILL, &files.to_string(), &directories.to_string()]);
    let output = child.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    match *numbers {
        [bytes, create_us, list_us] => Ok(Cost {
            bytes,
            create_us,
            list_us,
        }),
        _ => Err(format!("three numbers expected, not '{text}'")),
    }
}

/// The process of `fill_apart`: `args` are the files and the directories.
///
/// # Errors
/// The library refuses, or a listing is not of the names that were made.
pub fn run_fill(args: &[String]) -> Result<(), String> {
    let number = |n: usize| {
        args.get(n)
            .and_then(|arg| arg.parse().ok())
            .ok_or("two numbers")
    };
    let cost = fill(number(0)?, number(1)?)?;
    println!("{} {} {}", cost.bytes, cost.create_us, cost.list_us);
    Ok(())
}

/// Makes a volume of empty files and measures it.
fn fill(files: usize, directories: usize) -> Result<Cost, String> {
    let volume = Volume::memory();
    let process = volume.process(Credentials::root());
    let failed = |errno: hearth::Errno| errno.to_string();
    for n in 0..directories {
        process.mkdir(format!("/dir-{n}"), 0o755).map_err(failed)?;
    }
    let before = resident()?;
    let start = Instant::now();
    for n in 0..files {
        let path = format!("/dir-{}/{NAME}{n}", n % directories);
        process
            .mknod(path, libc::S_IFREG | 0o644, 0)
            .map_err(failed)?;
    }
    let create_us = start.elapsed().as_secs_f64() * 1e6 / files as f64;
    // What growing tables left behind is no part of a file.
    for _ in 0..1_000 {
        hearth_sync::epoch::pin().flush();
    }
    let bytes = (resident()? as f64 - before as f64) / files as f64;
    let start = Instant::now();
    list(&process, directories, |_, _| ())?;
    let list_us = start.elapsed().as_secs_f64() * 1e6;
    // Once more, where nothing is timed.
    let mut listed = Listed::new(files, directories);
    list(&process, directories, |dir, name| listed.add(dir, name))?;
    listed.check()?;
    Ok(Cost {
        bytes,
        create_us,
        list_us,
    })
}

/// Calls `each` with every name that a directory lists and the number of the directory.
fn list(
    process: &Process,
    directories: usize,
    mut each: impl FnMut(usize, &[u8]),
) -> Result<(), String> {
    let failed = |errno: hearth::Errno| errno.to_string();
    for n in 0..directories {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let dir = process
            .open(format!("/dir-{n}"), flags, 0)
            .map_err(failed)?;
        let add = &mut |entry: hearth::DirEntry<'_>| {
            each(n, entry.name);
            true
        };
        process.getdents(dir, add).map_err(failed)?;
        process.close(dir).map_err(failed)?;
    }
    Ok(())
}

/// The names that listings have shown, against those that were made: `file-N` in the directory
/// whose number is the remainder of N.
struct Listed {
    seen: Vec<bool>,
    directories: usize,
    /// Names that nobody made, or that came twice.
    strange: Vec<String>,
}

impl Listed {
    fn new(files: usize, directories: usize) -> Listed {
        Listed {
            seen: vec![false; files],
            directories,
            strange: Vec::new(),
        }
    }

    fn add(&mut self, directory: usize, name: &[u8]) {
        if matches!(name, b"." | b"..") {
            return;
        }
        let text = String::from_utf8_lossy(name);
        let number = text
            .strip_prefix(NAME)
            .and_then(|n| n.parse::<usize>().ok());
        let is_made = |&n: &usize| {
            let is_here = n < self.seen.len() && n % self.directories == directory;
            is_here && text == format!("{NAME}{n}") && !self.seen[n]
        };
        match number.filter(is_made) {
            Some(n) => self.seen[n] = true,
            None => self.strange.push(format!("{directory}/{text}")),
        }
    }

    fn check(&self) -> Result<(), String> {
        let missing = self.seen.iter().filter(|&&seen| !seen).count();
        match (missing, self.strange.first()) {
            (0, None) => Ok(()),
            (_, strange) => Err(format!(
                "{missing} of {} files are not listed, {} names are too many{}",
                self.seen.len(),
                self.strange.len(),
                strange.map_or(String::new(), |name| format!(", as dir-{name}"))
            )),
        }
    }
}

/// Bytes of this process that are in memory.
fn resident() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|e| e.to_string())?;
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.ok_or("/proc/self/statm has no second column")? * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[(usize, &str)]) -> Result<(), String> {
        let mut listed = Listed::new(4, 2);
        for (directory, name) in names {
            listed.add(*directory, name.as_bytes());
        }
        listed.check()
    }

    #[test]
    fn a_listing_is_of_exactly_the_names_that_were_made() {
        let made = [(0, "file-0"), (0, "file-2"), (1, "file-3"), (1, "file-1")];
        let dots = [(0, "."), (1, "..")];
        assert_eq!(listed(&[&made[..], &dots].concat()), Ok(()));
        // As many names as were made, but not those.
        for wrong in [(0, "file-0"), (0, "file-1"), (1, "file-01"), (1, "other")] {
            let said = listed(&[&made[..3], &[wrong]].concat()).unwrap_err();
            assert!(
                said.contains("1 of 4 files are not listed, 1 names") && said.contains(wrong.1),
                "{said}"
            );
        }
    }

    #[test]
    fn a_lookup_among_the_most_files_may_take_what_it_takes_on_tmpfs() {
        assert_eq!(judge(BYTES_MAX, Some((1_000_000, 1.0))), Ok(()));
        let said = judge(BYTES_MAX, Some((1_000_000, 1.01))).unwrap_err();
        assert!(said.contains("among 1000000 takes 1.01"), "{said}");
        assert!(judge(BYTES_MAX + 1.0, Some((10, 0.5))).is_err());
        assert!(judge(1.0, None).is_err());
    }
}

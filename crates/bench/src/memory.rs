//! `hearth-bench memory`: what a file costs, and whether lookups stay flat.

use crate::lookup;
use crate::options::Options;
use crate::row::{Row, write_json};
use crate::table::{Table, short};
use hearth::{Credentials, Process, Volume};
use std::time::Instant;

/// Files of the large volumes.
const FILES: usize = 1_000_000;
/// What a file may cost, entry and inode together.
const BYTES_MAX: f64 = 512.0;
/// The verb by which this program measures one volume in a process of its own.
pub const FILL: &str = "memory-fill";

/// Runs the benchmark and prints its table.
///
/// # Errors
/// A file costs more than it may, or a listing is not complete.
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
    let mut few = None;
    for count in [1_000, 10_000, 100_000, 1_000_000]
        .into_iter()
        .filter(|&n| n <= files)
    {
        let name = format!("stat among {count}");
        let price = lookup::price(count)?;
        add(name.clone(), "lib", "ns_per_op", price.library, "ns");
        add(name.clone(), "tmpfs", "ns_per_op", price.tmpfs, "ns");
        let first = few.get_or_insert((price.library, price.tmpfs));
        let (added, tmpfs_added) = (price.library - first.0, price.tmpfs - first.1);
        add(name.clone(), "lib", "added_ns_per_op", added, "ns");
        add(name, "tmpfs", "added_ns_per_op", tmpfs_added, "ns");
    }
    println!("{}", table.text());
    if let Some(path) = &options.json {
        write_json(path, &rows)?;
    }
    if dearest > BYTES_MAX {
        return Err(format!(
            "a file costs {dearest:.0} bytes, more than {BYTES_MAX:.0}"
        ));
    }
    Ok(())
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
/// The library refuses, or a listing is not complete.
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
        let path = format!("/dir-{}/file-{n}", n % directories);
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
    let listed = list(&process, directories)?;
    let list_us = start.elapsed().as_secs_f64() * 1e6;
    if listed != files {
        return Err(format!("{listed} of {files} files are listed"));
    }
    Ok(Cost {
        bytes,
        create_us,
        list_us,
    })
}

fn list(process: &Process, directories: usize) -> Result<usize, String> {
    let mut listed = 0;
    for n in 0..directories {
        let path = format!("/dir-{n}");
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let dir = process
            .open(&path, flags, 0)
            .map_err(|errno| errno.to_string())?;
        let mut count = 0;
        let each = &mut |_: hearth::DirEntry<'_>| {
            count += 1;
            true
        };
        process
            .getdents(dir, each)
            .map_err(|errno| errno.to_string())?;
        process.close(dir).map_err(|errno| errno.to_string())?;
        listed += count - 2;
    }
    Ok(listed)
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

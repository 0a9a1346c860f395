//! Jobs of a fixed size in a directory; each goes on with what those before it left.

use super::latencies;
use super::site::{Site, noise};
use crate::failure::Context;
use crate::git_checkout::Checkout;
use crate::random::Random;
use crate::row::OPS_PER_SECOND;
use crate::stats::Metric;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A job, and what its figure is.
pub struct Chore {
    pub name: &'static str,
    pub metric: Metric,
    pub tasks: usize,
    /// Nothing may be in a cache when it begins.
    pub is_cold: bool,
    /// How many syncs it has acknowledged, if they are counted.
    pub syncs: Option<fn(part: usize) -> usize>,
    pub run: fn(&Site<'_>) -> Result<f64, String>,
}

pub const MIB_PER_SECOND: Metric = ("mib_per_s", "MiB/s");
pub const SECONDS: Metric = ("s", "s");
pub const FLUSHES: Metric = ("flushes_per_fsync", "flushes of the disk per fsync");
pub const WRITES: Metric = ("writes_per_fsync", "writes of the disk per fsync");
pub const CREATE_SYNC: &str = "create+fsync 4 KiB";
pub const CHECKOUT: &str = "git checkout, 3,000 files";

const FILES: usize = 4_000;
const PER_DIRECTORY: usize = 100;
const SYNCS_BY_ONE: usize = 1_600;
const SYNCS_BY_MANY: usize = 200;
const TASKS: usize = 16;
const BIG_MIB: usize = 256;
const OVERWRITES: usize = 4_000;
const INSERTS: usize = 1_600;

const fn job(
    name: &'static str,
    metric: Metric,
    run: fn(&Site<'_>) -> Result<f64, String>,
) -> Chore {
    Chore {
        name,
        metric,
        tasks: 1,
        is_cold: false,
        syncs: None,
        run,
    }
}

const BY_ONE: Chore = Chore {
    syncs: Some(|part| SYNCS_BY_ONE / part),
    ..job(CREATE_SYNC, OPS_PER_SECOND, |site| {
        create_and_sync(site, 1, SYNCS_BY_ONE)
    })
};
const BY_MANY: Chore = Chore {
    tasks: TASKS,
    syncs: Some(|part| SYNCS_BY_MANY / part * TASKS),
    ..job(CREATE_SYNC, OPS_PER_SECOND, |site| {
        create_and_sync(site, TASKS, SYNCS_BY_MANY)
    })
};
const SQLITE: Chore = Chore {
    syncs: Some(|part| INSERTS / part),
    ..job("sqlite, synchronous=full", OPS_PER_SECOND, sqlite)
};

/// All, in their order.
pub const ALL: &[Chore] = &[
    job("create", OPS_PER_SECOND, create),
    job("stat", OPS_PER_SECOND, stat),
    job("open+read", OPS_PER_SECOND, open_and_read),
    job("list", OPS_PER_SECOND, list),
    job("rename", OPS_PER_SECOND, rename),
    // Before the job that begins cold: a volume in memory has everything there, a store nothing.
    job("unlink", OPS_PER_SECOND, unlink),
    BY_ONE,
    BY_MANY,
    job("write 256 MiB + fsync", MIB_PER_SECOND, write_big),
    Chore {
        is_cold: true,
        ..job("cold read 256 MiB", MIB_PER_SECOND, read_big)
    },
    job("4,000 overwrites + fsync", OPS_PER_SECOND, overwrite),
    SQLITE,
    job(CHECKOUT, SECONDS, checkout),
    job(latencies::ALONE, latencies::P99, latencies::alone),
    job(latencies::BESIDE, latencies::P99, latencies::beside),
    job(latencies::CREATES, latencies::P999, latencies::creates),
];

/// Those that wait for the disk.
pub const SYNCS: &[Chore] = &[BY_ONE, BY_MANY, SQLITE];

fn names(site: &Site<'_>) -> Vec<PathBuf> {
    let name = |n| site.root.join(format!("d{}/f{n}", n / PER_DIRECTORY));
    (0..FILES / site.part).map(name).collect()
}

/// Operations a second of one on each of the files.
fn each(
    site: &Site<'_>,
    mut operation: impl FnMut(&Path) -> std::io::Result<()>,
) -> Result<f64, String> {
    let names = names(site);
    let begin = Instant::now();
    for name in &names {
        operation(name).at(name)?;
    }
    Ok(names.len() as f64 / begin.elapsed().as_secs_f64())
}

fn create(site: &Site<'_>) -> Result<f64, String> {
    for n in 0..(FILES / site.part).div_ceil(PER_DIRECTORY) {
        let path = site.root.join(format!("d{n}"));
        fs::create_dir(&path).at(&path)?;
    }
    each(site, |name| File::create(name)?.write_all(&[7; 1024]))
}

fn stat(site: &Site<'_>) -> Result<f64, String> {
    each(site, |name| fs::symlink_metadata(name).map(drop))
}

fn open_and_read(site: &Site<'_>) -> Result<f64, String> {
    let mut buffer = [0; 1024];
    each(site, |name| File::open(name)?.read_exact(&mut buffer))
}

fn list(site: &Site<'_>) -> Result<f64, String> {
    let (begin, mut seen) = (Instant::now(), 0);
    for n in 0..(FILES / site.part).div_ceil(PER_DIRECTORY) {
        let path = site.root.join(format!("d{n}"));
        seen += fs::read_dir(&path).at(&path)?.count();
    }
    if seen != FILES / site.part {
        return Err(format!("{seen} names"));
    }
    Ok(seen as f64 / begin.elapsed().as_secs_f64())
}

fn rename(site: &Site<'_>) -> Result<f64, String> {
    let there = each(site, |name| fs::rename(name, name.with_extension("x")))?;
    let back = each(site, |name| fs::rename(name.with_extension("x"), name))?;
    Ok(2.0 / (1.0 / there + 1.0 / back))
}

fn unlink(site: &Site<'_>) -> Result<f64, String> {
    each(site, |name| fs::remove_file(name))
}

fn create_and_sync(site: &Site<'_>, tasks: usize, files: usize) -> Result<f64, String> {
    let files = files / site.part;
    let root = site.root.join(format!("sync{tasks}"));
    fs::create_dir(&root).at(&root)?;
    let work = |task: usize| {
        for n in 0..files {
            let name = root.join(format!("f{task}-{n}"));
            let made = File::create(&name).and_then(|mut file| {
                file.write_all(&[7; 4096])?;
                file.sync_all()
            });
            made.at(&name)?;
        }
        Ok::<(), String>(())
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..tasks).map(|n| scope.spawn(move || work(n))).collect();
        let ended = tasks.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended
            .into_iter()
            .try_for_each(|done| done.map_err(|_| "a task panicked")?)
    })?;
    Ok((tasks * files) as f64 / begin.elapsed().as_secs_f64())
}

fn write_big(site: &Site<'_>) -> Result<f64, String> {
    let mib = BIG_MIB / site.part;
    let path = site.root.join("big");
    let block = noise(1 << 20);
    let begin = Instant::now();
    let write = || {
        let mut file = File::create(&path)?;
        (0..mib).try_for_each(|_| file.write_all(&block))?;
        file.sync_all()
    };
    write().at(&path)?;
    Ok(mib as f64 / begin.elapsed().as_secs_f64())
}

fn read_big(site: &Site<'_>) -> Result<f64, String> {
    let path = site.root.join("big");
    let mut block = vec![0; 1 << 20];
    let begin = Instant::now();
    let mut read = || {
        let mut file = File::open(&path)?;
        (0..BIG_MIB / site.part).try_for_each(|_| file.read_exact(&mut block))
    };
    read().at(&path)?;
    Ok((BIG_MIB / site.part) as f64 / begin.elapsed().as_secs_f64())
}

fn overwrite(site: &Site<'_>) -> Result<f64, String> {
    let path = site.root.join("big");
    let mut random = Random::new(1);
    let (pages, times) = (BIG_MIB / site.part * 256, OVERWRITES / site.part);
    let block = noise(4096);
    let begin = Instant::now();
    let mut write = || {
        let file = File::options().write(true).open(&path)?;
        for _ in 0..times {
            file.write_all_at(&block, random.below(pages as u64) * 4096)?;
        }
        file.sync_all()
    };
    write().at(&path)?;
    Ok(times as f64 / begin.elapsed().as_secs_f64())
}

fn sqlite(site: &Site<'_>) -> Result<f64, String> {
    let times = INSERTS / site.part;
    let insert = "INSERT INTO t (b) VALUES (randomblob(200));\n".repeat(times);
    let script = format!(
        "PRAGMA journal_mode=wal; PRAGMA synchronous=full;
         CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB);\n{insert}"
    );
    let failed = |error: std::io::Error| format!("sqlite3: {error}");
    let begin = Instant::now();
    let mut sqlite = Command::new("sqlite3");
    sqlite.args(["-bail", "t.db"]).current_dir(site.root);
    let sqlite = sqlite.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut sqlite = sqlite.spawn().map_err(failed)?;
    if let Some(mut input) = sqlite.stdin.take() {
        input.write_all(script.as_bytes()).map_err(failed)?;
    }
    match sqlite.wait().map_err(failed)? {
        done if done.success() => Ok(times as f64 / begin.elapsed().as_secs_f64()),
        done => Err(format!("sqlite3 ended with {done}")),
    }
}

fn checkout(site: &Site<'_>) -> Result<f64, String> {
    let repository = Checkout::new((30 / site.part).max(1))?;
    repository.run(&site.root.join("clone"))
}

//! How long single calls take beside somebody who writes much.

use super::site::{Site, at, noise};
use crate::histogram::Histogram;
use crate::row::Metric;
use crate::watchdog::beat;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const P99: Metric = ("us_p99", "us, p99");
pub const P999: Metric = ("us_p99_9", "us, p99.9");
pub const ALONE: &str = "fsync of a small file, alone";
pub const BESIDE: &str = "fsync of a small file, beside 1 GiB of dirty data";
pub const CREATES: &str = "create, while flushing";

const SYNCS: usize = 400;
const CREATED: usize = 20_000;
const DIRTY_MIB: usize = 1_024;

/// p99 of a small file's fsync, in microseconds.
pub fn alone(site: &Site<'_>) -> Result<f64, String> {
    syncs(site, "alone", || false)
}

/// p99 of it while another task writes 1 GiB that nobody syncs, and after that.
pub fn beside(site: &Site<'_>) -> Result<f64, String> {
    let path = site.root.join("dirty");
    let is_writing = AtomicBool::new(true);
    let block = noise(1 << 20);
    let done = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let write = || {
                let mut file = File::create(&path)?;
                (0..DIRTY_MIB / site.part).try_for_each(|_| file.write_all(&block))
            };
            let written = write().map_err(at(&path));
            // Relaxed: a flag by itself.
            is_writing.store(false, Ordering::Relaxed);
            written
        });
        let found = syncs(site, "beside", || is_writing.load(Ordering::Relaxed));
        writer.join().map_err(|_| "the writer panicked")??;
        found
    });
    let _ = std::fs::remove_file(&path);
    done
}

/// p99.9 of creates while another task writes and syncs 32 MiB again and again.
pub fn creates(site: &Site<'_>) -> Result<f64, String> {
    let (big, root) = (site.root.join("flushed"), site.root.join("created"));
    std::fs::create_dir(&root).map_err(at(&root))?;
    let is_over = AtomicBool::new(false);
    let block = noise(1 << 20);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let write = || {
                let mut file = File::create(&big)?;
                (0..32).try_for_each(|_| file.write_all(&block))?;
                file.sync_all()
            };
            // Relaxed: as above.
            while !is_over.load(Ordering::Relaxed) {
                write().map_err(at(&big))?;
            }
            Ok::<(), String>(())
        });
        let mut seen = Histogram::new();
        let create = |n: usize| {
            let name = root.join(n.to_string());
            let begin = Instant::now();
            File::create(&name).map_err(at(&name))?;
            Ok::<_, String>(begin.elapsed().as_nanos() as u64)
        };
        let created = (0..CREATED / site.part).try_for_each(|n| {
            seen.add(create(n)?);
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        created.map(|()| seen.percentile(0.999) as f64 / 1e3)
    })
}

/// p99 over a number of syncs, and over more for as long as it `goes_on`.
fn syncs(site: &Site<'_>, name: &str, goes_on: impl Fn() -> bool) -> Result<f64, String> {
    let path = site.root.join(name);
    let failed = at(&path);
    let file = File::create(&path).map_err(&failed)?;
    let (mut seen, mut n) = (Histogram::new(), 0_u64);
    while (n as usize) < SYNCS / site.part || goes_on() {
        beat();
        file.write_all_at(&[n as u8; 4096], n % 16 * 4096)
            .map_err(&failed)?;
        let begin = Instant::now();
        file.sync_all().map_err(&failed)?;
        seen.add(begin.elapsed().as_nanos() as u64);
        n += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(seen.percentile(0.99) as f64 / 1e3)
}
